#include "trace/query/curve.h"

#include "trace/query/query.h"

#include <assert.h>

/* Makes bins twice as long. All are there. */
static void double_bins(struct mt_curve *curve)
{
    assert(curve->count == MT_CURVE_BINS);
    for (size_t i = 0; i < MT_CURVE_BINS / 2; i++) {
        const uint64_t first = curve->bytes[2 * i], second = curve->bytes[2 * i + 1];
        curve->bytes[i] = first > second ? first : second;
    }
    curve->bin *= 2;
    curve->count = MT_CURVE_BINS / 2;
}

/* Adds bins up to the one of `place`, with the bytes that were allocated before. */
static void reach(struct mt_curve *curve, uint64_t place, uint64_t bytes)
{
    while (place / curve->bin >= MT_CURVE_BINS) {
        while (curve->count < MT_CURVE_BINS)
            curve->bytes[curve->count++] = bytes;
        double_bins(curve);
    }
    while (curve->count <= place / curve->bin)
        curve->bytes[curve->count++] = bytes;
    curve->end = place;
}

/* Returns what is allocated after an event that took, or gave back, so many bytes. A damaged trace may take more than
 * there can be, and give back more than it took. */
static uint64_t after(uint64_t bytes, int64_t kind, uint64_t block_bytes)
{
    if (kind == MT_EVENT_ALLOC)
        return block_bytes < INT64_MAX - bytes ? bytes + block_bytes : INT64_MAX;
    if (kind == MT_EVENT_FREE)
        return bytes > block_bytes ? bytes - block_bytes : 0;
    return bytes;
}

mt_status mt_trace_curve(struct mt_trace *trace, const struct mt_run *run, mt_curve_axis axis, struct mt_curve *out)
{
    mt_status status = MT_OK;
    uint64_t bytes = 0, event = 0, place, block_bytes;
    *out = (struct mt_curve){.bin = 1};
    MT_EACH_ROW (
        row, status, trace->database,
        "SELECT time_ns, kind, ifnull(block_bytes, 0) FROM event NOT INDEXED WHERE id >= ?1 AND id < ?2 ORDER BY id",
        MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run))) {
        status = mt_query_natural(row, 0, &place);
        MT_THEN(status, mt_query_natural(row, 2, &block_bytes));
        if (status != MT_OK)
            continue;
        if (axis == MT_CURVE_BY_EVENT)
            place = event++;
        reach(out, place > out->end ? place : out->end, bytes);
        bytes = after(bytes, mt_statement_integer(row, 1), block_bytes);
        if (bytes > out->bytes[out->count - 1])
            out->bytes[out->count - 1] = bytes;
    }
    return status;
}
