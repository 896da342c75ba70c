/* Matrix products of the CPU's table, also added to their outputs, against sums in double, element by element.
 *
 * The bound is that of the arithmetic: |error| <= (terms + 2) * unit roundoff * sum |a||b|, and for bf16 one more
 * rounding of the result. Elements are uniform in (-4, 4), so the product of operands that are transposed or shifted
 * wrongly is off by about the size of the result, thousands of times the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "strided.h"

#include <stdio.h>
#include <sys/mman.h>

enum { SEED = 7100, ROUNDS = 150 };

static double unit_roundoff(mt_dtype dtype)
{
    return dtype == MT_F64 ? 0x1p-53 : 0x1p-24;
}

/* The operands of a product as plain arrays of doubles: a is [outer * batch, m, terms], b is [outer * batch, terms,
 * n]. */
struct product {
    const struct mtk_product *how;
    double *a, *b;
    int64_t m, n, terms;
};

static const struct mtk_product plain = {.alpha = 1};

static void expect_product(const struct strided *out, const struct product *p, struct place place)
{
    int64_t matrix = place.at[0] * out->view.shape[1] + place.at[1];
    const double *a = p->a + (matrix * p->m + place.at[2]) * p->terms;
    const double *b = p->b + matrix * p->terms * p->n + place.at[3];
    double before = p->how->beta != 0 ? p->how->beta * element_before(out, place) : 0;
    double sum = before, size = fabs(before);
    for (int64_t k = 0; k < p->terms; k++) {
        sum += p->how->alpha * a[k] * b[k * p->n];
        size += fabs(p->how->alpha * a[k] * b[k * p->n]);
    }
    double bound = (double)(p->terms + 2) * unit_roundoff(out->view.dtype) * size;
    if (out->view.dtype == MT_BF16)
        bound += 0x1p-8 * fabs(sum);
    double error = fabs(element(out, place) - sum);
    if (!(error <= bound))
        fail_msg("%s (%d, %d, %d): %.9g, expected %.9g", mt_dtype_name(out->view.dtype), (int)place.at[1],
                 (int)place.at[2], (int)place.at[3], element(out, place), sum);
}

/* Returns the elements of an operand as the product reads them. The caller frees them. */
static double *operand_elements(const struct mtk_product *how, const struct strided *s)
{
    double *values = strided_elements(s);
    if (how->math == MTK_MATH_TF32 && s->view.dtype == MT_F32)
        for (int64_t i = 0; i < element_count(s->view.shape); i++)
            values[i] = round_to_tf32(values[i]);
    return values;
}

/* Multiplies, and checks every element and that nothing else changed. */
static void check_product_of(const struct mtk_product *how, struct strided *out, const struct strided *a,
                             const struct strided *b)
{
    assert_int_equal(mtk_cpu.matmul(how, &out->view, &a->view, &b->view, 0, 0, 0), MT_OK);
    assert_true(strided_unchanged(a) && strided_unchanged(b));
    struct product p = {how,
                        operand_elements(how, a),
                        operand_elements(how, b),
                        out->view.shape[2],
                        out->view.shape[3],
                        a->view.shape[3]};
    struct place place = {{0}};
    do
        expect_product(out, &p, place);
    while (place_next(&place, out->view.shape));
    assert_true(strided_surroundings_unchanged(out));
    free(p.a);
    free(p.b);
}

static void check_product(struct strided *out, const struct strided *a, const struct strided *b)
{
    check_product_of(&plain, out, a, b);
}

/* Checks one product of random sizes up to `largest` and random orders. An operand may be one matrix for the whole
 * batch. */
static void check_random_product(struct dice *dice, mt_dtype dtype, uint64_t largest)
{
    const struct mtk_product how = {
        .math = (mtk_math)roll(dice, 2), .alpha = roll(dice, 2) == 0 ? 1 : 0.75, .beta = roll(dice, 2) == 0 ? 0 : 0.5};
    int64_t outer = 1 + (int64_t)roll(dice, 2);
    mt_dtype out_dtype = dtype == MT_BF16 && roll(dice, 2) == 0 ? MT_F32 : dtype;
    int64_t batch = 1 + (int64_t)roll(dice, 3), m = 1 + (int64_t)roll(dice, largest);
    int64_t n = 1 + (int64_t)roll(dice, largest), k = 1 + (int64_t)roll(dice, largest);
    struct strided a = strided_create_matrix(dice, dtype, (int64_t[]){outer, batch, m, k}, roll_order(dice));
    struct strided b = strided_create_matrix(dice, dtype, (int64_t[]){outer, batch, k, n}, roll_order(dice));
    struct strided out = strided_create_matrix(dice, out_dtype, (int64_t[]){outer, batch, m, n}, roll_order(dice));
    if (roll(dice, 4) == 0)
        a.view.stride[1] = 0;
    if (roll(dice, 4) == 0)
        b.view.stride[1] = 0;
    check_product_of(&how, &out, &a, &b);
    strided_destroy(&a);
    strided_destroy(&b);
    strided_destroy(&out);
}

