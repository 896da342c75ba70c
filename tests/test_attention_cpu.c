/* Softmax and attention of the CPU's table against their formulas, written out plainly here, over random shapes,
 * strides and dtypes; nothing but the outputs' elements may change. test_gradients.c compares their gradients with
 * differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "strided.h"

#include <stdio.h>

enum { SEED = 9200, ROUNDS = 150, LONGEST = 600 };

/* Returns the largest error of one rounding to a dtype. */
static double unit_of(mt_dtype dtype)
{
    return dtype == MT_F64 ? 1e-12 : dtype == MT_BF16 ? 0x1p-8 : 0x1p-23;
}

static void expect_near(const struct strided *s, struct place place, double expected)
{
    double got = element(s, place), allowed = unit_of(s->view.dtype) * fabs(expected) + 1e-12;
    if (!(fabs(got - expected) <= allowed))
        fail_msg("%s (%d, %d, %d, %d): %.15g, expected %.15g", mt_dtype_name(s->view.dtype), (int)place.at[0],
                 (int)place.at[1], (int)place.at[2], (int)place.at[3], got, expected);
}

static struct place row_place(struct place row, int64_t column)
{
    row.at[3] = column;
    return row;
}

static struct strided create_column(struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
    return strided_create(dice, dtype == MT_F64 ? MT_F64 : MT_F32, rows);
}

/* Compares one row of a softmax with the formula. */
static void check_row(const struct strided *out, const struct strided *in, struct place row, double scale,
                      mtk_keys keys)
{
    int64_t length = in->view.shape[3];
    int64_t count = keys == MTK_KEYS_UP_TO_QUERY && row.at[2] + 1 < length ? row.at[2] + 1 : length;
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += exp(scale * element(in, row_place(row, k)));
    for (int64_t k = 0; k < length; k++)
        expect_near(out, row_place(row, k), k < count ? exp(scale * element(in, row_place(row, k))) / sum : 0);
}

static void softmax_of_rows_is_its_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 0);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shape[] = {1 + (int64_t)roll(&dice, 2), 1 + (int64_t)roll(&dice, 2), 1 + (int64_t)roll(&dice, 7),
                           1 + (int64_t)roll(&dice, roll(&dice, 4) == 0 ? LONGEST : 20)};
        mtk_keys keys = roll(&dice, 2) == 0 ? MTK_KEYS_ALL : MTK_KEYS_UP_TO_QUERY;
        mt_dtype dtype = roll_float_dtype(&dice);
        struct strided out = strided_create(&dice, dtype, shape), in = strided_create_operand(&dice, dtype, shape);
        int64_t rows[] = {shape[0], shape[1], shape[2], 1};
        struct place row = {{0}};
        assert_int_equal(mtk_cpu.softmax(0.7, keys, &out.view, &in.view, NULL), MT_OK);
        do
            check_row(&out, &in, row, 0.7, keys);
        while (place_next(&row, rows));
        assert_true(strided_unchanged(&in));
        assert_true(strided_surroundings_unchanged(&out));
        strided_destroy(&out);
        strided_destroy(&in);
    }
}

/* A row of -inf alone has no softmax; one nan makes the whole row nan. */
static void what_has_no_softmax_is_nan(void **state)
{
    (void)state;
    float in[] = {-INFINITY, -INFINITY, 1, NAN}, out[4];
    struct mtk_view from = {
        .address = (mt_addr)(uintptr_t)in, .dtype = MT_F32, .shape = {1, 1, 2, 2}, .stride = {4, 4, 2, 1}};
    struct mtk_view to = from;
    to.address = (mt_addr)(uintptr_t)out;
    assert_int_equal(mtk_cpu.softmax(1, MTK_KEYS_ALL, &to, &from, NULL), MT_OK);
    for (int i = 0; i < 4; i++)
        assert_true(isnan(out[i]));
}

static double score(const struct strided *q, const struct strided *k, struct place query, int64_t key)
{
    double sum = 0;
    for (int64_t d = 0; d < q->view.shape[3]; d++) {
        struct place from = row_place(query, d), to = from;
        to.at[2] = key;
        sum += element(q, from) * element(k, to);
    }
    return sum;
}

/* Compares one query's output and lse with the formula. */
static void check_query(const struct strided *all, struct place query, double scale)
{
    enum { Q, K, V, OUT, LSE };
    double weight[LONGEST], sum = 0;
    for (int64_t u = 0; u <= query.at[2]; u++)
        sum += weight[u] = exp(scale * score(&all[Q], &all[K], query, u));
    for (int64_t d = 0; d < all[V].view.shape[3]; d++) {
        double expected = 0;
        for (int64_t u = 0; u <= query.at[2]; u++) {
            struct place value = row_place(query, d);
            value.at[2] = u;
            expected += weight[u] / sum * element(&all[V], value);
        }
        expect_near(&all[OUT], row_place(query, d), expected);
    }
    expect_near(&all[LSE], row_place(query, 0), log(sum));
}

