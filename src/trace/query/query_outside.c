/* Queries about memory outside of the allocator: what was measured of a card, or estimated of a simulated one. */
#include "base/memory.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The most that each holder had; sums of as many holders as there can be do not overflow. */
static const char outside_sql[] =
    "SELECT kind, name, max(bytes), low_bytes, high_bytes FROM outside WHERE run = ?1 GROUP BY kind, name"
    " HAVING max(bytes) > 0 ORDER BY min(event), kind, name";
static const uint64_t MOST_BYTES = (uint64_t)1 << 50;

static mt_status read_row(struct mt_trace *trace, const struct mt_statement *row, struct mt_outside_row *out)
{
    *out = (struct mt_outside_row){.kind = mt_query_text(trace, row, 0),
                                   .name = mt_query_text(trace, row, 1),
                                   .is_estimate = !mt_statement_is_null(row, 4)};
    MT_TRY(mt_query_natural(row, 2, &out->bytes));
    out->low_bytes = out->high_bytes = out->bytes;
    if (out->is_estimate) {
        MT_TRY(mt_query_natural(row, 3, &out->low_bytes));
        MT_TRY(mt_query_natural(row, 4, &out->high_bytes));
    }
    if (out->low_bytes <= out->bytes && out->bytes <= out->high_bytes && out->high_bytes <= MOST_BYTES)
        return MT_OK;
    return mt_fail(MT_BAD_TRACE,
                   "the trace is damaged: %s %s has %" PRIu64 " bytes outside, of %" PRIu64 " to %" PRIu64, out->kind,
                   out->name, out->bytes, out->low_bytes, out->high_bytes);
}

mt_status mt_trace_outside(struct mt_trace *trace, const struct mt_run *run, struct mt_outside_row **out_rows,
                           size_t *out_count)
{
    struct mt_outside_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, outside_sql, MT_BIND_INTEGER(run->id)) {
        rows = mt_host_room(rows, count, sizeof *rows);
        status = read_row(trace, row, &rows[count]);
        if (status != MT_OK)
            break;
        count++;
    }
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

struct mt_outside_row mt_outside_sum(const struct mt_outside_row *rows, size_t count, uint64_t reserved_bytes)
{
    struct mt_outside_row sum = {"", "", reserved_bytes, reserved_bytes, reserved_bytes, false};
    for (size_t i = 0; i < count; i++) {
        sum.bytes += rows[i].bytes;
        sum.low_bytes += rows[i].low_bytes;
        sum.high_bytes += rows[i].high_bytes;
        sum.is_estimate = sum.is_estimate || rows[i].is_estimate;
    }
    assert(sum.low_bytes <= sum.bytes && sum.bytes <= sum.high_bytes);
    return sum;
}

static void add_holders(const struct mt_outside_row *rows, size_t count, struct mt_used_row *out)
{
    for (size_t i = 0; i < count; i++) {
        const bool is_context = strcmp(rows[i].kind, "context") == 0, is_nccl = strcmp(rows[i].kind, "nccl") == 0;
        *(is_context ? &out->context : is_nccl ? &out->nccl : &out->libraries) += (int64_t)rows[i].bytes;
        out->is_estimate = out->is_estimate || rows[i].is_estimate;
    }
}

static int64_t sum_requested(const struct mt_peak_row *peak)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < peak->share_count; i++)
        bytes += (int64_t)peak->shares[i].requested_bytes;
    return bytes;
}

mt_status mt_query_estimate_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out)
{
    struct mt_outside_row *rows;
    struct mt_peak_row peak = {0};
    size_t count;
    *out = (struct mt_used_row){.free = -1, .total = -1};
    MT_TRY(mt_trace_outside(trace, run, &rows, &count));
    add_holders(rows, count, out);
    free(rows);
    if (!out->is_estimate)
        return MT_OK;
    mt_status status = mt_trace_peak(trace, run, MT_MEASURE_RESERVED, &peak);
    out->step = peak.step;
    out->requested = sum_requested(&peak);
    out->cached = (int64_t)peak.cached_bytes;
    out->rounding = (int64_t)peak.bytes - out->cached - out->requested;
    out->used = (int64_t)peak.bytes + out->context + out->libraries + out->nccl;
    mt_peak_row_release(&peak);
    return status;
}
