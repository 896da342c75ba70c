/* Peaks, categories, the largest blocks and events of random runs, against scans of the same events. */
#include "random_runs.h"
#include "seed.h"
#include "trace_edit.h"

/* The highest running sum of `up` - `down`, and the first event that reached it. */
static void check_peak(const struct fixture *fixture, const struct mt_run *run, mt_measure measure, const char *up,
                       const char *down, const char *column)
{
    struct mt_peak_row peak = load_peak(fixture, run, measure);
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT id, sum(CASE kind WHEN (SELECT id FROM event_kind WHERE name = '%s') THEN %s WHEN"
                              " (SELECT id FROM event_kind WHERE name = '%s') THEN -%s ELSE 0 END) OVER (ORDER BY id)"
                              " AS total, time_ns FROM e ORDER BY total DESC, id LIMIT 1",
                              up, column, down, column);
    assert_true(next_row(rows));
    assert_int_equal(peak.event, integer(rows, 0));
    assert_int_equal(peak.bytes, integer(rows, 1));
    assert_int_equal(peak.time_ns, integer(rows, 2));
    sqlite3_finalize(rows);
    mt_peak_row_release(&peak);
}

static void check_peaks(const struct fixture *fixture, const struct mt_run *run)
{
    check_peak(fixture, run, MT_MEASURE_ALLOCATED, "alloc", "free", "block_bytes");
    check_peak(fixture, run, MT_MEASURE_REQUESTED, "alloc", "free", "requested_bytes");
    check_peak(fixture, run, MT_MEASURE_RESERVED, "segment_map", "segment_unmap", "block_bytes");
}

static void peaks_are_those_of_a_scan(void **state)
{
    for_each_run(*state, check_peaks);
}

static void check_shares_of(const struct fixture *fixture, const struct mt_run *run, mt_measure measure)
{
    struct mt_peak_row peak = load_peak(fixture, run, measure);
    check_shares_by(fixture, run, measure, "category", &peak);
    mt_peak_row_release(&peak);
}

static void check_shares(const struct fixture *fixture, const struct mt_run *run)
{
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        check_shares_of(fixture, run, (mt_measure)measure);
}

static void shares_are_what_was_live_and_sum_to_the_peak(void **state)
{
    for_each_run(*state, check_shares);
}

static void check_moment(const struct fixture *fixture, const struct mt_run *run)
{
    struct mt_peak_row peak = load_peak(fixture, run, MT_MEASURE_ALLOCATED);
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT phase, path, ifnull((SELECT number FROM step WHERE run = %" PRId64
                              " AND first_event <= e.id AND last_event >= e.id), -1) FROM e WHERE e.id = %" PRId64,
                              run->id, peak.event);
    assert_true(next_row(rows));
    assert_text(rows, 0, peak.phase);
    assert_text(rows, 1, peak.span);
    assert_int_equal(peak.step, integer(rows, 2));
    sqlite3_finalize(rows);
    mt_peak_row_release(&peak);
}

static void a_peak_tells_step_phase_and_span_of_the_block_that_made_it(void **state)
{
    for_each_run(*state, check_moment);
}

static void check_categories_of(const struct fixture *fixture, const struct mt_run *run, const char *phase,
                                const char *where)
{
    struct mt_category_row *categories;
    size_t count;
    assert_int_equal(mt_trace_categories(fixture->trace, run, phase, &categories, &count), MT_OK);
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT category, max(requested_bytes), sum(id >= s.first_event AND id <= s.last_event),"
                              " sum(requested_bytes), (SELECT max(requested_bytes) FROM e AS f WHERE kind = " KIND(
                                  "alloc") " AND f.category = e.category AND f.phase IN ('forward', 'loss')) FROM e, "
                                           "(SELECT first_event, last_event FROM step WHERE run = "
                                           "%" PRId64 " ORDER BY number DESC LIMIT 1) AS s WHERE kind = " KIND(
                                               "alloc") " AND (%s) GROUP BY category ORDER BY 2 DESC, category",
                              run->id, where);
    for (size_t i = 0; i < count; i++) {
        assert_true(next_row(rows));
        assert_text(rows, 0, categories[i].category);
        assert_int_equal(categories[i].max_bytes, integer(rows, 1));
        assert_int_equal(categories[i].per_step, integer(rows, 2));
        assert_int_equal(categories[i].total_bytes, integer(rows, 3));
        assert_int_equal(categories[i].forward_bytes, integer(rows, 4));
    }
    assert_false(next_row(rows));
    sqlite3_finalize(rows);
    free(categories);
}

