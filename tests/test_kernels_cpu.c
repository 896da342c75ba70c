/* Every op of the CPU's table against its formula, written out plainly here, over random shapes, strides, repeats and
 * dtypes; nothing but the output's elements may change. Matrix products are in test_matmul_cpu.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "strided.h"

#include <stdio.h>

enum { SEED = 7001, ROUNDS = 400 };

/* The tolerances: ops that round once are exact but in fp64, where an expression may be contracted. */
static const double EXACT = 0, FP64_SLACK = 4e-15;

static void roll_shape(struct dice *dice, int64_t *shape)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 13};
    static const int64_t long_sizes[] = {255, 256, 257, 600};
    for (int d = 0; d < MT_MAX_DIMS; d++)
        shape[d] = sizes[roll(dice, sizeof sizes / sizeof sizes[0])];
    if (roll(dice, 8) == 0) {
        shape[0] = 1;
        shape[roll(dice, 2) + 2] = long_sizes[roll(dice, 4)];
    }
}

static bool same_value(double got, double expected, double slack)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    return got == expected || fabs(got - expected) <= slack * fabs(expected);
}

/* One element against `exact`, the formula's value before rounding. */
static void expect_element(const struct strided *out, struct place place, double exact, double slack)
{
    double expected = round_to_dtype(exact, out->view.dtype), got = element(out, place);
    if (!same_value(got, expected, out->view.dtype == MT_F64 ? slack + FP64_SLACK : slack))
        fail_msg("%s (%d, %d, %d, %d): %.17g, expected %.17g", mt_dtype_name(out->view.dtype), (int)place.at[0],
                 (int)place.at[1], (int)place.at[2], (int)place.at[3], got, expected);
}

static void expect_inputs_unchanged(const struct strided *inputs, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(strided_unchanged(&inputs[i]));
}

static void destroy_all(struct strided *all, int count)
{
    for (int i = 0; i < count; i++)
        strided_destroy(&all[i]);
}

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

/* The call's result in `out` against the formula; with in_place the first operand is what `out` held before. */
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

static struct mtk_view row_view(void *memory, mt_dtype dtype, int64_t count)
{
    return (struct mtk_view){.address = (mt_addr)(uintptr_t)memory,
                             .dtype = dtype,
                             .shape = {1, 1, 1, count},
                             .stride = {count, count, count, 1}};
}

static void convert(void *to, mt_dtype to_dtype, void *from, mt_dtype from_dtype, int64_t count)
{
    struct mtk_view out = row_view(to, to_dtype, count), in = row_view(from, from_dtype, count);
    assert_int_equal(mtk_cpu.unary(MTK_COPY, 0, &out, &in, 0), MT_OK);
}

static double bf16_value(uint16_t bits)
{
    return decode((const unsigned char *)&bits, MT_BF16);
}

/* Around the middle between any two neighbouring bf16, subnormal and largest ones included: the middle itself, the
 * doubles beside it, and doubles that fp32 would round to the middle first. */
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
    /* A strided copy has a path of its own: every second element. */
    struct mtk_view in = row_view(from, MT_I64, 2), out = row_view(to, MT_I64, 2);
    in.stride[3] = 2;
    assert_int_equal(mtk_cpu.unary(MTK_COPY, 0, &out, &in, 0), MT_OK);
    assert_true(to[0] == from[0] && to[1] == from[2]);
}

/* ---- reductions ---- */

static double reduce_plainly(mtk_reduce_op op, const struct strided *in, const struct strided *out, struct place place)
{
    int64_t shape[MT_MAX_DIMS];
    for (int d = 0; d < MT_MAX_DIMS; d++)
        shape[d] = out->view.shape[d] == 1 ? in->view.shape[d] : 1;
    struct place inner = {{0}};
    double sum = 0, largest = -INFINITY;
    do {
        struct place at = place;
        for (int d = 0; d < MT_MAX_DIMS; d++)
            at.at[d] += inner.at[d];
        sum += element(in, at);
        largest = fmax(largest, element(in, at));
    } while (place_next(&inner, shape));
    if (op == MTK_MAX)
        return largest;
    return op == MTK_MEAN ? sum / (double)element_count(shape) : sum;
}

