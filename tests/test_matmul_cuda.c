/* Products on a card against the same on the CPU, their twins: every layout that BLAS reads, of every dtype, in fp32
 * and tf32; and products whose fastest kernel was measured. */
#include "card_twins.h"
#include "gpu.h"

enum { SEED = 9001, ROUNDS = 250 };

/* Returns the bound for a sum of `terms` products of elements in (-4, 4). A card may cut to tf32 where its twin
 * rounds. */
static struct slack product_slack(mt_dtype dtype, mtk_math math, int64_t terms)
{
    double size = 16 * sqrt((double)terms);
    double unit = dtype == MT_F64 ? 1e-14 : math == MTK_MATH_TF32 ? 2e-3 : 1e-6;
    return (struct slack){unit_of(dtype), unit * size};
}

/* Rolls the dtype of an output: now and then fp32 if the operands are bf16. */
static mt_dtype roll_product_dtype(struct dice *dice, mt_dtype operands)
{
    return operands == MT_BF16 && roll(dice, 2) == 0 ? MT_F32 : operands;
}

static void check_product(struct dice *dice, mt_dtype dtype, mtk_math math, int64_t largest)
{
    int64_t outer = 1 + (int64_t)roll(dice, 2), batch = 1 + (int64_t)roll(dice, 4),
            m = 1 + (int64_t)roll(dice, (uint64_t)largest);
    int64_t n = 1 + (int64_t)roll(dice, (uint64_t)largest), k = 1 + (int64_t)roll(dice, (uint64_t)largest);
    struct strided all[] = {
        strided_create_matrix(dice, roll_product_dtype(dice, dtype), (int64_t[]){outer, batch, m, n}, roll_order(dice)),
        strided_create_matrix(dice, dtype, (int64_t[]){outer, batch, m, k}, roll_order(dice)),
        strided_create_matrix(dice, dtype, (int64_t[]){outer, batch, k, n}, roll_order(dice))};
    if (roll(dice, 4) == 0)
        all[1 + roll(dice, 2)].view.stride[1] = 0; /* one matrix for the whole batch */
    const double alpha = roll(dice, 2) == 0 ? 1 : 0.75, beta = roll(dice, 2) == 0 ? 0 : 0.5;
    const struct mtk_product product = {.math = math, .alpha = alpha, .beta = beta};
    struct mtk_view views[3];
    upload_all(all, 3, views);
    uint64_t bytes = roll(dice, 3) == 0 ? 0 : CARD_WORKSPACE_BYTES;
    expect_done("matmul", mtk_cpu.matmul(&product, &all[0].view, &all[1].view, &all[2].view, 0, 0, NULL));
    expect_done("matmul", ops()->matmul(&product, &views[0], &views[1], &views[2], workspace(), bytes, queue()));
    expect_twin("matmul", all, 3, &views[0], product_slack(all[0].view.dtype, math, k));
    destroy_all(all, 3);
}

static void products_of_every_layout_are_their_twins(void **state)
{
    (void)state;
    static const mt_dtype dtypes[] = {MT_F32, MT_BF16, MT_F64};
    struct dice dice = dice_of_seed(SEED + 20);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++)
            check_product(&dice, dtypes[i], MTK_MATH_FP32, round % 8 == 0 ? 200 : 24);
}

static void products_in_tf32_are_near(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 21);
    for (int round = 0; round < 40; round++)
        check_product(&dice, MT_F32, MTK_MATH_TF32, 130);
}

static struct strided dense_matrix(struct dice *dice, mt_dtype dtype, int64_t rows, int64_t columns,
                                   enum strided_order order)
{
    bool by_rows = order == STRIDED_BY_ROWS;
    struct strided s = {.view = {.dtype = dtype,
                                 .shape = {1, 1, rows, columns},
                                 .stride = {0, 0, by_rows ? columns : 1, by_rows ? 1 : rows}}};
    strided_allocate(&s, rows * columns);
    strided_fill(&s, dice);
    return s;
}

/* Puts the matrix on the card alone, so that it is aligned as cuBLAS prefers. */
static struct mtk_view place_matrix(const struct strided *s, mt_addr at)
{
    struct mtk_view view = s->view;
    view.address = at;
    assert_int_equal(mt_device_write(card.device, at, s->before + GUARD_BYTES, s->bytes - (size_t)2 * GUARD_BYTES, 0),
                     MT_OK);
    return view;
}

enum { MEASURED_ROWS = 640, MEASURED_COLUMNS = 768, MEASURED_DEPTH = 512 };

static void expect_multiple(const struct strided *twin, const struct mtk_view *on_card, double multiple, double slack)
{
    enum { COUNT = MEASURED_ROWS * MEASURED_COLUMNS };
    const float *expected = (const float *)(twin->buffer + GUARD_BYTES);
    float *got = mt_host_alloc(COUNT * sizeof *got);
    assert_int_equal(mt_device_read(card.device, got, on_card->address, COUNT * sizeof *got, 0), MT_OK);
    for (int i = 0; i < COUNT; i++)
        if (!(fabs((double)got[i] - multiple * (double)expected[i]) <= slack))
            fail_msg("element %d: %.9g, and the twin's is %g times %.9g", i, (double)got[i], multiple,
                     (double)expected[i]);
    free(got);
}

