/* Norms and their gradients, of any device's table, against their formulas in double, over random sizes, dtypes and
 * alignments. The device may be given as an argument (default: cpu). */
#include "gpu.h"
#include "kernel_bench.h"

/* The dtypes of a case: of the residual stream, and of the operands of products. */
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

/* Returns 1 / sqrt(mean of x² + epsilon) of a row, as it is stored. */
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

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_their_formula),
        cmocka_unit_test(gradients_of_norms_are_their_formula),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
