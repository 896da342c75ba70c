/* Replay: the allocations and frees of a run once more, through an allocator of its own, with changes.
 *
 *   blocks of a trace ──▶ lifetimes ──(changes)──▶ replay: all three peaks, by allocating
 *
 * A position is a moment between events: an event with id e is at 2e, what is moved to just after it is at 2e + 1. So a
 * change never ties with what happened. Lifetimes that begin or end at one position do so in their order in the array,
 * ends first.
 *
 * Threads: any; each replay has a device and an allocator of its own, and lifetimes are only read. */
#ifndef MT_WHATIF_REPLAY_H
#define MT_WHATIF_REPLAY_H

#include "alloc/alloc.h"
#include "trace/query/blocks.h"

#define MT_POSITION_NEVER INT64_MAX

static inline int64_t mt_position_at(int64_t event)
{
    return 2 * event;
}

static inline int64_t mt_position_after(int64_t event)
{
    return 2 * event + 1;
}

/* When a block is there. Invariant: begin < end. A block that goes in between has two. */
struct mt_lifetime {
    uint64_t requested_bytes;
    int64_t begin, end; /* positions; end MT_POSITION_NEVER: it stays */
    uint32_t label;     /* number of the trace's label */
    mt_category category;
    mt_stream stream;
};

/* What a label calls its category, of which a policy may make something; one that is none of ours is as a workspace. */
mt_category mt_category_of_label(const struct mt_label_row *label);

/* The lifetimes of blocks as they were, with the categories of `labels`, by number; the caller's, free(). */
struct mt_lifetime *mt_lifetimes_of_blocks(const struct mt_block_row *blocks, size_t count,
                                           const struct mt_label_row *labels, size_t label_count);

/* What a replay came to.
 * Invariant: requested_bytes <= allocated_bytes <= reserved_bytes, each the peak of its own. */
struct mt_replay_result {
    uint64_t requested_bytes, allocated_bytes, reserved_bytes;
    bool fits;    /* every lifetime could be had */
    size_t unmet; /* if not, the index of the first that could not: there the replay ends; otherwise 0 */
};

/* Allocates and frees the lifetimes in order of their positions, with the settings of a policy, on a device of that
 * capacity on which nothing is executed. MT_OK also where memory ran out: see fits. */
mt_status mt_replay_run(const struct mt_lifetime *lifetimes, size_t count, const struct mt_alloc_settings *settings,
                        uint64_t capacity_bytes, struct mt_replay_result *out);

#endif