/* A product that is large enough to be measured: on the guessed kernel, while it is measured, after that, and added to
 * its output. */
static void check_measured_product(struct dice *dice, mt_dtype dtype, mtk_math math, enum strided_order order)
{
    enum { M = MEASURED_ROWS, N = MEASURED_COLUMNS, TIMES = 4, APART = 4 << 20 };
    struct strided all[] = {dense_matrix(dice, MT_F32, M, N, STRIDED_BY_ROWS),
                            dense_matrix(dice, dtype, M, MEASURED_DEPTH, order),
                            dense_matrix(dice, dtype, MEASURED_DEPTH, N, order)};
    struct mtk_view views[3];
    for (int i = 0; i < 3; i++)
        views[i] = place_matrix(&all[i], card.memory + (mt_addr)i * APART);
    struct mtk_product product = {.math = math, .alpha = 1};
    expect_done("matmul", mtk_cpu.matmul(&product, &all[0].view, &all[1].view, &all[2].view, 0, 0, NULL));
    for (int time = 0; time < TIMES; time++) {
        product.beta = time == TIMES - 1 ? 1 : 0;
        expect_done("matmul", ops()->matmul(&product, &views[0], &views[1], &views[2], workspace(),
                                            CARD_WORKSPACE_BYTES, queue()));
        expect_multiple(&all[0], &views[0], 1 + product.beta, 4 * product_slack(MT_F32, math, MEASURED_DEPTH).size);
        product.choosing = MTK_CHOOSING_MEASURES;
    }
    for (int i = 0; i < 3; i++)
        strided_destroy(&all[i]);
}

static void a_product_whose_kernel_was_measured_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 22);
    for (enum strided_order order = STRIDED_BY_ROWS; order <= STRIDED_BY_COLUMNS; order++) {
        check_measured_product(&dice, MT_BF16, MTK_MATH_FP32, order);
        check_measured_product(&dice, MT_F32, MTK_MATH_FP32, order);
        check_measured_product(&dice, MT_F32, MTK_MATH_TF32, order);
    }
}

/* A product that is summed in pieces, which are added up in a workspace: first with one, then without. */
static void a_workspace_that_was_given_once_is_not_kept(void **state)
{
    (void)state;
    enum { SIDE = 64, DEPTH = 1 << 16, PATTERN = 0x5A };
    const struct mtk_view out = {card.memory, MT_F32, {1, 1, SIDE, SIDE}, {SIDE * SIDE, SIDE * SIDE, SIDE, 1}};
    struct mtk_view a = {card.memory + (1 << 20), MT_BF16, {1, 1, SIDE, DEPTH}, {0, 0, DEPTH, 1}}, b = a;
    b.shape[2] = DEPTH;
    b.shape[3] = SIDE;
    b.stride[2] = 1;
    b.stride[3] = DEPTH;
    const struct mtk_product plain = {.alpha = 1};
    unsigned char *pattern = mt_host_alloc(CARD_WORKSPACE_BYTES), *found = mt_host_alloc(CARD_WORKSPACE_BYTES);
    memset(pattern, PATTERN, CARD_WORKSPACE_BYTES);
    expect_done("fill", ops()->fill(0.5, &a, queue()));
    expect_done("matmul", ops()->matmul(&plain, &out, &a, &b, workspace(), CARD_WORKSPACE_BYTES, queue()));
    assert_int_equal(mt_device_write(card.device, workspace(), pattern, CARD_WORKSPACE_BYTES, 0), MT_OK);
    expect_done("matmul", ops()->matmul(&plain, &out, &a, &b, 0, 0, queue()));
    assert_int_equal(mt_device_read(card.device, found, workspace(), CARD_WORKSPACE_BYTES, 0), MT_OK);
    assert_memory_equal(found, pattern, CARD_WORKSPACE_BYTES);
    free(pattern);
    free(found);
}

static void a_layout_that_cublas_can_not_read_is_refused(void **state)
{
    (void)state;
    struct mtk_view out = {.address = card.memory, .dtype = MT_F32, .shape = {1, 1, 4, 4}, .stride = {16, 16, 4, 1}};
    const struct mtk_product plain = {.alpha = 1};
    struct mtk_view gaps = out;
    gaps.stride[2] = 8;
    gaps.stride[3] = 2;
    assert_int_equal(ops()->matmul(&plain, &out, &gaps, &out, 0, 0, queue()), MT_FAILED);
    assert_non_null(strstr(mt_last_error(), "strides of 8 and 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_layout_are_their_twins),
        cmocka_unit_test(products_in_tf32_are_near),
        cmocka_unit_test(a_product_whose_kernel_was_measured_is_its_twin),
        cmocka_unit_test(a_workspace_that_was_given_once_is_not_kept),
        cmocka_unit_test(a_layout_that_cublas_can_not_read_is_refused),
    };
    return gpu_is_there() ? cmocka_run_group_tests(tests, open_card, close_card) : SKIPPED;
}
