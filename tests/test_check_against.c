/* The check that compares with another run: allowed growth, and that growth with one cause fails once. */
#include "base/status.h"
#include "program.h"

/* A model that runs in no time. */
#define TINY "run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 "

/* Runs: 1 and 2 are equal, 3 is larger and the newest. */
static int set_up(void **state)
{
    *state = enter_folder("test_check_against");
    assert_int_equal(MEMTRACE(TINY "--seq 8 --steps 2 --name small")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--seq 8 --steps 2 --name twin")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--seq 64 --steps 2 --name large")->code, 0);
    return 0;
}

static json_int_t peak_bytes(const char *run, const char *key)
{
    json_t *peak = json_of(shell("\"$M\" peak --run %s --json", run));
    json_int_t bytes = integer_of(peak, key);
    json_decref(peak);
    return bytes;
}

static void another_run_is_a_bound_with_its_tolerance(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("check --run small --against twin --tolerance 0")->code, 0);
    assert_int_equal(MEMTRACE("check --against small --tolerance 100000%%")->code, 0);
    json_t *check = json_of_code(MEMTRACE("check --against memtrace.db:small --tolerance 2.5%% --json"), MT_FAILED);
    json_t *small = json_of(MEMTRACE("peak --run small --json")), *criteria = json_object_get(check, "criteria");
    json_int_t allocated = integer_of(small, "allocated_bytes");
    assert_string_equal(text_of(json_array_get(criteria, 1), "criterion"), "against run 1 of memtrace.db: allocated");
    assert_int_equal(integer_of(json_array_get(criteria, 1), "bound_bytes"), allocated + allocated / 40);
    assert_int_equal(integer_of(json_array_get(criteria, 1), "value_bytes"), peak_bytes("large", "allocated_bytes"));
    assert_string_equal(text_of(check, "differences"), "seq 8 → 64");
    json_decref(small);
    json_decref(check);
}

/* Returns the answer of a check of the newest run against the first that fails by one criterion. */
static json_t *failed_comparison(const char *allowed, const char *criterion)
{
    json_t *check = json_of_code(shell("\"$M\" check --against small --json %s", allowed), MT_FAILED);
    assert_int_equal(integer_of(check, "failed"), 1);
    const json_t *criteria = json_object_get(check, "criteria"), *item;
    size_t index;
    json_array_foreach(criteria, index, item)
    {
        assert_int_equal(json_is_true(json_object_get(item, "passed")),
                         strcmp(text_of(item, "criterion"), criterion) != 0);
    }
    return check;
}

/* The larger run has more in every category, allocated and reserved. */
static void growth_of_one_cause_fails_once_and_names_its_categories(void **state)
{
    (void)state;
    json_t *check = failed_comparison("", "against run 1: allocated");
    const json_t *allocated = json_array_get(json_object_get(check, "criteria"), 1),
                 *categories = json_object_get(json_object_get(check, "against"), "categories");
    json_int_t ours = integer_of(allocated, "value_bytes"), theirs = integer_of(allocated, "against_bytes");
    char percent[64], first[64];
    snprintf(percent, sizeof percent, "(%.2f %%) more than ", (double)(ours - theirs) * 100 / (double)theirs);
    snprintf(first, sizeof first, ", with 1 %% allowed: %s +", text_of(json_array_get(categories, 0), "category"));
    assert_says(text_of(allocated, "text"), percent);
    assert_says(text_of(allocated, "text"), first);
    assert_true(json_array_size(categories) > 5);
    json_decref(check);
}

/* Reserved bytes grew by more than allocated ones. */
static void categories_that_grew_within_the_peaks_fail_together(void **state)
{
    (void)state;
    char enough[64];
    double percent =
        (double)peak_bytes("large", "reserved_bytes") * 100 / (double)peak_bytes("small", "reserved_bytes") - 100 + 0.1;
    snprintf(enough, sizeof enough, "--tolerance %f%%", percent);
    json_decref(failed_comparison(enough, "against run 1: categories"));
}

static void growth_passes_up_to_the_floor(void **state)
{
    (void)state;
    long long growth = peak_bytes("large", "reserved_bytes") - peak_bytes("small", "reserved_bytes");
    const struct said *said = shell("\"$M\" check --against small --tolerance 0 --floor %lldB", growth);
    assert_int_equal(said->code, MT_OK);
    said = shell("\"$M\" check --against small --tolerance 0 --floor %lldB", growth - 1);
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "fails 1 of 3 criteria");
    assert_says(said->out, " allowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_run_is_a_bound_with_its_tolerance),
        cmocka_unit_test(growth_of_one_cause_fails_once_and_names_its_categories),
        cmocka_unit_test(categories_that_grew_within_the_peaks_fail_together),
        cmocka_unit_test(growth_passes_up_to_the_floor),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
