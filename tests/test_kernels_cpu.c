/* Elementwise ops of the CPU's table, and conversions, against their formulas, which are written out plainly here.
 * Shapes, strides, repeats and dtypes are random, and nothing but the output's elements may change. Ops in which an
 * element's place has a meaning are in test_kernels_places.c, matrix products in test_matmul_cpu.c. */
#include "cpu_ops.h"

/* ---- elementwise ---- */

static double unary_formula(mtk_unary_op op, double s, double x)
{
    switch (op) {
    case MTK_COPY:
        return x;
    case MTK_NEGATE:
        return -x;
    case MTK_ABS:
        return x < 0 ? -x : x;
    case MTK_EXP:
        return exp(x);
    case MTK_SQRT:
        return sqrt(x) + s;
    case MTK_RSQRT:
        return 1 / sqrt(x);
    case MTK_SIGMOID:
        return 1 / (1 + exp(-x));
    case MTK_LOG:
        return log(x);
    case MTK_POWER:
        return pow(x, s);
    case MTK_ADD_SCALAR:
        return x + s;
    case MTK_MUL_SCALAR:
        return x * s;
    case MTK_DIV_SCALAR:
        return x / s;
    case MTK_EQUAL_SCALAR:
        return x == s ? 1 : 0;
    }
    return NAN;
}

static double binary_formula(mtk_binary_op op, double s, double a, double b)
{
    switch (op) {
    case MTK_ADD:
        return a + b;
    case MTK_SUBTRACT:
        return a - b;
    case MTK_MULTIPLY:
        return a * b;
    case MTK_DIVIDE:
        return a / b;
    case MTK_EQUAL:
        return a == b ? 1 : 0;
    case MTK_SIGMOID_GRAD:
        return a * b * (1 - b);
    case MTK_LERP:
        return a + s * (b - a);
    case MTK_LERP_SQUARE:
        return a + s * (b * b - a);
    }
    return NAN;
}

static const double SECOND_SCALAR = 0.75;

static double ternary_formula(mtk_ternary_op op, double s, double a, double b, double c)
{
    switch (op) {
    case MTK_SELECT:
        return a != 0 ? b : c;
    case MTK_ADD_QUOTIENT:
        return SECOND_SCALAR * a + s * b / c;
    }
    return NAN;
}

/* A call of an elementwise op: `operands` inputs, of which the first may be the output itself. */
struct elementwise {
    int operands, op;
    double s;
};

static double formula(const struct elementwise *call, const double *x)
{
    if (call->operands == 1)
        return unary_formula((mtk_unary_op)call->op, call->s, x[0]);
    if (call->operands == 2)
        return binary_formula((mtk_binary_op)call->op, call->s, x[0], x[1]);
    return ternary_formula((mtk_ternary_op)call->op, call->s, x[0], x[1], x[2]);
}

static mt_status execute(const struct elementwise *call, const struct mtk_view *out, const struct mtk_view *const *in)
{
    if (call->operands == 1)
        return mtk_cpu.unary((mtk_unary_op)call->op, call->s, out, in[0], 0);
    if (call->operands == 2)
        return mtk_cpu.binary((mtk_binary_op)call->op, call->s, out, in[0], in[1], 0);
    return mtk_cpu.ternary((mtk_ternary_op)call->op, call->s, SECOND_SCALAR, out, in[0], in[1], in[2], 0);
}

/* Compares the call's result in `out` with the formula. With in_place the first operand is what `out` held before. */
static void expect_elementwise(const struct elementwise *call, const struct strided *out, const struct strided *in,
                               bool in_place)
{
    struct place place = {{0}};
    do {
        double x[3];
        for (int i = 0; i < call->operands; i++)
            x[i] = in_place && i == 0 ? element_before(out, place) : element(&in[i], place);
        expect_element(out, place, formula(call, x), EXACT);
    } while (place_next(&place, out->view.shape));
}

static void check_elementwise(struct dice *dice, const struct elementwise *call)
{
    int64_t shape[MT_MAX_DIMS];
    roll_shape(dice, shape);
    bool in_place = roll(dice, 3) == 0;
    struct strided out = strided_create(dice, roll_dtype(dice), shape), in[3];
    const struct mtk_view *views[3];
    for (int i = 0; i < call->operands; i++) {
        in[i] = strided_create_operand(dice, roll_dtype(dice), shape);
        views[i] = in_place && i == 0 ? &out.view : &in[i].view;
    }
    assert_int_equal(execute(call, &out.view, views), MT_OK);
    expect_inputs_unchanged(in, call->operands);
    expect_elementwise(call, &out, in, in_place);
    assert_true(strided_surroundings_unchanged(&out));
    strided_destroy(&out);
    destroy_all(in, call->operands);
}

static void check_every_op(int operands, int ops, int rounds)
{
    struct dice dice = dice_of_seed(SEED + operands);
    for (int op = 0; op < ops; op++)
        for (int round = 0; round < rounds; round++) {
            static const double scalars[] = {2, -0.5, 3, 1};
            struct elementwise call = {.operands = operands, .op = op, .s = scalars[roll(&dice, 4)]};
            check_elementwise(&dice, &call);
        }
}

static void unary_ops_round_their_formula_once(void **state)
{
    (void)state;
    check_every_op(1, MTK_EQUAL_SCALAR + 1, 60);
}

static void binary_ops_round_their_formula_once(void **state)
{
    (void)state;
    check_every_op(2, MTK_LERP_SQUARE + 1, 80);
}

