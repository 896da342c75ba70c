/* The ops that take one pass, of any device's table, against their formulas in double: over random sizes, dtypes and
 * alignments. Each tensor lies between guards, which may not change, and what is written begins as noise. The device may be
 * given as an argument (cpu). */
#include "gpu.h"
#include "strided.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEED = 6001, ROUNDS = 60, GUARD_ELEMENTS = 32 };

static const char *test_device = "cpu:1GiB";

static struct bench {
    struct mt_device *device;
    mt_addr memory;
    uint64_t taken_bytes;
} bench;

#define ARENA_BYTES ((uint64_t)512 << 20)

/* A contiguous tensor on the device: what was put there, and what should be there afterwards. */
struct buffer {
    const char *name;
    mt_dtype dtype;
    int64_t rows, columns;
    double *before, *expected;
    mt_addr guarded; /* where its guards begin */
    mt_addr address;
};

static const struct mtk_table *ops(void)
{
    return bench.device->kernels;
}

static struct mtk_queue *queue(void)
{
    return mt_device_queue(bench.device, 0);
}

static int64_t count_of(const struct buffer *b)
{
    return b->rows * b->columns;
}

static uint64_t guarded_bytes(const struct buffer *b)
{
    return ((uint64_t)count_of(b) + 2 * GUARD_ELEMENTS + 1) * mt_dtype_bytes(b->dtype);
}

static void put(unsigned char *raw, mt_dtype dtype, double value)
{
    struct strided one = {.view = {.dtype = dtype, .address = (mt_addr)(uintptr_t)raw}};
    element_set(&one, (struct place){{0}}, value);
}

/* Takes room for the buffer, aligned or an element off, and writes its values between guards. */
static void upload(struct buffer *b, struct dice *dice)
{
    size_t size = mt_dtype_bytes(b->dtype);
    uint64_t bytes = guarded_bytes(b);
    int64_t shift = roll(dice, 6) == 0 ? 1 : 0;
    unsigned char *raw = mt_host_alloc(bytes);
    memset(raw, 0xA5, bytes);
    b->guarded = bench.memory + bench.taken_bytes;
    b->address = b->guarded + (mt_addr)((GUARD_ELEMENTS + shift) * (int64_t)size);
    bench.taken_bytes += (bytes + 255) / 256 * 256;
    assert_true(bench.taken_bytes <= ARENA_BYTES);
    for (int64_t i = 0; i < count_of(b); i++)
        put(raw + (b->address - b->guarded) + (size_t)i * size, b->dtype, b->before[i]);
    assert_int_equal(mt_device_write(bench.device, b->guarded, raw, bytes, 0), MT_OK);
    free(raw);
}

/* A tensor of random values, `spread` times those in (-4, 4). */
static struct buffer buffer_create(struct dice *dice, const char *name, mt_dtype dtype, int64_t rows, int64_t columns,
                                   double spread)
{
    struct buffer b = {.name = name, .dtype = dtype, .rows = rows, .columns = columns};
    b.before = mt_host_alloc((size_t)count_of(&b) * sizeof *b.before);
    b.expected = mt_host_alloc((size_t)count_of(&b) * sizeof *b.expected);
    for (int64_t i = 0; i < count_of(&b); i++)
        b.before[i] = b.expected[i] = round_to_dtype(spread * roll_value(dice), dtype);
    upload(&b, dice);
    return b;
}

static struct mtk_view view_of(const struct buffer *b)
{
    return (struct mtk_view){.address = b->address,
                             .dtype = b->dtype,
                             .shape = {1, 1, b->rows, b->columns},
                             .stride = {count_of(b), count_of(b), b->columns, 1}};
}

/* How far off an element may be: of its size, and of `size`, that of the numbers behind it. */
static bool is_near(double got, double expected, mt_dtype dtype, double size)
{
    double unit = dtype == MT_F64 ? 1e-13 : 4e-6;
    double rounding = dtype == MT_BF16 ? 0x1p-7 * fabs(expected) : 0;
    return got == expected || (isnan(got) && isnan(expected)) ||
           fabs(got - expected) <= rounding + unit * (fabs(expected) + size);
}

static void expect_noise(const struct buffer *b, const unsigned char *raw, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (raw[i] != 0xA5)
            fail_msg("%s: byte %zu beside it was written", b->name, i);
}

static void expect_guards(const struct buffer *b, const unsigned char *raw)
{
    size_t first = b->address - b->guarded, past = first + (size_t)count_of(b) * mt_dtype_bytes(b->dtype);
    expect_noise(b, raw, 0, first);
    expect_noise(b, raw, past, guarded_bytes(b));
}