static void causal_attention_is_its_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 1);
    for (int round = 0; round < 40; round++) {
        int64_t shape[] = {1 + (int64_t)roll(&dice, 2), 1 + (int64_t)roll(&dice, 2), 1 + (int64_t)roll(&dice, 80),
                           1 + (int64_t)roll(&dice, round % 8 == 0 ? MTK_MOST_HEAD_FEATURES : 12)};
        mt_dtype dtype = roll_float_dtype(&dice);
        struct strided all[] = {strided_create(&dice, dtype, shape), strided_create(&dice, dtype, shape),
                                strided_create(&dice, dtype, shape), strided_create(&dice, dtype, shape),
                                create_column(&dice, dtype, shape)};
        int64_t queries[] = {shape[0], shape[1], shape[2], 1};
        struct place query = {{0}};
        assert_int_equal(mtk_cpu.attention(0.1, MTK_MATH_FP32, &all[3].view, &all[4].view, &all[0].view, &all[1].view,
                                           &all[2].view, NULL),
                         MT_OK);
        do
            check_query(all, query, 0.1);
        while (place_next(&query, queries));
        for (int i = 0; i < 5; i++)
            assert_true(i < 3 ? strided_unchanged(&all[i]) : strided_surroundings_unchanged(&all[i]));
        for (int i = 0; i < 5; i++)
            strided_destroy(&all[i]);
    }
}

/* ---- tf32 ---- */

/* In backward the output is 0 and so is delta: a gradient counts only as the operand of a product. */
enum { Q, K, V, GRAD, ZERO, OUT, LSE, DQ, DK, DV, DELTA, TENSORS, OPERANDS = OUT };

static void round_elements(struct strided *s)
{
    struct place place = {{0}};
    do
        element_set(s, place, round_to_tf32(element(s, place)));
    while (place_next(&place, s->view.shape));
}

/* Runs forward and backward on the tensors of `all`. */
static void attend_both_ways(mtk_math math, struct strided *all)
{
    assert_int_equal(
        mtk_cpu.attention(0.3, math, &all[OUT].view, &all[LSE].view, &all[Q].view, &all[K].view, &all[V].view, NULL),
        MT_OK);
    const struct mtk_attention_grad call = {.scale = 0.3,
                                            .math = math,
                                            .dq = all[DQ].view,
                                            .dk = all[DK].view,
                                            .dv = all[DV].view,
                                            .delta = all[DELTA].view,
                                            .grad = all[GRAD].view,
                                            .q = all[Q].view,
                                            .k = all[K].view,
                                            .v = all[V].view,
                                            .out = all[ZERO].view,
                                            .lse = all[LSE].view};
    assert_int_equal(mtk_cpu.attention_grad(&call, NULL), MT_OK);
}

static void expect_equal_elements(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        assert_true(a[i] == b[i]);
}

/* In other dtypes nothing is rounded. */
static void attention_in_tf32_is_that_of_rounded_operands(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 2);
    for (int round = 0; round < 30; round++) {
        mt_dtype dtype = roll_float_dtype(&dice);
        int64_t shape[] = {1, 2, 1 + (int64_t)roll(&dice, 70), 2 + (int64_t)roll(&dice, 20)};
        struct strided all[TENSORS];
        double *in_tf32[TENSORS];
        for (int i = 0; i < TENSORS; i++)
            all[i] = i == LSE || i == DELTA ? create_column(&dice, dtype, shape) : strided_create(&dice, dtype, shape);
        assert_int_equal(mtk_cpu.fill(0, &all[ZERO].view, NULL), MT_OK);
        attend_both_ways(MTK_MATH_TF32, all);
        for (int i = OPERANDS; i < TENSORS; i++)
            in_tf32[i] = strided_elements(&all[i]);
        for (int i = 0; i < OPERANDS && dtype == MT_F32; i++)
            round_elements(&all[i]);
        attend_both_ways(MTK_MATH_FP32, all);
        for (int i = OPERANDS; i < TENSORS; i++) {
            double *of_rounded = strided_elements(&all[i]);
            expect_equal_elements(in_tf32[i], of_rounded, element_count(all[i].view.shape));
            free(in_tf32[i]);
            free(of_rounded);
        }
        for (int i = 0; i < TENSORS; i++)
            strided_destroy(&all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_of_rows_is_its_formula),
        cmocka_unit_test(what_has_no_softmax_is_nan),
        cmocka_unit_test(causal_attention_is_its_formula),
        cmocka_unit_test(attention_in_tf32_is_that_of_rounded_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