static void check_categories(const struct fixture *fixture, const struct mt_run *run)
{
    check_categories_of(fixture, run, "forward", "phase = 'forward'");
    check_categories_of(fixture, run, "optimizer", "phase = 'optimizer'");
    check_categories_of(fixture, run, NULL, "1");
}

static void categories_are_those_of_a_scan(void **state)
{
    for_each_run(*state, check_categories);
}

static void check_merged(const struct fixture *fixture, const struct mt_run *run, mt_top_moment moment, size_t limit,
                         const char *where)
{
    struct mt_top_row *top;
    size_t count;
    bool complete;
    assert_int_equal(
        mt_trace_top(fixture->trace, run, &(struct mt_top_choice){.moment = moment}, limit, &top, &count, &complete),
        MT_OK);
    sqlite3_stmt *rows =
        scan(fixture, run,
             "SELECT requested_bytes, count(*), category, op, phase, role, dtype, shape, chain, min(id) FROM e WHERE %s"
             " GROUP BY requested_bytes, category, op, phase, role, dtype, shape, chain"
             " ORDER BY requested_bytes DESC, count(*) DESC, min(id) LIMIT %zu",
             where, limit);
    assert_true(complete);
    for (size_t i = 0; i < count; i++) {
        assert_true(next_row(rows));
        assert_int_equal(top[i].bytes, integer(rows, 0));
        assert_int_equal(top[i].count, integer(rows, 1));
        const char *texts[] = {top[i].category, top[i].op,    top[i].phase, top[i].role,
                               top[i].dtype,    top[i].shape, top[i].span};
        for (int column = 0; column < 7; column++)
            assert_text(rows, column + 2, texts[column]);
        assert_int_equal(top[i].event, integer(rows, 9));
    }
    assert_false(next_row(rows));
    sqlite3_finalize(rows);
    free(top);
}

static void check_each(const struct fixture *fixture, const struct mt_run *run, mt_top_moment moment, size_t limit,
                       const char *where)
{
    struct mt_top_row *top;
    size_t count;
    bool complete;
    assert_int_equal(mt_trace_top(fixture->trace, run,
                                  &(struct mt_top_choice){.grouping = MT_TOP_EACH, .moment = moment}, limit, &top,
                                  &count, &complete),
                     MT_OK);
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT id, requested_bytes, ifnull((SELECT number FROM step WHERE run = %" PRId64
                              " AND first_event <= e.id AND last_event >= e.id), -1) FROM e WHERE %s"
                              " ORDER BY requested_bytes DESC, id LIMIT %zu",
                              run->id, where, limit);
    for (size_t i = 0; i < count; i++) {
        assert_true(next_row(rows));
        assert_int_equal(top[i].event, integer(rows, 0));
        assert_int_equal(top[i].bytes, integer(rows, 1));
        assert_int_equal(top[i].step, integer(rows, 2));
        assert_int_equal(top[i].count, 1);
    }
    assert_false(next_row(rows));
    sqlite3_finalize(rows);
    free(top);
}

static void check_top(const struct fixture *fixture, const struct mt_run *run)
{
    static const size_t limits[] = {1, 10, 1000000};
    struct mt_peak_row peak = load_peak(fixture, run, MT_MEASURE_ALLOCATED);
    char live[512];
    snprintf(live, sizeof live, LIVE_AT, peak.event, peak.event);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        check_merged(fixture, run, MT_TOP_WHOLE_RUN, limits[i], "kind = " KIND("alloc"));
        check_merged(fixture, run, MT_TOP_AT_PEAK, limits[i], live);
        check_each(fixture, run, MT_TOP_WHOLE_RUN, limits[i], "kind = " KIND("alloc"));
        check_each(fixture, run, MT_TOP_AT_PEAK, limits[i], live);
    }
    mt_peak_row_release(&peak);
}

static void top_is_that_of_a_scan(void **state)
{
    for_each_run(*state, check_top);
}

