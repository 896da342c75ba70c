/* The gate, the loss and the optimizer, of any device's table, against their formulas in double, over random sizes,
 * dtypes and alignments. The device may be given as an argument (default: cpu). */
#include "gpu.h"
#include "kernel_bench.h"
#include "kernels/gate_plan.h"

/* ---- the gate ---- */

static void check_gate(struct dice *dice)
{
    mt_dtype dtype = roll_float_dtype(dice);
    int64_t rows, F;
    roll_sizes(dice, &rows, &F);
    struct buffer in = buffer_create(dice, "in", dtype, rows, 2 * F, 2);
    struct buffer out = buffer_create(dice, "out", dtype, rows, F, 1);
    struct buffer grad = buffer_create(dice, "grad", dtype, rows, F, 1);
    struct mtk_view in_view = view_of(&in), out_view = view_of(&out), grad_view = view_of(&grad);
    for (int64_t i = 0; i < rows * F; i++) {
        int64_t left = i / F * 2 * F + i % F;
        double a = in.before[left], b = in.before[left + F], g = grad.before[i], s = 1 / (1 + exp(-a));
        out.expected[i] = grad.expected[i] = a * s * b;
        in.expected[left] = g * b * s * (1 + a * (1 - s));
        in.expected[left + F] = g * a * s;
    }
    done(ops()->swiglu(&out_view, &in_view, queue()));
    done(ops()->swiglu_grad(&in_view, &grad_view, queue()));
    expect(&in, 8);
    expect(&out, 8);
    expect(&grad, 8);
    bench.taken_bytes = 0;
}

static void the_gate_and_its_gradient_are_their_formulas(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 2);
    for (int round = 0; round < ROUNDS; round++)
        check_gate(&dice);
}

/* ---- the gate with the products around it ---- */

/* Returns a buffer of bf16 at a multiple of 16 bytes, as tensors are. */
static struct buffer buffer_aligned(struct dice *dice, const char *name, int64_t rows, int64_t columns, double spread)
{
    for (;;) {
        struct buffer b = buffer_create(dice, name, MT_BF16, rows, columns, spread);
        if (b.address % 16 == 0)
            return b;
        free(b.before);
        free(b.expected);
    }
}

/* Returns the sum over k of left[row,k] times right[k], whose elements are `apart`. */
static double product_of(const struct buffer *left, int64_t row, const double *right, int64_t apart)
{
    double sum = 0;
    for (int64_t k = 0; k < left->columns; k++)
        sum += left->before[row * left->columns + k] * right[k * apart];
    return sum;
}

/* The operands of one gate and of the products before and after it. */
struct gate_buffers {
    struct buffer in, out, x, w13, grad, w2;
};

static struct gate_buffers roll_gate(struct dice *dice)
{
    static const int64_t all_rows[] = {1, 40, 129, 300, 531}, widths[] = {8, 64, 200, 264},
                         hiddens[] = {8, 120, 136, 264};
    int64_t rows = all_rows[roll(dice, 5)], C = widths[roll(dice, 4)], F = hiddens[roll(dice, 4)];
    double small = 0.5 / sqrt((double)C);
    return (struct gate_buffers){.in = buffer_aligned(dice, "in", rows, 2 * F, 1),
                                 .out = buffer_aligned(dice, "out", rows, F, 1),
                                 .x = buffer_aligned(dice, "x", rows, C, 1),
                                 .w13 = buffer_aligned(dice, "w13", 2 * F, C, small),
                                 .grad = buffer_aligned(dice, "grad", rows, C, 1),
                                 .w2 = buffer_aligned(dice, "w2", C, F, small)};
}

static void expect_unchanged(struct gate_buffers *b)
{
    struct buffer *const operands[] = {&b->x, &b->w13, &b->grad, &b->w2};
    for (int i = 0; i < 4; i++)
        expect(operands[i], 0);
    bench.taken_bytes = 0;
}

/* Results are computed from sums that differ in the last bit of bf16 where the sum lies half-way. */
enum { THOUSANDS_OF_SUMS = 6000 };

