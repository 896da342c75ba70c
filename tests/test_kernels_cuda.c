/* Every op of the CUDA table except products (test_matmul_cuda.c) against the same op on the CPU, its twin, over random
 * shapes, strides, repeats and dtypes. Both get the same buffers, guards and gaps included, and nothing but the
 * output's elements may change on the card.
 *
 * Differences are normalized by the size of the element and of its operands. The twin computes in double; the card
 * computes in fp32, or in double if an operand is fp64 or int64, and rounds once. Copies, comparisons, selections and
 * random numbers are exact. */
#include "card_twins.h"
#include "gpu.h"

enum { SEED = 9001, ROUNDS = 250, MOST_VIEWS = 4 };

static const struct slack exact = {0, 0};

static struct slack slack_of(mt_dtype dtype, double size)
{
    return (struct slack){unit_of(dtype), dtype == MT_F64 ? 1e-14 * size : 1e-6 * size};
}

/* The arguments of a call, on the card and on the CPU. all[0] is the output. */
struct call {
    const char *name;
    struct strided *all;
    int count;
};

/* Compares the output on the card with that of the twin, and frees the views. */
static void finish(const struct call *call, const struct mtk_view *out, struct slack slack)
{
    expect_twin(call->name, call->all, call->count, out, slack);
    destroy_all(call->all, call->count);
}

/* Rolls a shape: small and odd, of fours, and now and then long enough for tiles and for many blocks. */
static void roll_shape(struct dice *dice, int64_t *shape)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 8, 12, 20};
    static const int64_t long_sizes[] = {64, 80, 127, 128, 130, 256, 257};
    for (int d = 0; d < MT_MAX_DIMS; d++)
        shape[d] = sizes[roll(dice, sizeof sizes / sizeof sizes[0])];
    if (roll(dice, 3) == 0) {
        shape[0] = 1 + (int64_t)roll(dice, 2);
        shape[1] = 1 + (int64_t)roll(dice, 3);
        shape[2] = long_sizes[roll(dice, 7)];
        shape[3] = long_sizes[roll(dice, 7)];
    }
}

/* Rolls a dtype, in half of the cases fp32 or bf16 as in models. */
static mt_dtype roll_usual_dtype(struct dice *dice)
{
    static const mt_dtype usual[] = {MT_F32, MT_F32, MT_BF16};
    return roll(dice, 2) == 0 ? usual[roll(dice, 3)] : roll_dtype(dice);
}

/* ---- elementwise ---- */

/* A call of an elementwise op of `operands`, the first of which may be the output itself. */
struct elementwise {
    int operands, op;
    double s;
};

static mt_status execute(const struct mtk_table *table, const struct elementwise *e, const struct mtk_view *out,
                         const struct mtk_view *const *in, struct mtk_queue *on)
{
    if (e->operands == 1)
        return table->unary((mtk_unary_op)e->op, e->s, out, in[0], on);
    if (e->operands == 2)
        return table->binary((mtk_binary_op)e->op, e->s, out, in[0], in[1], on);
    return table->ternary((mtk_ternary_op)e->op, e->s, 0.75, out, in[0], in[1], in[2], on);
}

static struct slack elementwise_slack(const struct elementwise *e, mt_dtype dtype)
{
    bool is_exact = (e->operands == 1 &&
                     (e->op == MTK_COPY || e->op == MTK_NEGATE || e->op == MTK_ABS || e->op == MTK_EQUAL_SCALAR)) ||
                    (e->operands == 2 && e->op == MTK_EQUAL) || (e->operands == 3 && e->op == MTK_SELECT);
    return is_exact ? exact : slack_of(dtype, 16);
}

static void check_elementwise(struct dice *dice, const struct elementwise *e)
{
    static const char *const names[] = {"unary", "binary", "ternary"};
    int64_t shape[MT_MAX_DIMS];
    roll_shape(dice, shape);
    bool in_place = roll(dice, 3) == 0;
    struct strided all[MOST_VIEWS] = {strided_create(dice, roll_usual_dtype(dice), shape)};
    for (int i = 1; i <= e->operands; i++)
        all[i] = strided_create_operand(dice, roll_usual_dtype(dice), shape);
    struct call call = {names[e->operands - 1], all, e->operands + 1};
    struct mtk_view views[MOST_VIEWS];
    const struct mtk_view *here[3], *there[3];
    upload_all(call.all, call.count, views);
    for (int i = 0; i < e->operands; i++) {
        here[i] = in_place && i == 0 ? &all[0].view : &all[1 + i].view;
        there[i] = in_place && i == 0 ? &views[0] : &views[1 + i];
    }
    expect_done(call.name, execute(&mtk_cpu, e, &all[0].view, here, NULL));
    expect_done(call.name, execute(ops(), e, &views[0], there, queue()));
    finish(&call, &views[0], elementwise_slack(e, all[0].view.dtype));
}