/* Compares rows as they come with those of a scan. */
struct comparison {
    sqlite3_stmt *rows;
    int64_t count;
    bool began;
};

static mt_status begin_comparison(void *context)
{
    ((struct comparison *)context)->began = true;
    return MT_OK;
}

static mt_status compare_event(void *context, const struct mt_event_row *row)
{
    struct comparison *comparison = context;
    assert_true(next_row(comparison->rows));
    assert_int_equal(row->n, comparison->count++);
    assert_text(comparison->rows, 0, row->action);
    assert_int_equal(row->id, integer(comparison->rows, 1));
    assert_int_equal(row->bytes, integer(comparison->rows, 2));
    const char *texts[] = {row->category, row->op, row->phase};
    for (int column = 0; column < 3; column++)
        assert_text(comparison->rows, column + 3, texts[column]);
    return MT_OK;
}

static void check_events_of(const struct fixture *fixture, const struct mt_run *run, int64_t step, const char *where)
{
    struct comparison comparison = {
        .rows = scan(fixture, run,
                     "SELECT name, ifnull(allocation, e.id) - %" PRId64 ", requested_bytes, category, op, phase FROM e"
                     " JOIN event_kind ON event_kind.id = kind WHERE name IN ('alloc', 'free') AND %s ORDER BY e.id",
                     run->first_event, where)};
    struct mt_event_visitor visitor = {&comparison, begin_comparison, compare_event};
    assert_int_equal(mt_trace_events(fixture->trace, run, step, &visitor), MT_OK);
    assert_false(next_row(comparison.rows));
    assert_true(comparison.began && comparison.count > 0);
    sqlite3_finalize(comparison.rows);
}

static void check_events(const struct fixture *fixture, const struct mt_run *run)
{
    char where[256];
    snprintf(where, sizeof where,
             "e.id BETWEEN (SELECT first_event FROM step WHERE run = %" PRId64 " AND number = 0)"
             " AND (SELECT last_event FROM step WHERE run = %" PRId64 " AND number = 0)",
             run->id, run->id);
    check_events_of(fixture, run, MT_ALL_STEPS, "1");
    check_events_of(fixture, run, 0, where);
}

static void events_are_all_allocations_and_frees_in_order(void **state)
{
    for_each_run(*state, check_events);
}

static void a_step_that_there_is_not_is_wrong_usage_and_nothing_is_begun(void **state)
{
    struct fixture *fixture = *state;
    size_t count;
    const struct mt_run *runs = mt_trace_runs(fixture->trace, &count);
    struct comparison comparison = {0};
    struct mt_event_visitor visitor = {&comparison, begin_comparison, compare_event};
    assert_int_equal(mt_trace_events(fixture->trace, &runs[0], runs[0].steps, &visitor), MT_USAGE);
    assert_false(comparison.began);
}

/* Peaks of steps are of those that there are; the run's is the highest of them. */
static void check_step_peaks(const struct fixture *fixture, const struct mt_run *run)
{
    struct mt_peak_row whole = load_peak(fixture, run, MT_MEASURE_ALLOCATED), peak;
    uint64_t highest = 0;
    for (int64_t step = -1; step < run->steps; step++) {
        assert_int_equal(mt_trace_step_peak(fixture->trace, run, step, MT_MEASURE_ALLOCATED, &peak), MT_OK);
        highest = peak.bytes > highest ? peak.bytes : highest;
        mt_peak_row_release(&peak);
    }
    assert_int_equal(highest, whole.bytes);
    mt_peak_row_release(&whole);
    static const int64_t beyond[] = {0, 1, INT64_MAX / 2};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        mt_status status = mt_trace_step_peak(fixture->trace, run, run->steps + beyond[i], MT_MEASURE_ALLOCATED, &peak);
        assert_int_equal(status, MT_USAGE);
        assert_non_null(strstr(mt_last_error(), "has no step"));
        assert_int_equal(peak.bytes, 0);
        mt_peak_row_release(&peak);
    }
    assert_int_equal(mt_trace_step_peak(fixture->trace, run, -3, MT_MEASURE_ALLOCATED, &peak), MT_USAGE);
    mt_peak_row_release(&peak);
}

static void the_peak_of_a_step_that_there_is_not_is_wrong_usage(void **state)
{
    for_each_run(*state, check_step_peaks);
}