static void check_product_before_gate(struct dice *dice, bool wants_out)
{
    struct gate_buffers b = roll_gate(dice);
    const int64_t F = b.out.columns, C = b.x.columns;
    for (int64_t i = 0; i < b.out.rows * F; i++) {
        int64_t row = i / F, column = i % F, left = row * 2 * F + column;
        b.in.expected[left] = product_of(&b.x, row, b.w13.before + column * C, 1);
        b.in.expected[left + F] = product_of(&b.x, row, b.w13.before + (F + column) * C, 1);
        double a = round_to_dtype(b.in.expected[left], MT_BF16);
        if (wants_out)
            b.out.expected[i] = a / (1 + exp(-a)) * round_to_dtype(b.in.expected[left + F], MT_BF16);
    }
    struct mtk_view in = view_of(&b.in), out = view_of(&b.out), x = view_of(&b.x), w13 = view_of(&b.w13);
    const struct mtk_view none = {0};
    done(ops()->swiglu_product(&in, wants_out ? &out : &none, &x, &w13, queue()));
    expect(&b.in, THOUSANDS_OF_SUMS);
    expect(&b.out, wants_out ? THOUSANDS_OF_SUMS : 0);
    expect_unchanged(&b);
}

static void check_product_after_gate(struct dice *dice)
{
    struct gate_buffers b = roll_gate(dice);
    const int64_t F = b.out.columns;
    for (int64_t i = 0; i < b.out.rows * F; i++) {
        int64_t row = i / F, column = i % F, left = row * 2 * F + column;
        double g = product_of(&b.grad, row, b.w2.before + column, F);
        double a = b.in.before[left], v = b.in.before[left + F], s = 1 / (1 + exp(-a));
        b.out.expected[i] = a * s * v;
        b.in.expected[left] = g * v * s * (1 + a * (1 - s));
        b.in.expected[left + F] = g * a * s;
    }
    struct mtk_view in = view_of(&b.in), out = view_of(&b.out), grad = view_of(&b.grad), w2 = view_of(&b.w2);
    done(ops()->swiglu_product_grad(&in, &out, &grad, &w2, queue()));
    expect(&b.in, THOUSANDS_OF_SUMS);
    expect(&b.out, 8);
    expect_unchanged(&b);
}

static void the_gate_within_a_product_is_its_formula(void **state)
{
    (void)state;
    const int capability = bench.device->card.capability, rounds = 24;
    struct dice dice = dice_of_seed(SEED + 7);
    if (strncmp(test_device, "cuda", 4) == 0 && !mtk_gate_fits_product(capability, MT_BF16, 8, 8))
        skip();
    for (int round = 0; round < rounds; round++) {
        check_product_before_gate(&dice, round % 3 > 0);
        check_product_after_gate(&dice);
    }
}

/* ---- the loss ---- */

static void expect_loss_row(struct buffer *logits, struct buffer *loss, int64_t row, int64_t target, double scale)
{
    double *x = logits->expected + row * logits->columns, maximum = -INFINITY, sum = 0;
    for (int64_t c = 0; c < logits->columns; c++)
        maximum = fmax(maximum, x[c]);
    for (int64_t c = 0; c < logits->columns; c++)
        sum += exp(x[c] - maximum);
    loss->expected[row] = maximum + log(sum) - x[target];
    for (int64_t c = 0; c < logits->columns; c++)
        x[c] = scale * (exp(x[c] - maximum) / sum - (c == target ? 1 : 0));
}

static void check_loss(struct dice *dice, int64_t rows, int64_t V, double spread)
{
    mt_dtype dtype = roll_float_dtype(dice);
    double scale = roll(dice, 2) == 0 ? 1 : 0.125;
    struct buffer logits = buffer_create(dice, "logits", dtype, rows, V, spread);
    struct buffer loss =
        buffer_create(dice, "loss", dtype == MT_F64 || roll(dice, 4) == 0 ? MT_F64 : MT_F32, rows, 1, 1);
    struct buffer target = buffer_create(dice, "target", MT_I64, rows, 1, 1);
    int64_t *targets = mt_host_alloc((size_t)rows * sizeof *targets);
    for (int64_t r = 0; r < rows; r++) {
        targets[r] = (int64_t)roll(dice, (uint64_t)V);
        expect_loss_row(&logits, &loss, r, targets[r], scale);
        target.expected[r] = (double)targets[r];
    }
    assert_int_equal(mt_device_write(bench.device, target.address, targets, (uint64_t)rows * sizeof *targets, 0),
                     MT_OK);
    struct mtk_view logits_view = view_of(&logits), loss_view = view_of(&loss), target_view = view_of(&target);
    done(ops()->cross_entropy(scale, &logits_view, &loss_view, &target_view, queue()));
    expect(&logits, 1);
    expect(&loss, 8 + 4 * spread);
    expect(&target, 0);
    free(targets);
    bench.taken_bytes = 0;
}

