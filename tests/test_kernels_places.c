/* Ops of the CPU's table in which an element's place has a meaning, against their formulas, like test_kernels_cpu.c:
 * reductions, the lower triangle, ops by index, rotation and random numbers. */
#include "cpu_ops.h"

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

/* Sums of the operands are exact in double in any order, so results are exact too. */
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
        struct strided all[] = {strided_create_indices(&dice, shape, table_shape[2]),
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

/* Adds up row-major over `in`, rounding after each addition, into `sums`, one for each element of `out`. */
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
        struct strided all[] = {strided_create_indices(&dice, shape, table_shape[2]),
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
        struct strided all[] = {strided_create_indices(&dice, shape, shape[3]),
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
        struct strided all[] = {strided_create_indices(&dice, shape, shape[3]),
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

/* The compiler may contract sums of products, which can change a rounding: one unit in the last place is allowed. */
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