static void check_every_op(int operands, int count, int rounds)
{
    static const double scalars[] = {2, -0.5, 3, 1, -1, 0.5, 0.1};
    struct dice dice = dice_of_seed(SEED + operands);
    for (int op = 0; op < count; op++)
        for (int round = 0; round < rounds; round++) {
            struct elementwise e = {.operands = operands, .op = op, .s = scalars[roll(&dice, 7)]};
            check_elementwise(&dice, &e);
        }
}

static void unary_ops_are_their_twins(void **state)
{
    (void)state;
    check_every_op(1, MTK_EQUAL_SCALAR + 1, 80);
}

static void binary_ops_are_their_twins(void **state)
{
    (void)state;
    check_every_op(2, MTK_LERP_SQUARE + 1, 100);
}

static void ternary_ops_are_their_twins(void **state)
{
    (void)state;
    check_every_op(3, MTK_ADD_QUOTIENT + 1, 120);
}

/* Copies between views of any order of dimensions, transposes in tiles among them. */
static void copies_keep_or_round_every_value(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 4);
    struct elementwise copy = {.operands = 1, .op = MTK_COPY};
    for (int round = 0; round < 4 * ROUNDS; round++)
        check_elementwise(&dice, &copy);
}

static void fill_sets_every_element_and_nothing_else(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 5);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        struct strided all[] = {strided_create(&dice, roll_dtype(&dice), shape)};
        struct call call = {"fill", all, 1};
        struct mtk_view view = upload(&all[0]);
        double value = roll_value(&dice) + 1e-5;
        expect_done("fill", mtk_cpu.fill(value, &all[0].view, NULL));
        expect_done("fill", ops()->fill(value, &view, queue()));
        finish(&call, &view, exact);
    }
}

/* ---- reductions ---- */

static void check_reduction(struct dice *dice, mtk_reduce_op op, mt_dtype to, mt_dtype from, const int64_t *kept,
                            const int64_t *shape)
{
    static const char *const names[] = {"sum", "mean", "max"};
    struct strided all[] = {strided_create(dice, to, kept), strided_create_operand(dice, from, shape)};
    struct call call = {names[op], all, 2};
    struct mtk_view views[2];
    upload_all(call.all, call.count, views);
    expect_done(call.name, mtk_cpu.reduce(op, &all[0].view, &all[1].view, NULL));
    expect_done(call.name, ops()->reduce(op, &views[0], &views[1], queue()));
    double terms = (double)(element_count(shape) / element_count(kept));
    struct slack slack = slack_of(to, op == MTK_MEAN ? 4 : 4 * sqrt(terms));
    /* For bools and bytes the last bit of a sum may decide: theirs are sums of small whole numbers. */
    finish(&call, &views[0], op == MTK_MAX ? exact : slack);
}

static void reductions_over_any_dimensions_are_their_twins(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 11);
    for (int round = 0; round < 4 * ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS], kept[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        for (int d = 0; d < MT_MAX_DIMS; d++)
            kept[d] = roll(&dice, 2) == 0 ? 1 : shape[d];
        mt_dtype to = roll_float_dtype(&dice), from = roll_usual_dtype(&dice);
        check_reduction(&dice, (mtk_reduce_op)(round % 3), to, from, kept, shape);
    }
}

/* Rows and columns as long as those of models, not only multiples of four. */
static void long_rows_and_columns_are_reduced(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{7, 128},   {33, 256}, {5, 1024},   {5, 1027},  {3, 2560},   {2, 10240},
                                        {4, 10000}, {2, 9999}, {1, 100000}, {3000, 37}, {1024, 2560}};
    struct dice dice = dice_of_seed(SEED + 12);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int op = MTK_SUM; op <= MTK_MAX; op++)
            for (int by_rows = 0; by_rows < 2; by_rows++) {
                int64_t shape[] = {1, 1, shapes[i][0], shapes[i][1]}, kept[] = {1, 1, shape[2], shape[3]};
                kept[by_rows ? 3 : 2] = 1;
                mt_dtype dtype = roll_float_dtype(&dice);
                check_reduction(&dice, (mtk_reduce_op)op, dtype, dtype, kept, shape);
            }
}

static void counts_of_true_are_exact(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 13);
    int64_t shape[] = {2, 3, 40, 257}, kept[] = {2, 3, 40, 1};
    check_reduction(&dice, MTK_SUM, MT_I64, MT_BOOL, kept, shape);
    check_reduction(&dice, MTK_SUM, MT_I64, MT_I64, kept, shape);
}