static void ternary_ops_round_their_formula_once(void **state)
{
    (void)state;
    check_every_op(3, MTK_ADD_QUOTIENT + 1, 100);
}

static void fill_sets_every_element_and_nothing_else(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 10);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        struct strided out = strided_create(&dice, roll_dtype(&dice), shape);
        double value = roll_value(&dice) + 1e-5;
        assert_int_equal(mtk_cpu.fill(value, &out.view, 0), MT_OK);
        struct place place = {{0}};
        do
            expect_element(&out, place, value, EXACT);
        while (place_next(&place, shape));
        assert_true(strided_surroundings_unchanged(&out));
        strided_destroy(&out);
    }
}

/* ---- rounding and conversion ---- */

static void convert(void *to, mt_dtype to_dtype, void *from, mt_dtype from_dtype, int64_t count)
{
    struct mtk_view out = row_view(to, to_dtype, count), in = row_view(from, from_dtype, count);
    assert_int_equal(mtk_cpu.unary(MTK_COPY, 0, &out, &in, 0), MT_OK);
}

/* Stores doubles around the middle between any two neighbouring bf16, subnormal and largest ones included: the middle,
 * the doubles beside it, and doubles that fp32 would round to the middle first. */
static void bf16_rounds_once_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7F80; low++) {
        double here = bf16_value((uint16_t)low);
        double next = low == 0x7F7F ? 0x1p128 : bf16_value((uint16_t)(low + 1)), middle = (here + next) / 2;
        double from[] = {here,
                         middle,
                         -middle,
                         nextafter(middle, INFINITY),
                         next * 0.9999,
                         nextafter(middle, 0),
                         -here,
                         -nextafter(middle, 0),
                         middle * (1 + 1e-12),
                         middle * (1 - 1e-12)};
        enum { COUNT = sizeof from / sizeof from[0] };
        uint16_t to[COUNT];
        convert(to, MT_BF16, from, MT_F64, COUNT);
        for (int i = 0; i < COUNT; i++) {
            bool below = fabs(from[i]) < middle || (fabs(from[i]) == middle && low % 2 == 0);
            uint32_t expected = (below ? low : low + 1) | (signbit(from[i]) ? 0x8000u : 0);
            if (to[i] != expected)
                fail_msg("%a: %#x, expected %#x", from[i], to[i], expected);
        }
    }
}

static void nan_and_infinity_survive_in_bf16_and_fp32(void **state)
{
    (void)state;
    const uint64_t every_bit = UINT64_MAX;
    double full_nan;
    memcpy(&full_nan, &every_bit, sizeof full_nan);
    double from[] = {NAN, -NAN, full_nan, INFINITY, -INFINITY, 1e300, -1e300, 1e-300};
    enum { COUNT = sizeof from / sizeof from[0] };
    uint16_t half[COUNT];
    float single[COUNT];
    convert(half, MT_BF16, from, MT_F64, COUNT);
    convert(single, MT_F32, from, MT_F64, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_true(same_value(bf16_value(half[i]), round_to_dtype(from[i], MT_BF16), EXACT));
        assert_true(same_value((double)single[i], round_to_dtype(from[i], MT_F32), EXACT));
    }
}

static void integers_are_cut_towards_zero_and_kept_in_range(void **state)
{
    (void)state;
    double from[] = {2.9, -2.9, 255.5, 256, -1, 1e30, -1e30, NAN, 0.5, 0};
    static const int64_t expected_int64[] = {2, -2, 255, 256, -1, INT64_MAX, INT64_MIN, 0, 0, 0};
    static const uint8_t expected_uint8[] = {2, 0, 255, 255, 0, 255, 0, 0, 0, 0};
    static const uint8_t expected_bool[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    enum { COUNT = sizeof from / sizeof from[0] };
    int64_t int64[COUNT];
    uint8_t uint8[COUNT], truth[COUNT];
    convert(int64, MT_I64, from, MT_F64, COUNT);
    convert(uint8, MT_U8, from, MT_F64, COUNT);
    convert(truth, MT_BOOL, from, MT_F64, COUNT);
    assert_memory_equal(int64, expected_int64, sizeof int64);
    assert_memory_equal(uint8, expected_uint8, sizeof uint8);
    assert_memory_equal(truth, expected_bool, sizeof truth);
}

static void a_copy_between_equal_dtypes_keeps_every_bit(void **state)
{
    (void)state;
    int64_t from[] = {INT64_MAX, INT64_MIN, ((int64_t)1 << 53) + 1, -7}, to[4];
    convert(to, MT_I64, from, MT_I64, 4);
    assert_memory_equal(to, from, sizeof to);
    /* Every second element, since a strided copy has its own path. */
    struct mtk_view in = row_view(from, MT_I64, 2), out = row_view(to, MT_I64, 2);
    in.stride[3] = 2;
    assert_int_equal(mtk_cpu.unary(MTK_COPY, 0, &out, &in, 0), MT_OK);
    assert_true(to[0] == from[0] && to[1] == from[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_ops_round_their_formula_once),
        cmocka_unit_test(binary_ops_round_their_formula_once),
        cmocka_unit_test(ternary_ops_round_their_formula_once),
        cmocka_unit_test(fill_sets_every_element_and_nothing_else),
        cmocka_unit_test(bf16_rounds_once_to_nearest_even),
        cmocka_unit_test(nan_and_infinity_survive_in_bf16_and_fp32),
        cmocka_unit_test(integers_are_cut_towards_zero_and_kept_in_range),
        cmocka_unit_test(a_copy_between_equal_dtypes_keeps_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
