/* A trace of random runs, asked by the program's reader and by scans of the same events, written down in SQL without a
 * thought for speed: what the tests of queries share. */
#pragma once

#include "base/text.h"
#include "seed.h"
#include "synthetic.h"
#include "trace/query/trace.h"

#include <inttypes.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUNS = 2 };

/* A trace of RUNS random runs, the program's reader of it, and a plain connection. */
struct fixture {
    char path[64];
    uint64_t seed;
    struct mt_trace *trace;
    sqlite3 *scan;
};

static inline void record_run(const char *path, const char *name, uint64_t seed)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, path, name, seed, 5 + seed % 40), MT_OK);
    synthetic_move(&run, seed % 50, 20); /* before the first step */
    uint64_t steps = 1 + seed % 5;
    for (uint64_t step = 0; step < steps; step++)
        synthetic_step(&run, step, 300 + seed % 3000, 30 + seed % 60);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static inline int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    fixture->seed = take_seed();
    snprintf(fixture->path, sizeof fixture->path, "test_query_%d.db", (int)getpid());
    unlink(fixture->path);
    static const char *const names[RUNS] = {"first", "second"};
    for (uint64_t i = 0; i < RUNS; i++)
        record_run(fixture->path, names[i], fixture->seed + i);
    assert_int_equal(mt_trace_open(fixture->path, &fixture->trace), MT_OK);
    assert_int_equal(sqlite3_open(fixture->path, &fixture->scan), SQLITE_OK);
    *state = fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    mt_trace_close(fixture->trace);
    sqlite3_close(fixture->scan);
    unlink(fixture->path);
    free(fixture);
    return 0;
}

/* Prepares a scan whose {EVENTS} are the events of the run with their labels, {ALLOC} and {FREE} the kinds. */
static inline sqlite3_stmt *scan(const struct fixture *fixture, const struct mt_run *run, const char *format, ...)
{
    char events[512], tail[2048], sql[4096];
    snprintf(events, sizeof events,
             "WITH e AS (SELECT event.*, label.category, label.op, label.phase, label.role, label.dtype, label.shape,"
             " span.path AS path, ifnull(replace(span.path, 'layers.' || label.layer || '.',"
             " 'layers.*.'), span.path) AS chain FROM event"
             " LEFT JOIN label ON label.run = %" PRId64 " AND label.id = event.label"
             " LEFT JOIN span ON span.run = label.run AND span.id = label.span"
             " WHERE event.id >= %" PRId64 " AND event.id < %" PRId64 ") ",
             run->id, run->first_event, run->first_event + run->event_count);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tail, sizeof tail, format, arguments);
    va_end(arguments);
    snprintf(sql, sizeof sql, "%s%s", events, tail);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(fixture->scan, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s in %s", sqlite3_errmsg(fixture->scan), sql);
    return statement;
}

static inline bool next_row(sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);
    assert_true(result == SQLITE_ROW || result == SQLITE_DONE);
    return result == SQLITE_ROW;
}

static inline int64_t integer(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_int64(statement, column);
}

static inline void assert_text(sqlite3_stmt *statement, int column, const char *text)
{
    const char *scanned = (const char *)sqlite3_column_text(statement, column);
    assert_string_equal(text, scanned != NULL ? scanned : "");
}

/* Calls `check` for each run. */
static inline void for_each_run(const struct fixture *fixture,
                                void (*check)(const struct fixture *fixture, const struct mt_run *run))
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(fixture->trace, &count);
    assert_int_equal(count, RUNS);
    for (size_t i = 0; i < count; i++)
        check(fixture, &runs[i]);
}

/* The number of event kinds in {…} of the scans: as event_kind names them. */
#define KIND(name) "(SELECT id FROM event_kind WHERE name = '" name "')"
#define LIVE_AT                                                                                                        \
    "kind = " KIND("alloc") " AND id <= %" PRId64 " AND id NOT IN (SELECT allocation FROM e WHERE kind = " KIND(       \
        "free") " AND id <= %" PRId64 ")"

static inline struct mt_peak_row load_peak(const struct fixture *fixture, const struct mt_run *run, mt_measure measure)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(fixture->trace, run, measure, &peak), MT_OK);
    return peak;
}

/* Checks the shares of a peak against a scan of the blocks that were live, by a column of it. */
static inline void check_shares_by(const struct fixture *fixture, const struct mt_run *run, mt_measure measure,
                                   const char *column, const struct mt_peak_row *peak)
{
    uint64_t allocated = 0, requested = 0;
    sqlite3_stmt *rows = scan(fixture, run,
                              "SELECT %s, sum(block_bytes), sum(requested_bytes), count(*) FROM e WHERE " LIVE_AT
                              " GROUP BY 1 ORDER BY %d DESC, 1",
                              column, peak->event, peak->event, measure == MT_MEASURE_REQUESTED ? 3 : 2);
    for (size_t i = 0; i < peak->share_count; i++) {
        assert_true(next_row(rows));
        assert_text(rows, 0, peak->shares[i].name);
        assert_int_equal(peak->shares[i].allocated_bytes, integer(rows, 1));
        assert_int_equal(peak->shares[i].requested_bytes, integer(rows, 2));
        assert_int_equal(peak->shares[i].blocks, integer(rows, 3));
        allocated += peak->shares[i].allocated_bytes;
        requested += peak->shares[i].requested_bytes;
    }
    assert_false(next_row(rows));
    assert_int_equal(peak->bytes, measure == MT_MEASURE_REQUESTED ? requested : allocated + peak->cached_bytes);
    sqlite3_finalize(rows);
}

#define RANDOM_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
