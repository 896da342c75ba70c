/* How much did the blocks of each label take? */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <stdlib.h>

static mt_status add_allocation(const struct mt_statement *row, const struct mt_number_limits *limits,
                                struct mt_label_sum *sums)
{
    uint32_t label;
    uint64_t bytes;
    mt_status status = mt_query_label_number(row, 0, limits, &label);
    if (status == MT_OK)
        status = mt_query_natural(row, 1, &bytes);
    if (status != MT_OK)
        return status;
    sums[label].allocations++;
    sums[label].allocated_bytes += bytes;
    return MT_OK;
}

static mt_status add_allocations(struct mt_trace *trace, const struct mt_run *run,
                                 const struct mt_number_limits *limits, struct mt_label_sum *sums)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT label, block_bytes FROM event WHERE ?1 = ?1 AND id >= ?2 AND id < ?3 AND kind = ?4",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, run->first_event);
    mt_statement_bind_integer(statement, 3, run->first_event + run->event_count);
    mt_statement_bind_integer(statement, 4, MT_EVENT_ALLOC);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = add_allocation(statement, limits, sums);
    mt_statement_finalize(statement);
    return status;
}

/* `limits` were read before the blocks, and a run that goes on may have more labels since: its blocks do not name them. */
static mt_status add_live(struct mt_trace *trace, const struct mt_run *run, const struct mt_number_limits *limits,
                          struct mt_label_sum *sums)
{
    uint64_t peak_bytes;
    int64_t peak_event;
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    mt_status status = mt_query_peak_event(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes, &peak_event);
    if (status == MT_OK && peak_event != 0)
        status = mt_trace_live(trace, run, peak_event, &blocks, &count);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].label >= limits->labels)
            continue;
        sums[blocks[i].label].live_blocks++;
        sums[blocks[i].label].live_bytes += blocks[i].block_bytes;
    }
    free(blocks);
    return status;
}

mt_status mt_trace_label_sums(struct mt_trace *trace, const struct mt_run *run, struct mt_label_sum **out_sums,
                              size_t *out_count)
{
    *out_sums = NULL;
    *out_count = 0;
    struct mt_number_limits limits;
    mt_status status = mt_query_number_limits(trace, run, &limits);
    if (status != MT_OK)
        return status;
    struct mt_label_sum *sums = mt_host_alloc(limits.labels * sizeof *sums);
    status = add_allocations(trace, run, &limits, sums);
    if (status == MT_OK)
        status = add_live(trace, run, &limits, sums);
    if (status != MT_OK) {
        free(sums);
        return status;
    }
    *out_sums = sums;
    *out_count = limits.labels;
    return MT_OK;
}