static void a_maximum_with_nan_is_nan(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 14);
    for (int round = 0; round < 60; round++) {
        int64_t shape[] = {1, 3, 5, 1 + (int64_t)roll(&dice, 1500)}, kept[] = {1, 3, 5, 1};
        struct strided all[] = {strided_create(&dice, MT_F32, kept), strided_create(&dice, MT_F32, shape)};
        struct place at = {{0, (int64_t)roll(&dice, 3), (int64_t)roll(&dice, 5), (int64_t)roll(&dice, shape[3])}};
        element_set(&all[1], at, NAN);
        memcpy(all[1].before, all[1].buffer, all[1].bytes);
        struct call call = {"max", all, 2};
        struct mtk_view views[2];
        upload_all(call.all, call.count, views);
        expect_done("max", mtk_cpu.reduce(MTK_MAX, &all[0].view, &all[1].view, NULL));
        expect_done("max", ops()->reduce(MTK_MAX, &views[0], &views[1], queue()));
        finish(&call, &views[0], exact);
    }
}

/* ---- the rest ---- */

static void the_lower_triangle_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 30);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        mt_dtype dtype = roll_dtype(&dice);
        struct strided all[] = {strided_create(&dice, dtype, shape), strided_create_operand(&dice, dtype, shape)};
        struct call call = {"lower_triangle", all, 2};
        struct mtk_view views[2];
        int from = round % 4 == 0 ? 0 : 1;
        upload_all(call.all, call.count, views);
        expect_done(call.name, mtk_cpu.lower_triangle(&all[0].view, &all[from].view, NULL));
        expect_done(call.name, ops()->lower_triangle(&views[0], &views[from], queue()));
        finish(&call, &views[0], exact);
    }
}

static void gathered_rows_are_the_tables(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 31);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t table[MT_MAX_DIMS] = {1, 1, 1 + (int64_t)roll(&dice, 9), shape[3]};
        struct strided all[] = {strided_create(&dice, roll_usual_dtype(&dice), shape),
                                strided_create_operand(&dice, roll_usual_dtype(&dice), table),
                                strided_create_indices(&dice, shape, table[2])};
        struct call call = {"gather_rows", all, 3};
        struct mtk_view views[3];
        upload_all(call.all, call.count, views);
        expect_done(call.name, mtk_cpu.gather_rows(&all[0].view, &all[1].view, &all[2].view, NULL));
        expect_done(call.name, ops()->gather_rows(&views[0], &views[1], &views[2], queue()));
        finish(&call, &views[0], exact);
    }
}

/* Adds rows all[2] by index all[1] to the table all[0], and ends the three. Exact, since rows with the same index are
 * added in one order, rounding after each. */
static void expect_rows_added(struct strided *all)
{
    struct call call = {"scatter_add_rows", all, 3};
    struct mtk_view views[3];
    upload_all(call.all, call.count, views);
    expect_done(call.name, mtk_cpu.scatter_add_rows(&all[0].view, &all[1].view, &all[2].view, NULL));
    expect_done(call.name, ops()->scatter_add_rows(&views[0], &views[1], &views[2], queue()));
    finish(&call, &views[0], exact);
}

static void scattered_rows_are_added_in_order(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 32);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t table[MT_MAX_DIMS] = {1, 1, 1 + (int64_t)roll(&dice, 300), shape[3]};
        struct strided all[] = {strided_create(&dice, roll_float_dtype(&dice), table),
                                strided_create_indices(&dice, shape, table[2]),
                                strided_create_operand(&dice, roll_float_dtype(&dice), shape)};
        expect_rows_added(all);
    }
}

/* As many rows as a text has tokens, half of them of one token: a block of threads lists them in several turns. */
static void rows_of_a_frequent_index_are_added_in_order(void **state)
{
    (void)state;
    enum { ROWS = 20000, TABLE = 1500 };
    struct dice dice = dice_of_seed(SEED + 35);
    int64_t shape[] = {1, 2, ROWS / 2, 33}, table[] = {1, 1, TABLE, 33};
    struct strided all[] = {strided_create(&dice, MT_F32, table), strided_create_indices(&dice, shape, TABLE),
                            strided_create_operand(&dice, MT_F32, shape)};
    for (int64_t i = 0; i < ROWS / 2; i++)
        element_set(&all[1], (struct place){{0, i % 2, i, 0}}, TABLE / 3);
    memcpy(all[1].before, all[1].buffer, all[1].bytes);
    expect_rows_added(all);
}