/* Damage to the derived tables, and the measures whose peaks can't be read then. */
static void a_peak_that_does_not_add_up_is_damage(void **state)
{
    static const struct {
        const char *damage, *reason;
        mt_measure measure;
    } cases[] = {
        {"DELETE FROM summary_peak WHERE run = 1", "has allocations, and no peak", MT_MEASURE_ALLOCATED},
        {"DELETE FROM summary_peak", "has allocations, and no peak", MT_MEASURE_RESERVED},
        {"UPDATE summary_peak SET bytes = bytes - 1", "its blocks sum to", MT_MEASURE_ALLOCATED},
        {"UPDATE summary_peak SET bytes = 1 WHERE measure = 'reserved'", "its blocks sum to", MT_MEASURE_RESERVED},
        {"DELETE FROM summary_peak_category WHERE measure = 'requested'", "its blocks sum to 0", MT_MEASURE_REQUESTED},
        {"UPDATE summary_peak_category SET allocated_bytes = -1", "its blocks sum to", MT_MEASURE_ALLOCATED},
    };
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64], copy[128];
        struct mt_trace *trace;
        const struct mt_run *run;
        struct mt_peak_row peak;
        snprintf(path, sizeof path, "test_query_peak_%d.db", (int)getpid());
        snprintf(copy, sizeof copy, "VACUUM INTO '%s'", path);
        unlink(path);
        edit_trace(fixture->path, copy);
        edit_trace(path, cases[i].damage);
        assert_int_equal(mt_trace_open(path, &trace), MT_OK);
        assert_int_equal(mt_trace_find_run(trace, "1", &run), MT_OK);
        if (mt_trace_peak(trace, run, cases[i].measure, &peak) != MT_BAD_TRACE)
            fail_msg("%s: no failure", cases[i].damage);
        assert_non_null(strstr(mt_last_error(), cases[i].reason));
        mt_peak_row_release(&peak);
        mt_trace_close(trace);
        unlink(path);
    }
}

/* The same answers while the writer is at work: summaries are derived then, not read. */
static void a_run_that_is_still_being_written_is_answered_for_as_well(void **state)
{
    (void)state;
    struct synthetic run;
    struct fixture live = {.seed = take_seed()};
    snprintf(live.path, sizeof live.path, "test_query_live_%d.db", (int)getpid());
    unlink(live.path);
    record_run(live.path, "before", live.seed + 1);
    assert_int_equal(synthetic_open(&run, live.path, "live", live.seed, 20), MT_OK);
    synthetic_step(&run, 0, 2000, 50);
    assert_int_equal(mt_recorder_flush(run.sink->context), MT_OK);
    assert_int_equal(mt_trace_open(live.path, &live.trace), MT_OK);
    assert_int_equal(sqlite3_open(live.path, &live.scan), SQLITE_OK);
    size_t count;
    const struct mt_run *runs = mt_trace_runs(live.trace, &count);
    assert_int_equal(count, 2);
    assert_string_equal(runs[1].state, mt_run_state_name(MT_RUN_RUNNING));
    for (size_t i = 0; i < count; i++) {
        check_peaks(&live, &runs[i]);
        check_shares(&live, &runs[i]);
        check_categories(&live, &runs[i]);
        check_top(&live, &runs[i]);
        check_events(&live, &runs[i]);
    }
    mt_trace_close(live.trace);
    sqlite3_close(live.scan);
    assert_int_equal(synthetic_close(&run), MT_OK);
    unlink(live.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(peaks_are_those_of_a_scan),
        RANDOM_TEST(shares_are_what_was_live_and_sum_to_the_peak),
        RANDOM_TEST(a_peak_tells_step_phase_and_span_of_the_block_that_made_it),
        RANDOM_TEST(the_peak_of_a_step_that_there_is_not_is_wrong_usage),
        RANDOM_TEST(categories_are_those_of_a_scan),
        RANDOM_TEST(top_is_that_of_a_scan),
        RANDOM_TEST(events_are_all_allocations_and_frees_in_order),
        RANDOM_TEST(a_step_that_there_is_not_is_wrong_usage_and_nothing_is_begun),
        RANDOM_TEST(a_peak_that_does_not_add_up_is_damage),
        cmocka_unit_test(a_run_that_is_still_being_written_is_answered_for_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
