/* `peak`, `top` and `diff` by role, category, module, op, phase and dtype: the sums agree with the peaks to the byte.
 * And the two meanings of a category's largest allocation. */
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

static void peak_answers_in_a_line_and_then_speaks_of_roles_and_phases(void **state)
{
    (void)state;
    const char *said = MEMTRACE("peak --run first")->out;
    const char *role = strstr(said, "\nrole "), *phase = strstr(said, "\nphase ");
    const char *first = strstr(said, " live in ");
    assert_true(first != NULL && first < strchr(said, '\n'));
    assert_true(role != NULL && role < phase);
    assert_true(strstr(said, "\noptimizer state ") > role && strstr(said, "\noptimizer state ") < phase);
    assert_non_null(strstr(phase, "\noptimizer "));
    assert_null(strstr(said, "\ncategory "));
    assert_null(strstr(said, "bytes"));
    assert_says(MEMTRACE("peak --run first --bytes")->out, " bytes ");
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
    assert_int_equal(count_lines(strstr(said, "\nmodule ") + 1), 1 + 2 + 1 + 1); /* heading, parts, rest, total */
}

static void layers_are_folded_into_one_module(void **state)
{
    (void)state;
    const char *said = MEMTRACE("peak --run first --by module --rows 100")->out;
    assert_says(said, "\nmodel.layers.*.ffn.w1 ");
    assert_null(strstr(said, "model.layers.0"));
}

/* Returns the answer's row whose `key` is `name`, borrowed. */
static const json_t *find_row(const json_t *answer, const char *key, const char *name)
{
    const json_t *rows = json_object_get(answer, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(text_of(json_array_get(rows, i), key), name) == 0)
            return json_array_get(rows, i);
    fail_msg("no %s %s", key, name);
    return NULL;
}

/* The largest blocks at the peak are summed up as the peak is. */
static void top_by_a_key_agrees_with_peak(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++) {
        json_t *top = json_of(shell("\"$M\" top 1000 --at peak --run first --json --by %s", group_keys[i]));
        json_t *peak = json_of(shell("\"$M\" peak --run first --json --by %s", group_keys[i]));
        const json_t *groups = json_object_get(peak, "rows");
        assert_int_equal(json_array_size(groups), json_array_size(json_object_get(top, "rows")));
        for (size_t row = 0; row < json_array_size(groups); row++) {
            const json_t *of_peak = json_array_get(groups, row);
            const json_t *of_top = find_row(top, group_keys[i], text_of(of_peak, group_keys[i]));
            assert_int_equal(integer_of(of_top, "total_bytes"), integer_of(of_peak, "requested_bytes"));
            assert_int_equal(integer_of(of_top, "count"), integer_of(of_peak, "blocks"));
        }
        json_decref(top);
        json_decref(peak);
    }
}

static void diff_by_every_key_adds_up_to_the_peaks(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++) {
        json_t *diff = json_of(shell("\"$M\" diff first second --json --by %s", group_keys[i]));
        assert_string_equal(text_of(diff, "by"), group_keys[i]);
        assert_int_equal(sum_of(diff, "groups", "delta_bytes"), integer_of(diff, "allocated_delta_bytes"));
        assert_int_equal(sum_of(diff, "groups", "a_bytes"), integer_of(json_object_get(diff, "a"), "allocated_bytes"));
        assert_int_equal(sum_of(diff, "groups", "b_blocks"), integer_of(json_object_get(diff, "b"), "blocks"));
        text_of(json_array_get(json_object_get(diff, "groups"), 0), group_keys[i]);
        json_decref(diff);
    }
    const char *said = MEMTRACE("diff first second --by module --rows 2")->out;
    assert_says(said, "by module:\n");
    assert_says(said, " more)\n");
}

static void top_is_filtered_and_sorted_as_asked(void **state)
{
    (void)state;
    json_t *top =
        json_of(MEMTRACE("top 1000 --run first --json --sort total --role weight-cast --module 'model.*.ffn'"));
    assert_int_equal(json_array_size(json_object_get(top, "rows")), 0); /* without autocast nothing is cast */
    json_decref(top);
    top = json_of(MEMTRACE("top 1000 --run first --json --sort total --role activation --module 'model.layers.*.ffn'"));
    const json_t *rows = json_object_get(top, "rows");
    assert_true(json_array_size(rows) > 1);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(text_of(row, "role"), "activation");
        assert_says(text_of(row, "span"), "model.layers.*.ffn");
        assert_int_equal(integer_of(row, "total_bytes"), integer_of(row, "bytes") * integer_of(row, "count"));
        if (i > 0)
            assert_true(integer_of(row, "total_bytes") <= integer_of(json_array_get(rows, i - 1), "total_bytes"));
    }
    json_decref(top);
    assert_says(MEMTRACE("top 1 --by op --run first")->out, " more) ");
    assert_says(MEMTRACE("top --category Nothing")->err, "no allocation matches");
    assert_int_equal(MEMTRACE("top --role nothing")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("top --each --by op")->code, MT_USAGE);
}

/* Backward counts the maxima of a row of scores as 64-bit integers, in twice the bytes of its scores. */
static void the_largest_in_forward_and_overall_are_told_apart(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("categories --json --run first"));
    const json_t *softmax = find_row(answer, "category", "Softmax"),
                 *gradient = find_row(answer, "category", "Gradient");
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
        TEST_WITH_TWO_RUNS(peak_answers_in_a_line_and_then_speaks_of_roles_and_phases),
        TEST_WITH_TWO_RUNS(a_table_of_peak_sums_up_the_parts_that_it_leaves_out),
        TEST_WITH_TWO_RUNS(top_by_a_key_agrees_with_peak),
        TEST_WITH_TWO_RUNS(diff_by_every_key_adds_up_to_the_peaks),
        TEST_WITH_TWO_RUNS(top_is_filtered_and_sorted_as_asked),
        TEST_WITH_TWO_RUNS(the_largest_in_forward_and_overall_are_told_apart),
        TEST_WITH_TWO_RUNS(layers_are_folded_into_one_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