static void products_of_any_order_are_sums_of_products(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 0);
    for (int round = 0; round < ROUNDS; round++)
        for (mt_dtype dtype = MT_F32; dtype <= MT_F64; dtype++)
            check_random_product(&dice, dtype, 20);
}

static void vectors_and_single_elements_are_matrices_too(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 1);
    for (int round = 0; round < ROUNDS; round++)
        for (mt_dtype dtype = MT_F32; dtype <= MT_F64; dtype++)
            check_random_product(&dice, dtype, 2);
}

/* Products that are larger than any tile in one, two and three of the sizes. */
static void products_beyond_one_tile_are_whole(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{130, 3, 5}, {3, 257, 2}, {2, 3, 700}, {129, 140, 270}, {256, 128, 512}};
    struct dice dice = dice_of_seed(SEED + 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int order = 0; order < 8; order++) {
            int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            mt_dtype dtype = order % 3 == 0 ? MT_F32 : MT_BF16;
            struct strided a = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, m, k}, order & 1);
            struct strided b = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, k, n}, order >> 1 & 1);
            struct strided out = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, m, n}, order >> 2 & 1);
            check_product(&out, &a, &b);
            strided_destroy(&a);
            strided_destroy(&b);
            strided_destroy(&out);
        }
}

/* An expanded operand, or one whose rows overlap: one of the last two strides is 1, the other 0 or 1. */
static void operands_whose_rows_or_columns_share_elements_are_read_as_such(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 3);
    for (int round = 0; round < ROUNDS; round++)
        for (mt_dtype dtype = MT_F32; dtype <= MT_F64; dtype++) {
            int64_t m = 1 + (int64_t)roll(&dice, 9), n = 1 + (int64_t)roll(&dice, 9), k = 1 + (int64_t)roll(&dice, 9);
            enum strided_order order = roll_order(&dice);
            struct strided a = strided_create_matrix(&dice, dtype, (int64_t[]){1, 2, m, k}, order);
            struct strided b = strided_create_matrix(&dice, dtype, (int64_t[]){1, 2, k, n}, roll_order(&dice));
            struct strided out = strided_create_matrix(&dice, dtype, (int64_t[]){1, 2, m, n}, STRIDED_BY_ROWS);
            a.view.stride[order == STRIDED_BY_ROWS ? 2 : 3] = (int64_t)roll(&dice, 2);
            check_product(&out, &a, &b);
            strided_destroy(&a);
            strided_destroy(&b);
            strided_destroy(&out);
        }
}

/* The old content of the output must not matter, not even nan. */
static void the_output_is_written_and_not_added_to(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 4);
    for (mt_dtype dtype = MT_F32; dtype <= MT_F64; dtype++) {
        struct strided a = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, 6, 7}, STRIDED_BY_ROWS);
        struct strided b = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, 7, 5}, STRIDED_BY_ROWS);
        struct strided out = strided_create_matrix(&dice, dtype, (int64_t[]){1, 1, 6, 5}, STRIDED_BY_ROWS);
        assert_int_equal(mtk_cpu.fill(NAN, &out.view, 0), MT_OK);
        check_product(&out, &a, &b);
        strided_destroy(&a);
        strided_destroy(&b);
        strided_destroy(&out);
    }
}