/* Compares what is there with what is expected, and ends the buffer. */
static void expect(struct buffer *b, double size)
{
    unsigned char *raw = mt_host_alloc(guarded_bytes(b));
    assert_int_equal(mt_device_read(bench.device, raw, b->guarded, guarded_bytes(b), 0), MT_OK);
    for (int64_t i = 0; i < count_of(b); i++) {
        double got = decode(raw + (b->address - b->guarded) + (size_t)i * mt_dtype_bytes(b->dtype), b->dtype);
        if (!is_near(got, b->expected[i], b->dtype, size))
            fail_msg("%s (%lld x %lld, %s) [%lld]: %.9g, expected %.9g", b->name, (long long)b->rows,
                     (long long)b->columns, mt_dtype_name(b->dtype), (long long)i, got, b->expected[i]);
    }
    expect_guards(b, raw);
    free(raw);
    free(b->before);
    free(b->expected);
}

static void done(mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s", mt_last_error());
}

/* Few and many rows, narrow and wide. Many wide ones take the longest and show what either does: they are rare. */
static void roll_sizes(struct dice *dice, int64_t *out_rows, int64_t *out_columns)
{
    static const int64_t rows[] = {1, 2, 7, 40, 300, 531}, columns[] = {1, 3, 4, 31, 64, 100, 768, 1030, 2560};
    const int64_t many = 100000;
    *out_rows = rows[roll(dice, 6)];
    *out_columns = columns[roll(dice, 9)];
    if (*out_rows * *out_columns > many && roll(dice, 8) > 0)
        *out_rows = 1 + (int64_t)roll(dice, 20);
}

/* ---- norms ---- */

/* The dtypes of a case: of the stream, and of what products read. */
struct dtypes {
    mt_dtype wide, narrow;
};

static struct dtypes roll_dtypes(struct dice *dice)
{
    static const struct dtypes all[] = {{MT_F32, MT_F32}, {MT_F32, MT_BF16}, {MT_F64, MT_F64},
                                        {MT_F32, MT_F64}, {MT_F64, MT_F32},  {MT_F64, MT_BF16}};
    return all[roll(dice, sizeof all / sizeof all[0])];
}

static const double EPSILON = 1e-5;

/* 1 / sqrt(mean of x² + epsilon) of a row, as it is kept. */
static double scale_of(const struct buffer *x, const double *row)
{
    double squares = 0;
    for (int64_t c = 0; c < x->columns; c++)
        squares += row[c] * row[c];
    return round_to_dtype(1 / sqrt(squares / (double)x->columns + EPSILON), x->dtype);
}

static void normalize(const struct buffer *x, const struct buffer *weight, struct buffer *out, double *rstd)
{
    for (int64_t r = 0; r < x->rows; r++) {
        const double *row = x->expected + r * x->columns;
        rstd[r] = scale_of(x, row);
        for (int64_t c = 0; c < x->columns; c++)
            out->expected[r * x->columns + c] = row[c] * rstd[r] * weight->expected[c];
    }
}

static void check_norm(struct dice *dice, bool in_place)
{
    struct dtypes t = roll_dtypes(dice);
    int64_t rows, columns;
    roll_sizes(dice, &rows, &columns);
    bool adds = in_place || roll(dice, 2) == 0, keeps = roll(dice, 3) > 0;
    struct buffer x = buffer_create(dice, "x", t.wide, rows, columns, 1);
    struct buffer y = buffer_create(dice, "y", t.narrow, rows, columns, 1);
    struct buffer sum = buffer_create(dice, "sum", t.wide, rows, columns, 1);
    struct buffer out = buffer_create(dice, "out", t.narrow, rows, columns, 1);
    struct buffer rstd = buffer_create(dice, "rstd", t.wide, rows, 1, 1);
    struct buffer weight = buffer_create(dice, "weight", t.wide, 1, columns, 0.3);
    struct buffer *normalized = !adds ? &x : in_place ? &x : &sum;
    double *scales = mt_host_alloc((size_t)rows * sizeof *scales);
    for (int64_t i = 0; adds && i < count_of(&x); i++)
        normalized->expected[i] = round_to_dtype(x.before[i] + y.before[i], t.wide);
    normalize(normalized, &weight, &out, scales);
    for (int64_t r = 0; keeps && r < rows; r++)
        rstd.expected[r] = scales[r];
    struct mtk_view x_view = view_of(&x), y_view = view_of(&y), sum_view = view_of(in_place ? &x : &sum);
    struct mtk_view out_view = view_of(&out), rstd_view = view_of(&rstd), weight_view = view_of(&weight);
    done(ops()->rms_norm(EPSILON, &out_view, keeps ? &rstd_view : NULL, adds ? &sum_view : NULL, &x_view,
                         adds ? &y_view : NULL, &weight_view, queue()));
    expect(&x, 0);
    expect(&y, 0);
    expect(&sum, 0);
    expect(&out, 1);
    expect(&rstd, 0);
    expect(&weight, 0);
    free(scales);
    bench.taken_bytes = 0;
}

static void norms_are_their_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 0);
    for (int round = 0; round < ROUNDS; round++)
        check_norm(&dice, round % 4 == 0);
}

/* The tensors of a norm's gradient. */
struct norm_case {
    struct buffer dx, before, cast, grad, dweight, x, rstd, weight, partial_sum;
    bool is_first, is_cast, in_place;
    double beta;
};

