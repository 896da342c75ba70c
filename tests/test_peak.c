/* `peak`, `top` and `diff` by role, category, module, op, phase and dtype: the sums agree with the peaks to the byte. And
 * the two meanings of a category's largest allocation. */
#include "two_runs.h"

static const char *const group_keys[] = {"role", "category", "module", "op", "phase", "dtype"};
enum { KEYS = sizeof group_keys / sizeof group_keys[0] };

static json_int_t sum_of(const json_t *object, const char *rows, const char *field)
{
    const json_t *list = json_object_get(object, rows);
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += integer_of(json_array_get(list, i), field);
    return sum;
}

static void check_peak(const char *key)
{
    json_t *peak = json_of(shell("\"$M\" peak --json --run first --by %s", key));
    const json_t *requested = json_object_get(peak, "requested"), *reserved = json_object_get(peak, "reserved");
    const json_t *of_key = json_object_get(json_array_get(json_object_get(peak, "rows"), 0), key);
    assert_string_equal(json_string_value(json_object_get(peak, "by")), key);
    assert_non_null(json_string_value(of_key));
    ASSERT_ROWS(peak, "requested_bytes", "allocated_bytes", "blocks");
    assert_int_equal(sum_of(peak, "rows", "allocated_bytes"), integer_of(peak, "allocated_bytes"));
    assert_int_equal(sum_of(peak, "rows", "blocks"), sum_of(peak, "by_category", "blocks"));
    assert_int_equal(sum_of(requested, "rows", "requested_bytes"), integer_of(peak, "requested_bytes"));
    assert_int_equal(sum_of(reserved, "rows", "allocated_bytes") + integer_of(reserved, "cached_bytes"),
                     integer_of(peak, "reserved_bytes"));
    json_decref(peak);
}

static void peak_adds_up_by_every_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++)
        check_peak(group_keys[i]);
}

static void peak_speaks_of_roles_first_then_of_categories_and_phases(void **state)
{
    (void)state;
    const char *said = MEMTRACE("peak --run first")->out;
    const char *role = strstr(said, "\nrole "), *category = strstr(said, "\ncategory "),
               *phase = strstr(said, "\nphase ");
    assert_true(role != NULL && role < category && category < phase);
    assert_true(strstr(said, "\noptimizer state ") > role && strstr(said, "\noptimizer state ") < category);
    assert_true(strstr(said, "\nOpt State ") > category && strstr(phase, "\noptimizer ") != NULL);
    json_t *peak = json_of(MEMTRACE("peak --json --run first"));
    assert_string_equal(json_string_value(json_object_get(peak, "by")), "role");
    assert_int_equal(json_array_size(json_object_get(peak, "phases")), 5);
    json_decref(peak);
}

static void a_table_of_peak_sums_up_the_parts_that_it_leaves_out(void **state)
{
    (void)state;
    const char *said = MEMTRACE("peak --run first --by module --rows 2")->out;
    assert_says(said, " more) ");
    assert_says(said, "\ntotal ");
    assert_int_equal(count_lines(strstr(said, "\nmodule ") + 1),
                     1 + 2 + 1 + 2); /* heading, parts, rest, cached, total */
}

static void layers_are_folded_into_one_module(void **state)
{
    (void)state;
    const char *said = MEMTRACE("peak --run first --by module --rows 100")->out;
    assert_says(said, "\nmodel.layers.*.ffn.w1 ");
    assert_null(strstr(said, "model.layers.0"));
}

/* Returns the row of a category in `categories`, borrowed. */
static const json_t *row_of(const json_t *answer, const char *category)
{
    const json_t *rows = json_object_get(answer, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(text_of(json_array_get(rows, i), "category"), category) == 0)
            return json_array_get(rows, i);
    fail_msg("no category %s", category);
    return NULL;
}

/* Backward counts the maxima of a row of scores as 64-bit integers, in twice the bytes of its scores. */
static void the_largest_in_forward_and_overall_are_told_apart(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("categories --json --run first"));
    const json_t *softmax = row_of(answer, "Softmax"), *gradient = row_of(answer, "Gradient");
    json_int_t in_forward = integer_of(softmax, "forward_max_bytes"), overall = integer_of(softmax, "max_bytes");
    assert_int_equal(overall, 2 * in_forward);
    assert_true(json_is_null(json_object_get(gradient, "forward_max_bytes")));
    assert_true(integer_of(gradient, "max_bytes") > 0);
    json_decref(answer);
    const char *check = "\"$M\" check --run first --largest 'Softmax<=%" JSON_INTEGER_FORMAT "B'";
    assert_int_equal(shell(check, overall)->code, 0);
    assert_int_equal(shell(check, overall - 1)->code, 1);
    assert_says(MEMTRACE("categories --run first")->out, "largest in forward  largest over all");
    assert_says(MEMTRACE("categories --phase backward")->out, "largest in the phase");
    assert_says(MEMTRACE("help check")->out, "in any phase");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(peak_adds_up_by_every_key),
        TEST_WITH_TWO_RUNS(peak_speaks_of_roles_first_then_of_categories_and_phases),
        TEST_WITH_TWO_RUNS(a_table_of_peak_sums_up_the_parts_that_it_leaves_out),
        TEST_WITH_TWO_RUNS(the_largest_in_forward_and_overall_are_told_apart),
        TEST_WITH_TWO_RUNS(layers_are_folded_into_one_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