static void the_loss_and_its_gradient_are_their_formulas(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 3);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t rows, V;
        roll_sizes(&dice, &rows, &V);
        check_loss(&dice, rows, V, round % 3 == 0 ? 30 : round % 3 == 1 ? 1 : 0);
    }
}

/* Rows as long as vocabularies: of one part of a block of threads, and of several, in eights and not. */
static void the_loss_of_long_rows_is_its_formula(void **state)
{
    (void)state;
    static const int64_t vocabularies[] = {10000, 12289, 32000, 50257, 50304};
    struct dice dice = dice_of_seed(SEED + 6);
    for (size_t i = 0; i < sizeof vocabularies / sizeof vocabularies[0]; i++)
        for (int round = 0; round < 4; round++)
            check_loss(&dice, 3, vocabularies[i], round % 2 == 0 ? 4 : 1);
}

/* Puts `values` into a buffer that shall hold `expected` in the end. */
static void buffer_put(struct buffer *b, const void *values, const double *expected)
{
    uint64_t bytes = (uint64_t)count_of(b) * mt_dtype_bytes(b->dtype);
    assert_int_equal(mt_device_write(bench.device, b->address, values, bytes, 0), MT_OK);
    memcpy(b->expected, expected, (size_t)count_of(b) * sizeof *expected);
}

/* Logits whose exponentials, such as e^1000, no dtype can hold. */
static void the_loss_of_large_logits_is_finite(void **state)
{
    (void)state;
    enum { THOUSANDS = 250 }; /* the numbers behind the results */
    static const float logits[] = {0, 1000, 1000, -1000, -3000, -2000, -2001, -2000}, zeros[2] = {0};
    static const int64_t targets[] = {1, 3};
    struct dice dice = dice_of_seed(SEED + 5);
    struct buffer in = buffer_create(&dice, "logits", MT_F32, 2, 4, 1);
    struct buffer loss = buffer_create(&dice, "loss", MT_F32, 2, 1, 1);
    struct buffer target = buffer_create(&dice, "target", MT_I64, 2, 1, 1);
    buffer_put(&in, logits, (const double[]){0, -0.5, 0.5, 0, 0, 0.42231880, 0.15536240, -0.57768120});
    buffer_put(&loss, zeros, (const double[]){0.69314718, 0.86199480});
    buffer_put(&target, targets, (const double[]){1, 3});
    struct mtk_view in_view = view_of(&in), loss_view = view_of(&loss), target_view = view_of(&target);
    done(ops()->cross_entropy(1, &in_view, &loss_view, &target_view, queue()));
    expect(&in, THOUSANDS);
    expect(&loss, THOUSANDS);
    expect(&target, 0);
    bench.taken_bytes = 0;
}

/* Logits of -inf have no share. In a row with nan or inf, or of nothing but -inf, nothing is a number. */
static void the_loss_of_infinite_logits_is_nan_or_leaves_them_out(void **state)
{
    (void)state;
    static const float logits[] = {-INFINITY, 0,         0,         -INFINITY, 0, NAN, 0,        0,
                                   -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0, 0,   INFINITY, 0},
                       zeros[4] = {0};
    static const int64_t targets[] = {1, 3, 0, 2};
    struct dice dice = dice_of_seed(SEED + 7);
    struct buffer in = buffer_create(&dice, "logits", MT_F32, 4, 4, 1);
    struct buffer loss = buffer_create(&dice, "loss", MT_F32, 4, 1, 1);
    struct buffer target = buffer_create(&dice, "target", MT_I64, 4, 1, 1);
    buffer_put(&in, logits,
               (const double[]){0, -0.5, 0.5, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN});
    buffer_put(&loss, zeros, (const double[]){0.69314718, NAN, NAN, NAN});
    buffer_put(&target, targets, (const double[]){1, 3, 0, 2});
    struct mtk_view in_view = view_of(&in), loss_view = view_of(&loss), target_view = view_of(&target);
    done(ops()->cross_entropy(1, &in_view, &loss_view, &target_view, queue()));
    expect(&in, 1);
    expect(&loss, 1);
    expect(&target, 0);
    bench.taken_bytes = 0;
}

