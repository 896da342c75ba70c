/* The query about private pools: the segments and blocks of the streams that are theirs. */
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/blocks.h"
#include "trace/query/groups.h"
#include "trace/query/query.h"

#include <stdlib.h>
#include <string.h>

/* Pools under way, in the order of their segments. */
struct pools {
    struct mt_pool_row *rows;
    size_t count;
};

static struct mt_pool_row *find_or_add(struct pools *pools, const char *name)
{
    for (size_t i = 0; i < pools->count; i++)
        if (strcmp(pools->rows[i].name, name) == 0)
            return &pools->rows[i];
    struct mt_pool_row *row = MT_HOST_ADD(pools->rows, pools->count);
    *row = (struct mt_pool_row){.name = name};
    return row;
}

static mt_status add_parts(struct mt_trace *trace, const struct mt_run *run, int64_t event,
                           const struct mt_segment_row *segments, struct pools *pools)
{
    struct mt_part_row *parts = NULL;
    size_t count = 0;
    mt_status status = mt_trace_parts(trace, run, &parts, &count);
    for (size_t i = 0; i < count; i++)
        if (segments[parts[i].segment].pool[0] != '\0' && mt_part_has_memory(&parts[i], event))
            find_or_add(pools, segments[parts[i].segment].pool)->reserved_bytes += parts[i].bytes;
    free(parts);
    return status;
}

static mt_status add_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t event,
                            const struct mt_segment_row *segments, size_t segment_count, struct pools *pools)
{
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    mt_status status = mt_trace_live(trace, run, event, &blocks, &count);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].segment >= segment_count || segments[blocks[i].segment].pool[0] == '\0')
            continue;
        struct mt_pool_row *row = find_or_add(pools, segments[blocks[i].segment].pool);
        row->allocated_bytes += blocks[i].block_bytes;
        row->blocks++;
    }
    free(blocks);
    return status;
}

static int compare_pools(const void *left, const void *right)
{
    const struct mt_pool_row *a = left, *b = right;
    int order = MT_COMPARE(b->reserved_bytes, a->reserved_bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

mt_status mt_trace_pools(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_pool_row **out_rows,
                         size_t *out_count)
{
    struct mt_segment_row *segments = NULL;
    struct pools pools = {0};
    size_t count = 0;
    bool has_pools = false;
    mt_status status = mt_trace_segments(trace, run, &segments, &count);
    for (size_t i = 0; i < count; i++)
        has_pools |= segments[i].pool[0] != '\0';
    if (status == MT_OK && has_pools)
        status = add_parts(trace, run, event, segments, &pools);
    if (status == MT_OK && has_pools)
        status = add_blocks(trace, run, event, segments, count, &pools);
    free(segments);
    if (pools.count > 1)
        qsort(pools.rows, pools.count, sizeof *pools.rows, compare_pools);
    return mt_query_hand_over(status, pools.rows, pools.count, out_rows, out_count);
}