/* The operands' sums are exact in double in any order, so that even here results are exact. */
static void reductions_over_any_dimensions_are_their_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 11);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        mtk_reduce_op op = (mtk_reduce_op)(round % 3);
        int64_t shape[MT_MAX_DIMS], kept[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        for (int d = 0; d < MT_MAX_DIMS; d++)
            kept[d] = roll(&dice, 2) == 0 ? 1 : shape[d];
        struct strided in = strided_create_operand(&dice, roll_dtype(&dice), shape);
        struct strided out = strided_create(&dice, roll_dtype(&dice), kept);
        assert_int_equal(mtk_cpu.reduce(op, &out.view, &in.view, 0), MT_OK);
        assert_true(strided_unchanged(&in));
        struct place place = {{0}};
        do
            expect_element(&out, place, reduce_plainly(op, &in, &out, place), EXACT);
        while (place_next(&place, kept));
        assert_true(strided_surroundings_unchanged(&out));
        strided_destroy(&in);
        strided_destroy(&out);
    }
}

static void a_maximum_of_negatives_is_negative_and_of_nan_is_nan(void **state)
{
    (void)state;
    for (int64_t count = 1; count < 40; count++) {
        float in[40], largest;
        for (int64_t i = 0; i < count; i++)
            in[i] = (float)(-5 - i);
        struct mtk_view from = row_view(in, MT_F32, count), to = row_view(&largest, MT_F32, 1);
        assert_int_equal(mtk_cpu.reduce(MTK_MAX, &to, &from, 0), MT_OK);
        assert_true(largest == -5.0f);
        in[count - 1] = NAN;
        assert_int_equal(mtk_cpu.reduce(MTK_MAX, &to, &from, 0), MT_OK);
        assert_true(isnan(largest));
    }
}

/* ---- the rest ---- */

static void the_lower_triangle_is_kept_and_the_rest_is_zero(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 12);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        struct strided in = strided_create_operand(&dice, roll_dtype(&dice), shape);
        struct strided out = strided_create(&dice, roll_dtype(&dice), shape);
        bool in_place = round % 4 == 0;
        assert_int_equal(mtk_cpu.lower_triangle(&out.view, in_place ? &out.view : &in.view, 0), MT_OK);
        assert_true(strided_unchanged(&in));
        struct place place = {{0}};
        do {
            double value = in_place ? element_before(&out, place) : element(&in, place);
            expect_element(&out, place, place.at[3] <= place.at[2] ? value : 0, EXACT);
        } while (place_next(&place, shape));
        assert_true(strided_surroundings_unchanged(&out));
        strided_destroy(&in);
        strided_destroy(&out);
    }
}

/* Indices for rows of `shape` below `bound`, in a view of its own strides. */
static struct strided roll_indices(struct dice *dice, const int64_t *shape, int64_t bound)
{
    int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
    struct strided index = strided_create(dice, MT_I64, rows);
    struct place place = {{0}};
    do
        element_set(&index, place, (double)roll(dice, (uint64_t)bound));
    while (place_next(&place, rows));
    memcpy(index.before, index.buffer, index.bytes);
    return index;
}

static int64_t index_of(const struct strided *index, struct place place)
{
    place.at[3] = 0;
    return (int64_t)element(index, place);
}

static void gathered_rows_are_the_tables(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 13);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t table_shape[MT_MAX_DIMS] = {1, 1, 1 + (int64_t)roll(&dice, 9), shape[3]};
        struct strided all[] = {roll_indices(&dice, shape, table_shape[2]),
                                strided_create_operand(&dice, roll_dtype(&dice), table_shape)};
        struct strided out = strided_create(&dice, roll_dtype(&dice), shape);
        assert_int_equal(mtk_cpu.gather_rows(&out.view, &all[1].view, &all[0].view, 0), MT_OK);
        expect_inputs_unchanged(all, 2);
        struct place place = {{0}};
        do {
            struct place from = {{0, 0, index_of(&all[0], place), place.at[3]}};
            expect_element(&out, place, element(&all[1], from), EXACT);
        } while (place_next(&place, shape));
        assert_true(strided_surroundings_unchanged(&out));
        destroy_all(all, 2);
        strided_destroy(&out);
    }
}