/* ---- the optimizer ---- */

enum { PARAMETERS = 90 };

struct parameter_case {
    struct buffer value, grad, mean, square, cast;
    bool is_cast;
};

static void expect_update(struct parameter_case *p, const struct mtk_adamw *how)
{
    for (int64_t i = 0; i < count_of(&p->value); i++) {
        double g = p->grad.before[i];
        double m = p->mean.before[i] + (1 - how->beta1) * (g - p->mean.before[i]);
        double v = p->square.before[i] + (1 - how->beta2) * (g * g - p->square.before[i]);
        p->mean.expected[i] = m;
        p->square.expected[i] = v;
        p->value.expected[i] = how->keep * p->value.before[i] - how->step_size * m / (sqrt(v) + how->epsilon);
        if (p->is_cast)
            p->cast.expected[i] = p->value.expected[i];
    }
}

static struct parameter_case parameter_create(struct dice *dice, mt_dtype dtype, const struct mtk_adamw *how,
                                              struct mtk_adamw_item *item)
{
    static const int64_t sizes[] = {1, 3, 48, 768, 4096, 4097, 20000};
    int64_t count = sizes[roll(dice, 7)];
    struct parameter_case p = {.value = buffer_create(dice, "value", dtype, 1, count, 1),
                               .grad = buffer_create(dice, "grad", dtype, 1, count, 1),
                               .mean = buffer_create(dice, "mean", dtype, 1, count, 1),
                               .square = buffer_create(dice, "square", dtype, 1, count, 0),
                               .cast = buffer_create(dice, "cast", MT_BF16, 1, count, 1),
                               .is_cast = roll(dice, 2) == 0};
    expect_update(&p, how);
    *item = (struct mtk_adamw_item){.count = count,
                                    .value = p.value.address,
                                    .grad = p.grad.address,
                                    .mean = p.mean.address,
                                    .square = p.square.address,
                                    .cast = p.is_cast ? p.cast.address : 0};
    return p;
}

/* More parameters than one launch takes, of all sizes and alignments. */
static void an_update_of_many_parameters_is_its_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 4);
    for (int round = 0; round < 4; round++) {
        struct mtk_adamw how = {.dtype = round % 2 == 0 ? MT_F32 : MT_F64,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .epsilon = 1e-8,
                                .step_size = 0.01,
                                .keep = 0.99};
        struct parameter_case cases[PARAMETERS];
        struct mtk_adamw_item items[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++)
            cases[i] = parameter_create(&dice, how.dtype, &how, &items[i]);
        done(ops()->adamw(&how, PARAMETERS, items, queue()));
        for (int i = 0; i < PARAMETERS; i++) {
            expect(&cases[i].value, 1);
            expect(&cases[i].grad, 0);
            expect(&cases[i].mean, 4);
            expect(&cases[i].square, 1);
            expect(&cases[i].cast, 1);
        }
        bench.taken_bytes = 0;
    }
}

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gate_and_its_gradient_are_their_formulas),
        cmocka_unit_test(the_gate_within_a_product_is_its_formula),
        cmocka_unit_test(the_loss_and_its_gradient_are_their_formulas),
        cmocka_unit_test(the_loss_of_long_rows_is_its_formula),
        cmocka_unit_test(the_loss_of_large_logits_is_finite),
        cmocka_unit_test(the_loss_of_infinite_logits_is_nan_or_leaves_them_out),
        cmocka_unit_test(an_update_of_many_parameters_is_its_formula),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
