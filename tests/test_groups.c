/* Peaks and the largest blocks by role, category, module, op, phase and dtype, against scans of the same events. */
#include "random_runs.h"
#include "trace_edit.h"

#include "trace/query/groups.h"

static const char *const columns[] = {
    [MT_GROUP_ROLE] = "role", [MT_GROUP_CATEGORY] = "category", [MT_GROUP_MODULE] = "chain",
    [MT_GROUP_OP] = "op",     [MT_GROUP_PHASE] = "phase",       [MT_GROUP_DTYPE] = "dtype"};

static void check_group(const struct fixture *fixture, const struct mt_run *run, mt_measure measure, mt_group_key key)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak_by(fixture->trace, run, MT_ALL_STEPS, measure, key, &peak), MT_OK);
    check_shares_by(fixture, run, measure, columns[key], &peak);
    mt_peak_row_release(&peak);
}

static void check_groups(const struct fixture *fixture, const struct mt_run *run)
{
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        for (int key = 0; key < MT_GROUP_KEY_COUNT; key++)
            check_group(fixture, run, (mt_measure)measure, (mt_group_key)key);
}

static void shares_by_every_key_are_what_was_live_and_sum_to_the_peak(void **state)
{
    for_each_run(*state, check_groups);
}

/* Checks the sums of a choice against a scan of the blocks for which `where` holds. */
static void check_top_groups(const struct fixture *fixture, const struct mt_run *run,
                             const struct mt_top_choice *choice, mt_group_key key, const char *where)
{
    struct mt_top_group *groups;
    size_t count;
    bool complete;
    assert_int_equal(mt_trace_top_groups(fixture->trace, run, choice, key, &groups, &count, &complete), MT_OK);
    sqlite3_stmt *rows =
        scan(fixture, run,
             "SELECT %s, max(requested_bytes), sum(requested_bytes), count(*) FROM e WHERE kind = " KIND(
                 "alloc") " AND (%s) GROUP BY 1 ORDER BY %s DESC, %s DESC, 1",
             columns[key], where, choice->order == MT_TOP_BY_TOTAL ? "3" : "2",
             choice->order == MT_TOP_BY_TOTAL ? "2" : "3");
    assert_true(complete);
    for (size_t i = 0; i < count; i++) {
        assert_true(next_row(rows));
        assert_text(rows, 0, groups[i].name);
        assert_int_equal(groups[i].max_bytes, integer(rows, 1));
        assert_int_equal(groups[i].total_bytes, integer(rows, 2));
        assert_int_equal(groups[i].count, integer(rows, 3));
    }
    assert_false(next_row(rows));
    sqlite3_finalize(rows);
    free(groups);
}

static void check_choices(const struct fixture *fixture, const struct mt_run *run)
{
    static const struct {
        struct mt_top_choice choice;
        const char *where;
    } choices[] = {
        {{0}, "1"},
        {{.order = MT_TOP_BY_TOTAL}, "1"},
        {{.role = "gradient"}, "role = 'gradient'"},
        {{.category = "Tower", .order = MT_TOP_BY_TOTAL}, "category = 'Tower'"},
        {{.module = "model.layers"}, "path LIKE 'model.layers.%'"},
        {{.module = "model.layers.*.ffn"}, "path LIKE 'model.layers.%.ffn'"},
        {{.module = "model.layers.2"}, "path LIKE 'model.layers.2.%'"},
        {{.module = "layers"}, "0"},
    };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        for (int key = 0; key < MT_GROUP_KEY_COUNT; key++)
            check_top_groups(fixture, run, &choices[i].choice, (mt_group_key)key, choices[i].where);
}

static void sums_of_a_choice_are_those_of_a_scan(void **state)
{
    for_each_run(*state, check_choices);
}

static void check_ranking(const struct fixture *fixture, const struct mt_run *run)
{
    const struct mt_top_choice choice = {.order = MT_TOP_BY_TOTAL, .module = "model.layers"};
    struct mt_top_row *top;
    size_t count;
    bool complete;
    assert_int_equal(mt_trace_top(fixture->trace, run, &choice, 5, &top, &count, &complete), MT_OK);
    sqlite3_stmt *rows =
        scan(fixture, run,
             "SELECT requested_bytes, count(*), min(id), chain FROM e WHERE kind = " KIND(
                 "alloc") " AND path LIKE 'model.layers.%%' GROUP BY requested_bytes, category, op, phase,"
                          " role, dtype, shape, chain ORDER BY sum(requested_bytes) DESC,"
                          " requested_bytes DESC, count(*) DESC, min(id) LIMIT 5");
    for (size_t i = 0; i < count; i++) {
        assert_true(next_row(rows));
        assert_int_equal(top[i].bytes, integer(rows, 0));
        assert_int_equal(top[i].count, integer(rows, 1));
        assert_int_equal(top[i].total_bytes, integer(rows, 0) * integer(rows, 1));
        assert_int_equal(top[i].event, integer(rows, 2));
        assert_text(rows, 3, top[i].span);
    }
    assert_false(next_row(rows));
    sqlite3_finalize(rows);
    free(top);
}

static void a_ranking_by_sums_is_that_of_a_scan(void **state)
{
    for_each_run(*state, check_ranking);
}

static void a_run_whose_steps_tell_of_no_phase_has_no_peaks_of_phases(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_phase_peak *phases;
    size_t run_count, count;
    const struct mt_run *runs = mt_trace_runs(fixture->trace, &run_count);
    assert_int_equal(mt_trace_phase_peaks(fixture->trace, &runs[0], &phases, &count), MT_OK);
    assert_int_equal(count, 0);
    assert_null(phases);
}

/* Checks the peak by role of a copy of the trace without, or with wrong, rows by role. */
static void check_without_roles(const struct fixture *fixture, const struct mt_run *run)
{
    char copy[128];
    struct fixture edited = *fixture;
    struct mt_peak_row peak;
    snprintf(edited.path, sizeof edited.path, "test_groups_%d.db", (int)getpid());
    snprintf(copy, sizeof copy, "VACUUM INTO '%s'", edited.path);
    unlink(edited.path);
    edit_trace(fixture->path, copy);
    edit_trace(edited.path, "UPDATE summary_peak_role SET allocated_bytes = allocated_bytes + 1");
    assert_int_equal(mt_trace_open(edited.path, &edited.trace), MT_OK);
    assert_int_equal(mt_trace_peak_by(edited.trace, run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, MT_GROUP_ROLE, &peak),
                     MT_BAD_TRACE);
    mt_peak_row_release(&peak);
    edit_trace(edited.path, "DELETE FROM summary_peak_role");
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        check_group(&edited, run, (mt_measure)measure, MT_GROUP_ROLE);
    mt_trace_close(edited.trace);
    unlink(edited.path);
}

static void shares_by_role_are_read_where_they_are_stored_and_summed_where_not(void **state)
{
    for_each_run(*state, check_without_roles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(shares_by_every_key_are_what_was_live_and_sum_to_the_peak),
        RANDOM_TEST(shares_by_role_are_read_where_they_are_stored_and_summed_where_not),
        RANDOM_TEST(sums_of_a_choice_are_those_of_a_scan),
        RANDOM_TEST(a_ranking_by_sums_is_that_of_a_scan),
        RANDOM_TEST(a_run_whose_steps_tell_of_no_phase_has_no_peaks_of_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
