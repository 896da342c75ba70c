/* Who held the memory that the driver says this process had? */
#include "trace/query/query.h"

#include <inttypes.h>
#include <string.h>

/* The readings that a row is made of, as their measurements are named after "memory:". */
enum reading { DRIVER_USED, REQUESTED, ALLOCATED, RESERVED, CONTEXT, LIBRARY, FREE, TOTAL, READING_COUNT };
static const char *const reading_names[READING_COUNT] = {"driver_used", "requested", "allocated", "reserved",
                                                         "context",     "library",   "free",      "total"};

static const char used_sql[] =
    "SELECT substr(name, 8), value, step FROM measurement WHERE run = ?1 AND name >= 'memory:' AND name < 'memory;'"
    " AND step = (SELECT max(step) FROM measurement WHERE run = ?1 AND name = 'memory:driver_used')";

static void keep_reading(const struct mt_statement *row, int64_t readings[READING_COUNT])
{
    const char *name = mt_statement_text(row, 0);
    for (int i = 0; i < READING_COUNT && name != NULL; i++)
        if (strcmp(reading_names[i], name) == 0 && !mt_statement_is_null(row, 1))
            readings[i] = mt_statement_integer(row, 1);
}

/* Fills `readings`, of which those that there are not keep their value, and the step that they belong to. */
static mt_status read_last(struct mt_trace *trace, const struct mt_run *run, int64_t readings[READING_COUNT],
                           int64_t *out_step)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run, used_sql, &statement);
    if (status != MT_OK)
        return status;
    bool row = true;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        keep_reading(statement, readings);
        *out_step = mt_statement_integer(statement, 2);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Readings are added to each other; what no card could have is damage. */
static mt_status check_readings(const struct mt_run *run, const int64_t readings[READING_COUNT])
{
    for (int i = 0; i < READING_COUNT; i++)
        if (readings[i] < -1 || readings[i] > INT64_MAX / READING_COUNT)
            return mt_fail(MT_BAD_TRACE, "the trace is damaged: run %" PRId64 " read %" PRId64 " bytes of memory:%s",
                           run->id, readings[i], reading_names[i]);
    return MT_OK;
}

mt_status mt_trace_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out)
{
    int64_t is[READING_COUNT] = {[DRIVER_USED] = -1, [FREE] = -1, [TOTAL] = -1};
    *out = (struct mt_used_row){0};
    mt_status status = read_last(trace, run, is, &out->step);
    if (status == MT_OK)
        status = check_readings(run, is);
    if (status != MT_OK)
        return status;
    if (is[DRIVER_USED] < 0)
        return mt_fail(MT_USAGE, "run %" PRId64 " was on %s, where no driver tells what the process holds", run->id,
                       run->device);
    out->requested = is[REQUESTED];
    out->rounding = is[ALLOCATED] - is[REQUESTED];
    out->cached = is[RESERVED] - is[ALLOCATED];
    out->context = is[CONTEXT];
    out->libraries = is[LIBRARY];
    out->unexplained = is[DRIVER_USED] - is[RESERVED] - is[CONTEXT] - is[LIBRARY];
    out->used = is[DRIVER_USED];
    out->free = is[FREE];
    out->total = is[TOTAL];
    return MT_OK;
}
