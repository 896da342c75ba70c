/* Rows that the library hands out one by one, as arrays, which the caller frees. */
#pragma once

#include "base/memory.h"
#include "trace/query/walk.h"

struct read_blocks {
    struct mt_block_row *rows;
    size_t count;
};

static inline void read_blocks_begin(void *context, const struct mt_block_row *row)
{
    struct read_blocks *blocks = context;
    *MT_HOST_ADD(blocks->rows, blocks->count) = *row;
}

static inline void read_blocks_end(void *context, const struct mt_block_change *change)
{
    struct mt_block_row *row = &((struct read_blocks *)context)->rows[change->row];
    row->free_event = change->event;
    row->free_ns = change->time_ns;
}

static inline void read_blocks_relabel(void *context, const struct mt_block_change *change)
{
    struct mt_block_row next = ((struct read_blocks *)context)->rows[change->row];
    next.alloc_event = change->event;
    next.alloc_ns = change->time_ns;
    next.label = change->label;
    read_blocks_end(context, change);
    read_blocks_begin(context, &next);
}

/* Reads the blocks of a run, a row for each label of a block. */
static inline mt_status read_blocks_by_label(struct mt_trace *from, const struct mt_run *run,
                                             struct mt_block_row **out_rows, size_t *out_count)
{
    struct read_blocks blocks = {.rows = NULL};
    const struct mt_block_visitor visitor = {.rows = MT_ROW_A_LABEL,
                                             .context = &blocks,
                                             .begin = read_blocks_begin,
                                             .end = read_blocks_end,
                                             .relabel = read_blocks_relabel};
    mt_status status = mt_trace_blocks_visit(from, run, &visitor);
    *out_rows = blocks.rows;
    *out_count = blocks.count;
    return status;
}

struct read_times {
    uint64_t *times;
    size_t count;
};

static inline void read_times_add(void *context, uint64_t time_ns)
{
    struct read_times *list = context;
    *MT_HOST_ADD(list->times, list->count) = time_ns;
}

static inline void read_times_skip(void *context, const struct mt_mark_row *mark)
{
    (void)context;
    (void)mark;
}

/* Reads the time of each event of a run. */
static inline mt_status read_times(struct mt_trace *from, const struct mt_run *run, uint64_t **out)
{
    struct read_times list = {.times = NULL};
    const struct mt_moment_visitor visitor = {.context = &list, .time = read_times_add, .mark = read_times_skip};
    mt_status status = mt_trace_moments_visit(from, run, &visitor);
    *out = list.times;
    return status;
}

struct read_launches {
    struct mt_launch_row *rows;
    size_t count;
};

static inline mt_status read_launches_add(void *context, const struct mt_launch_row *launch)
{
    struct read_launches *list = context;
    *MT_HOST_ADD(list->rows, list->count) = *launch;
    return MT_OK;
}

/* Reads the kernels of a run. */
static inline mt_status read_launches(struct mt_trace *from, const struct mt_run *run, struct mt_launch_row **out_rows,
                                      size_t *out_count)
{
    struct read_launches list = {.rows = NULL};
    mt_status status = mt_trace_launches_visit(from, run, read_launches_add, &list);
    *out_rows = list.rows;
    *out_count = list.count;
    return status;
}
