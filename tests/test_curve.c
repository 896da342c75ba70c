/* The curve of a run: the most that was allocated in each part of its time, against a sum over all of its events. */
#include "seed.h"
#include "trace/query/curve.h"
#include "trace_opening.h"
#include "trace_path.h"

#include <inttypes.h>

#include <cmocka.h>

static struct mt_curve curve_by(mt_curve_axis axis)
{
    const struct mt_run *run;
    struct mt_curve curve;
    struct mt_trace *trace = open_newest(path, &run);
    assert_int_equal(mt_trace_curve(trace, run, axis, &curve), MT_OK);
    mt_trace_close(trace);
    return curve;
}

/* The place of each event on the axes, in SQL. */
static const char *const places[] = {[MT_CURVE_BY_TIME] = "max(time_ns) OVER (ORDER BY id)",
                                     [MT_CURVE_BY_EVENT] = "row_number() OVER (ORDER BY id) - 1"};

/* Returns the most that was allocated in a part of an axis: what was at its begin, or after one of its events. */
static int64_t highest_in(mt_curve_axis axis, uint64_t begin, uint64_t end)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "WITH clock AS (SELECT id, %s AS now, sum(CASE kind WHEN %d THEN block_bytes"
             " WHEN %d THEN -block_bytes ELSE 0 END) OVER (ORDER BY id) AS bytes FROM event)"
             " SELECT max(ifnull((SELECT max(bytes) FROM clock WHERE now >= %" PRIu64 " AND now < %" PRIu64 "), 0),"
             " ifnull((SELECT bytes FROM clock WHERE now < %" PRIu64 " ORDER BY id DESC LIMIT 1), 0))",
             places[axis], MT_EVENT_ALLOC, MT_EVENT_FREE, begin, end, begin);
    return sql_integer(path, sql);
}

static void expect_bins(mt_curve_axis axis, const char *last)
{
    const struct mt_curve curve = curve_by(axis);
    assert_int_equal(curve.end, sql_integer(path, last));
    assert_int_equal(curve.count, curve.end / curve.bin + 1);
    assert_true(curve.count <= MT_CURVE_BINS && (curve.count > MT_CURVE_BINS / 2 || curve.bin == 1));
    for (uint64_t i = 0; i < curve.count; i++)
        assert_int_equal(curve.bytes[i], highest_in(axis, i * curve.bin, (i + 1) * curve.bin));
}

static void each_bin_has_the_most_of_its_part(void **state)
{
    (void)state;
    const uint64_t seed = take_seed();
    for (uint64_t run = 0; run < 4; run++) {
        fixture_record(path, seed + run, 2000);
        expect_bins(MT_CURVE_BY_TIME, "SELECT max(time_ns) FROM event");
        expect_bins(MT_CURVE_BY_EVENT, "SELECT count(*) - 1 FROM event");
        fixture_remove(path);
        fixture_path(path);
    }
}

static void a_run_without_events_has_no_bins(void **state)
{
    (void)state;
    fixture_record(path, 1, 0);
    assert_int_equal(curve_by(MT_CURVE_BY_TIME).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_bin_has_the_most_of_its_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_without_events_has_no_bins, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
