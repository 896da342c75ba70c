/* The curve of a run: the most that was allocated in each part of its time, against a sum over all of its events. */
#include "seed.h"
#include "trace/query/curve.h"
#include "trace_opening.h"
#include "trace_path.h"

#include <inttypes.h>

#include <cmocka.h>

static struct mt_curve curve_of(void)
{
    const struct mt_run *run;
    struct mt_curve curve;
    struct mt_trace *trace = open_newest(path, &run);
    assert_int_equal(mt_trace_curve(trace, run, &curve), MT_OK);
    mt_trace_close(trace);
    return curve;
}

/* Returns the most that was allocated in a part of the time: what was at its begin, or after one of its events. */
static int64_t highest_in(uint64_t begin_ns, uint64_t end_ns)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "WITH clock AS (SELECT id, max(time_ns) OVER (ORDER BY id) AS now, sum(CASE kind WHEN %d THEN block_bytes"
             " WHEN %d THEN -block_bytes ELSE 0 END) OVER (ORDER BY id) AS bytes FROM event)"
             " SELECT max(ifnull((SELECT max(bytes) FROM clock WHERE now >= %" PRIu64 " AND now < %" PRIu64 "), 0),"
             " ifnull((SELECT bytes FROM clock WHERE now < %" PRIu64 " ORDER BY id DESC LIMIT 1), 0))",
             MT_EVENT_ALLOC, MT_EVENT_FREE, begin_ns, end_ns, begin_ns);
    return sql_integer(path, sql);
}

static void each_bin_has_the_most_of_its_time(void **state)
{
    (void)state;
    const uint64_t seed = take_seed();
    for (uint64_t run = 0; run < 4; run++) {
        fixture_record(path, seed + run, 2000);
        const struct mt_curve curve = curve_of();
        assert_int_equal(curve.duration_ns, sql_integer(path, "SELECT max(time_ns) FROM event"));
        assert_int_equal(curve.count, curve.duration_ns / curve.bin_ns + 1);
        assert_true(curve.count <= MT_CURVE_BINS && (curve.count > MT_CURVE_BINS / 2 || curve.bin_ns == 1));
        for (uint64_t i = 0; i < curve.count; i++)
            assert_int_equal(curve.bytes[i], highest_in(i * curve.bin_ns, (i + 1) * curve.bin_ns));
        fixture_remove(path);
        fixture_path(path);
    }
}

static void a_run_without_events_has_no_bins(void **state)
{
    (void)state;
    fixture_record(path, 1, 0);
    assert_int_equal(curve_of().count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_bin_has_the_most_of_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_without_events_has_no_bins, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