static void expect_norm_grad(struct norm_case *n)
{
    int64_t rows = n->x.rows, columns = n->x.columns;
    for (int64_t c = 0; c < columns; c++)
        n->dweight.expected[c] = n->beta * n->dweight.before[c];
    for (int64_t r = 0; r < rows; r++) {
        const double *grad = n->grad.before + r * columns, *x = n->x.before + r * columns;
        double scale = n->rstd.before[r], projection = 0;
        for (int64_t c = 0; c < columns; c++)
            projection += grad[c] * n->weight.before[c] * x[c] * scale / (double)columns;
        for (int64_t c = 0; c < columns; c++) {
            const double *from = n->in_place ? n->dx.before : n->before.before;
            double before = n->is_first ? 0 : from[r * columns + c];
            double dx = before + scale * (grad[c] * n->weight.before[c] - x[c] * scale * projection);
            n->dx.expected[r * columns + c] = dx;
            if (n->is_cast)
                n->cast.expected[r * columns + c] = dx;
            n->dweight.expected[c] += grad[c] * x[c] * scale;
            n->grad.expected[r * columns + c] = x[c] * scale * n->weight.before[c];
        }
    }
}

static void check_norm_grad(struct dice *dice)
{
    struct dtypes t = roll_dtypes(dice);
    int64_t rows, columns;
    roll_sizes(dice, &rows, &columns);
    struct norm_case n = {.is_first = roll(dice, 3) == 0,
                          .is_cast = roll(dice, 2) == 0,
                          .in_place = roll(dice, 2) == 0,
                          .beta = roll(dice, 2) == 0 ? 0 : 1};
    n.dx = buffer_create(dice, "dx", t.wide, rows, columns, 1);
    n.before = buffer_create(dice, "before", t.wide, rows, columns, 1);
    n.cast = buffer_create(dice, "cast", MT_BF16, rows, columns, 1);
    n.grad = buffer_create(dice, "grad", t.narrow, rows, columns, 1);
    n.dweight = buffer_create(dice, "dweight", t.wide, 1, columns, 1);
    n.x = buffer_create(dice, "x", t.wide, rows, columns, 1);
    n.rstd = buffer_create(dice, "rstd", t.wide, rows, 1, 0.2);
    n.weight = buffer_create(dice, "weight", t.wide, 1, columns, 0.3);
    n.partial_sum = buffer_create(dice, "partial_sum", t.wide, MTK_NORM_PARTS, columns, 1);
    expect_norm_grad(&n);
    struct mtk_norm_grad call = {.dx = view_of(&n.dx),
                                 .grad = view_of(&n.grad),
                                 .dweight = view_of(&n.dweight),
                                 .x = view_of(&n.x),
                                 .rstd = view_of(&n.rstd),
                                 .weight = view_of(&n.weight),
                                 .partial_sum = view_of(&n.partial_sum),
                                 .beta = n.beta};
    if (!n.is_first)
        call.before = view_of(n.in_place ? &n.dx : &n.before);
    if (n.is_cast)
        call.cast = view_of(&n.cast);
    done(ops()->rms_norm_grad(&call, queue()));
    expect(&n.dx, 8);
    expect(&n.before, 0);
    expect(&n.cast, 8);
    expect(&n.grad, 1);
    expect(&n.dweight, 4 * sqrt((double)rows));
    expect(&n.x, 0);
    expect(&n.rstd, 0);
    expect(&n.weight, 0);
    free(n.partial_sum.before);
    free(n.partial_sum.expected);
    bench.taken_bytes = 0;
}

static void gradients_of_norms_are_their_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 1);
    for (int round = 0; round < ROUNDS; round++)
        check_norm_grad(&dice);
}

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

static void check_loss(struct dice *dice, double spread)
{
    mt_dtype dtype = roll_float_dtype(dice);
    int64_t rows, V;
    roll_sizes(dice, &rows, &V);
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
    for (int round = 0; round < ROUNDS; round++)
        check_loss(&dice, round % 3 == 0 ? 30 : round % 3 == 1 ? 1 : 0);
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

static int open_bench(void **state)
{
    (void)state;
    assert_int_equal(mt_device_open(test_device, &bench.device), MT_OK);
    assert_int_equal(mt_device_reserve(bench.device, ARENA_BYTES, &bench.memory), MT_OK);
    return 0;
}

static int close_bench(void **state)
{
    (void)state;
    mt_device_release(bench.device, bench.memory, ARENA_BYTES);
    mt_device_close(bench.device);
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1)
        test_device = arguments[1];
    if (strcmp(test_device, "cuda") == 0 && !gpu_is_there())
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_their_formula),
        cmocka_unit_test(gradients_of_norms_are_their_formula),
        cmocka_unit_test(the_gate_and_its_gradient_are_their_formulas),
        cmocka_unit_test(the_loss_and_its_gradient_are_their_formulas),
        cmocka_unit_test(an_update_of_many_parameters_is_its_formula),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
