/* Peaks by role, category, module, op, phase and dtype, against scans of the same events. */
#include "random_runs.h"

#include "trace/query/groups.h"

static const char *const columns[] = {
    [MT_GROUP_ROLE] = "role", [MT_GROUP_CATEGORY] = "category", [MT_GROUP_MODULE] = "chain",
    [MT_GROUP_OP] = "op",     [MT_GROUP_PHASE] = "phase",       [MT_GROUP_DTYPE] = "dtype"};

static void check_group(const struct fixture *fixture, const struct mt_run *run, mt_measure measure, mt_group_key key)
{
    struct mt_peak_row peak;
    uint64_t allocated = 0, requested = 0;
    assert_int_equal(mt_trace_peak_by(fixture->trace, run, MT_ALL_STEPS, measure, key, &peak), MT_OK);
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT %s, sum(block_bytes), sum(requested_bytes), count(*) FROM e WHERE " LIVE_AT
                              " GROUP BY 1 ORDER BY %d DESC, 1",
                              columns[key], peak.event, peak.event, measure == MT_MEASURE_REQUESTED ? 3 : 2);
    for (size_t i = 0; i < peak.share_count; i++) {
        assert_true(next_row(rows));
        assert_text(rows, 0, peak.shares[i].name);
        assert_int_equal(peak.shares[i].allocated_bytes, integer(rows, 1));
        assert_int_equal(peak.shares[i].requested_bytes, integer(rows, 2));
        assert_int_equal(peak.shares[i].blocks, integer(rows, 3));
        allocated += peak.shares[i].allocated_bytes;
        requested += peak.shares[i].requested_bytes;
    }
    assert_false(next_row(rows));
    assert_int_equal(peak.bytes, measure == MT_MEASURE_REQUESTED ? requested : allocated + peak.cached_bytes);
    sqlite3_finalize(rows);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(shares_by_every_key_are_what_was_live_and_sum_to_the_peak),
        RANDOM_TEST(a_run_whose_steps_tell_of_no_phase_has_no_peaks_of_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