static void picked_and_placed_elements_are_the_indexed_ones(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 33);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
        bool picks = round % 2 == 0;
        struct strided all[] = {strided_create(&dice, roll_float_dtype(&dice), picks ? rows : shape),
                                strided_create_operand(&dice, roll_usual_dtype(&dice), picks ? shape : rows),
                                strided_create_indices(&dice, shape, shape[3])};
        struct call call = {picks ? "pick" : "place_add", all, 3};
        struct mtk_view v[3];
        upload_all(call.all, call.count, v);
        expect_done(call.name, picks ? mtk_cpu.pick(&all[0].view, &all[1].view, &all[2].view, NULL)
                                     : mtk_cpu.place_add(&all[0].view, &all[2].view, &all[1].view, NULL));
        expect_done(call.name,
                    picks ? ops()->pick(&v[0], &v[1], &v[2], queue()) : ops()->place_add(&v[0], &v[2], &v[1], queue()));
        finish(&call, &v[0], exact);
    }
}

static void rotation_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 34);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        shape[3] *= 2;
        int direction = round % 2 == 0 ? 1 : -1, from = round % 3 == 0 ? 0 : 1;
        mt_dtype dtype = roll_float_dtype(&dice);
        struct strided all[] = {strided_create(&dice, dtype, shape), strided_create_operand(&dice, dtype, shape)};
        struct call call = {"rotate", all, 2};
        struct mtk_view views[2];
        upload_all(call.all, call.count, views);
        expect_done(call.name, mtk_cpu.rotate(10000, direction, &all[0].view, &all[from].view, NULL));
        expect_done(call.name, ops()->rotate(10000, direction, &views[0], &views[from], queue()));
        finish(&call, &views[0], slack_of(dtype, dtype == MT_F64 ? 100 : 4));
    }
}

/* A large batch of short sequences, which takes three launches. */
static void rotation_at_more_places_than_a_launch_has_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 36);
    const int64_t shape[MT_MAX_DIMS] = {3, 300000, 2, 2};
    struct strided all[] = {strided_create(&dice, MT_F32, shape), strided_create(&dice, MT_F32, shape)};
    struct call call = {"rotate", all, 2};
    struct mtk_view views[2];
    upload_all(call.all, call.count, views);
    expect_done(call.name, mtk_cpu.rotate(10000, 1, &all[0].view, &all[1].view, NULL));
    expect_done(call.name, ops()->rotate(10000, 1, &views[0], &views[1], queue()));
    finish(&call, &views[0], slack_of(MT_F32, 4));
}

static void random_elements_are_the_twins_to_the_bit(void **state)
{
    (void)state;
    static const mt_dtype dtypes[] = {MT_F32, MT_BF16, MT_F64};
    struct dice dice = dice_of_seed(SEED + 35);
    for (int i = 0; i < 30; i++) {
        int64_t count = 1 + (int64_t)roll(&dice, 20000);
        struct strided all[] = {
            {.view = {.dtype = dtypes[i % 3], .shape = {1, 1, 1, count}, .stride = {count, count, count, 1}}}};
        strided_allocate(&all[0], count);
        strided_fill(&all[0], &dice);
        struct call call = {"random", all, 1};
        struct mtk_view view = upload(&all[0]);
        uint64_t generator = roll(&dice, 4000);
        expect_done(call.name, mtk_cpu.random(generator, 1, 0.02, &all[0].view, NULL));
        expect_done(call.name, ops()->random(generator, 1, 0.02, &view, queue()));
        finish(&call, &view, exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_ops_are_their_twins),
        cmocka_unit_test(binary_ops_are_their_twins),
        cmocka_unit_test(ternary_ops_are_their_twins),
        cmocka_unit_test(copies_keep_or_round_every_value),
        cmocka_unit_test(fill_sets_every_element_and_nothing_else),
        cmocka_unit_test(reductions_over_any_dimensions_are_their_twins),
        cmocka_unit_test(long_rows_and_columns_are_reduced),
        cmocka_unit_test(counts_of_true_are_exact),
        cmocka_unit_test(a_maximum_with_nan_is_nan),
        cmocka_unit_test(the_lower_triangle_is_its_twin),
        cmocka_unit_test(gathered_rows_are_the_tables),
        cmocka_unit_test(scattered_rows_are_added_in_order),
        cmocka_unit_test(rows_of_a_frequent_index_are_added_in_order),
        cmocka_unit_test(picked_and_placed_elements_are_the_indexed_ones),
        cmocka_unit_test(rotation_is_its_twin),
        cmocka_unit_test(rotation_at_more_places_than_a_launch_has_is_its_twin),
        cmocka_unit_test(random_elements_are_the_twins_to_the_bit),
    };
    return gpu_is_there() ? cmocka_run_group_tests(tests, open_card, close_card) : SKIPPED;
}