/* Sums of bf16 products are kept in fp32: 4096 ones would be lost in bf16 sums from 256 on. */
static void bf16_products_accumulate_in_fp32_and_round_to_even_once(void **state)
{
    (void)state;
    enum { TERMS = 4096 };
    struct dice dice = dice_of_seed(SEED + 5);
    struct strided a = strided_create_matrix(&dice, MT_BF16, (int64_t[]){1, 1, 1, TERMS}, STRIDED_BY_ROWS);
    struct strided b = strided_create_matrix(&dice, MT_BF16, (int64_t[]){1, 1, TERMS, 1}, STRIDED_BY_COLUMNS);
    struct strided out = strided_create_matrix(&dice, MT_BF16, (int64_t[]){1, 1, 1, 1}, STRIDED_BY_ROWS);
    assert_int_equal(mtk_cpu.fill(1, &a.view, 0), MT_OK);
    assert_int_equal(mtk_cpu.fill(1, &b.view, 0), MT_OK);
    struct place first = {{0}};
    for (int added = 0; added < 64; added++) {
        element_set(&b, first, added);
        assert_int_equal(mtk_cpu.matmul(&plain, &out.view, &a.view, &b.view, 0, 0, 0), MT_OK);
        assert_true(element(&out, first) == round_to_dtype(TERMS - 1 + added, MT_BF16));
    }
    strided_destroy(&a);
    strided_destroy(&b);
    strided_destroy(&out);
}

static float tf32_product(float a, float b)
{
    const struct mtk_product how = {.math = MTK_MATH_TF32, .alpha = 1};
    float product = 0;
    const struct mtk_view left = {(mt_addr)(uintptr_t)&a, MT_F32, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const struct mtk_view right = {(mt_addr)(uintptr_t)&b, MT_F32, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const struct mtk_view out = {(mt_addr)(uintptr_t)&product, MT_F32, {1, 1, 1, 1}, {1, 1, 1, 1}};
    assert_int_equal(mtk_cpu.matmul(&how, &out, &left, &right, 0, 0, 0), MT_OK);
    return product;
}

/* tf32 has ten bits of mantissa. Halves are rounded away from 0, and infinities and nan stay. */
static void tf32_rounds_what_it_multiplies_to_ten_bits(void **state)
{
    (void)state;
    uint32_t nan_bits = 0x7F800001; /* nan only by its lowest bit */
    float lowest_nan;
    memcpy(&lowest_nan, &nan_bits, sizeof lowest_nan);
    assert_true(tf32_product(1 + 0x1p-10f, 1) == 1 + 0x1p-10f);
    assert_true(tf32_product(1 + 0x1p-11f, 1) == 1 + 0x1p-10f);
    assert_true(tf32_product(1, -1 - 0x1p-11f) == -1 - 0x1p-10f);
    assert_true(tf32_product(1 + 0x1p-11f - 0x1p-23f, 1) == 1);
    assert_true(tf32_product(0x1.fffp5f, 1) == 64);
    assert_true(tf32_product(INFINITY, -2) == -INFINITY);
    assert_true(isnan(tf32_product(lowest_nan, 1)) && isnan(tf32_product(1, NAN)));
}

/* Two rows with more elements between them than an int counts. Addresses are reserved for all, memory for two pages. */
static void rows_far_apart_are_read_where_they_are(void **state)
{
    (void)state;
    const int64_t apart = ((int64_t)1 << 32) + 4; /* 4 if cut to an int */
    const size_t bytes = (size_t)(apart + 4) * sizeof(float);
    float *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    float near[] = {1, 2, 3, 4, 5, 6}, sums[4] = {0};
    assert_ptr_not_equal(far, MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        far[i] = (float)(i + 1);
        far[apart + i] = (float)(i + 10);
    }
    const struct mtk_view a = {(mt_addr)(uintptr_t)far, MT_F32, {1, 1, 2, 3}, {0, 0, apart, 1}};
    const struct mtk_view b = {(mt_addr)(uintptr_t)near, MT_F32, {1, 1, 3, 2}, {6, 6, 2, 1}};
    const struct mtk_view out = {(mt_addr)(uintptr_t)sums, MT_F32, {1, 1, 2, 2}, {4, 4, 2, 1}};
    assert_int_equal(mtk_cpu.matmul(&plain, &out, &a, &b, 0, 0, 0), MT_OK);
    munmap(far, bytes);
    static const float expected[] = {22, 28, 103, 136};
    assert_memory_equal(sums, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_any_order_are_sums_of_products),
        cmocka_unit_test(vectors_and_single_elements_are_matrices_too),
        cmocka_unit_test(products_beyond_one_tile_are_whole),
        cmocka_unit_test(operands_whose_rows_or_columns_share_elements_are_read_as_such),
        cmocka_unit_test(the_output_is_written_and_not_added_to),
        cmocka_unit_test(bf16_products_accumulate_in_fp32_and_round_to_even_once),
        cmocka_unit_test(tf32_rounds_what_it_multiplies_to_ten_bits),
        cmocka_unit_test(rows_far_apart_are_read_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