/* Row-major over `in`, rounding after each addition, into `sums` (as many as `out` has elements, row-major). */
static void add_in_order(double *sums, const struct strided *out, const struct strided *index, const struct strided *in,
                         bool by_row)
{
    const int64_t *to = out->view.shape;
    struct place place = {{0}};
    do {
        int64_t chosen = index_of(index, place);
        int64_t row = by_row ? chosen : (place.at[0] * to[1] + place.at[1]) * to[2] + place.at[2];
        int64_t number = row * to[3] + (by_row ? place.at[3] : chosen);
        sums[number] = round_to_dtype(sums[number] + element(in, place), out->view.dtype);
    } while (place_next(&place, in->view.shape));
}

static void expect_sums(const struct strided *out, const double *sums)
{
    struct place place = {{0}};
    int64_t number = 0;
    do
        expect_element(out, place, sums[number++], EXACT);
    while (place_next(&place, out->view.shape));
}

static void scattered_rows_are_added_in_order(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 14);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t table_shape[MT_MAX_DIMS] = {1, 1, 1 + (int64_t)roll(&dice, 5), shape[3]};
        struct strided all[] = {roll_indices(&dice, shape, table_shape[2]),
                                strided_create_operand(&dice, roll_dtype(&dice), shape)};
        struct strided table = strided_create(&dice, roll_float_dtype(&dice), table_shape);
        double *sums = strided_elements(&table);
        assert_int_equal(mtk_cpu.scatter_add_rows(&table.view, &all[0].view, &all[1].view, 0), MT_OK);
        expect_inputs_unchanged(all, 2);
        add_in_order(sums, &table, &all[0], &all[1], true);
        expect_sums(&table, sums);
        assert_true(strided_surroundings_unchanged(&table));
        free(sums);
        destroy_all(all, 2);
        strided_destroy(&table);
    }
}

static void the_picked_element_is_the_indexed_one(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 15);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
        struct strided all[] = {roll_indices(&dice, shape, shape[3]),
                                strided_create_operand(&dice, roll_dtype(&dice), shape)};
        struct strided out = strided_create(&dice, roll_dtype(&dice), rows);
        assert_int_equal(mtk_cpu.pick(&out.view, &all[1].view, &all[0].view, 0), MT_OK);
        expect_inputs_unchanged(all, 2);
        struct place place = {{0}};
        do {
            struct place from = place;
            from.at[3] = index_of(&all[0], place);
            expect_element(&out, place, element(&all[1], from), EXACT);
        } while (place_next(&place, rows));
        assert_true(strided_surroundings_unchanged(&out));
        destroy_all(all, 2);
        strided_destroy(&out);
    }
}

static void placing_adds_to_the_indexed_element_and_no_other(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 16);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
        struct strided all[] = {roll_indices(&dice, shape, shape[3]),
                                strided_create_operand(&dice, roll_dtype(&dice), rows)};
        struct strided out = strided_create(&dice, roll_float_dtype(&dice), shape);
        double *sums = strided_elements(&out);
        assert_int_equal(mtk_cpu.place_add(&out.view, &all[0].view, &all[1].view, 0), MT_OK);
        expect_inputs_unchanged(all, 2);
        add_in_order(sums, &out, &all[0], &all[1], false);
        expect_sums(&out, sums);
        assert_true(strided_surroundings_unchanged(&out));
        free(sums);
        destroy_all(all, 2);
        strided_destroy(&out);
    }
}

static double rotated(const struct strided *in, struct place place, double theta, int direction)
{
    int64_t pair = place.at[3] / 2;
    double angle = direction * (double)place.at[2] * pow(theta, -2.0 * (double)pair / (double)in->view.shape[3]);
    struct place first = place, second = place;
    first.at[3] = 2 * pair;
    second.at[3] = 2 * pair + 1;
    double a = element(in, first), b = element(in, second);
    return place.at[3] % 2 == 0 ? a * cos(angle) - b * sin(angle) : a * sin(angle) + b * cos(angle);
}

/* Sums of products may be contracted, which can turn a rounding: one unit in the last place is allowed. */
static void rotation_turns_each_pair_by_its_angle(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 17);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        shape[3] *= 2;
        int direction = round % 2 == 0 ? 1 : -1;
        struct strided in = strided_create_operand(&dice, roll_float_dtype(&dice), shape);
        struct strided out = strided_create(&dice, roll_float_dtype(&dice), shape);
        double slack = out.view.dtype == MT_BF16 ? 0x1p-7 : out.view.dtype == MT_F32 ? 0x1p-22 : 1e-12;
        assert_int_equal(mtk_cpu.rotate(10000, direction, &out.view, &in.view, 0), MT_OK);
        assert_true(strided_unchanged(&in));
        struct place place = {{0}};
        do
            expect_element(&out, place, rotated(&in, place, 10000, direction), slack);
        while (place_next(&place, shape));
        assert_true(strided_surroundings_unchanged(&out));
        strided_destroy(&in);
        strided_destroy(&out);
    }
}

static void rotation_in_place_and_back_gives_what_was(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 18);
    struct strided out = strided_create(&dice, MT_F64, (int64_t[]){2, 3, 50, 514});
    assert_int_equal(mtk_cpu.rotate(10000, 1, &out.view, &out.view, 0), MT_OK);
    assert_int_equal(mtk_cpu.rotate(10000, -1, &out.view, &out.view, 0), MT_OK);
    struct place place = {{0}};
    do
        assert_true(fabs(element(&out, place) - element_before(&out, place)) < 1e-14);
    while (place_next(&place, out.view.shape));
    strided_destroy(&out);
}

static void random_elements_follow_from_generator_and_number(void **state)
{
    (void)state;
    enum { COUNT = 7 * 123 };
    float single[COUNT];
    uint16_t half[COUNT];
    struct mtk_view to_single = row_view(single, MT_F32, COUNT), to_half = row_view(half, MT_BF16, COUNT);
    to_single.shape[2] = 7;
    to_single.shape[3] = 123;
    to_single.stride[2] = 123;
    assert_int_equal(mtk_cpu.random(1000, 1, 0.1, &to_single, 0), MT_OK);
    assert_int_equal(mtk_cpu.random(1000, 1, 0.1, &to_half, 0), MT_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t bits = mt_splitmix64(i + ((uint64_t)1000 << 40));
        double expected = 1 + (2 * ((double)(bits >> 11) / 0x1p53) - 1) * 0.1;
        assert_true((double)single[i] == round_to_dtype(expected, MT_F32));
        assert_true(bf16_value(half[i]) == round_to_dtype(expected, MT_BF16));
    }
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
        cmocka_unit_test(reductions_over_any_dimensions_are_their_formula),
        cmocka_unit_test(a_maximum_of_negatives_is_negative_and_of_nan_is_nan),
        cmocka_unit_test(the_lower_triangle_is_kept_and_the_rest_is_zero),
        cmocka_unit_test(gathered_rows_are_the_tables),
        cmocka_unit_test(scattered_rows_are_added_in_order),
        cmocka_unit_test(the_picked_element_is_the_indexed_one),
        cmocka_unit_test(placing_adds_to_the_indexed_element_and_no_other),
        cmocka_unit_test(rotation_turns_each_pair_by_its_angle),
        cmocka_unit_test(rotation_in_place_and_back_gives_what_was),
        cmocka_unit_test(random_elements_follow_from_generator_and_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
