/* Replay: allocates and frees the blocks of a run again, with changes, through a separate allocator.
 *
 *   blocks of a trace ──▶ lifetimes ──(changes)──▶ replay ──▶ the three peaks
 *
 * A position is a moment between events: an event with id e is at 2e, and a change that takes effect just after it is
 * at 2e + 1. So a change never coincides with an event. Lifetimes that begin or end at one position do so in the order
 * of their array, ends first.
 *
 * Threads: any. Each replay has its own device and allocator, and lifetimes are only read. */
#pragma once

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

/* True if the allocator's segments are ranges that grow. */
static inline bool mt_alloc_grows(const struct mt_alloc_settings *settings)
{
    return settings->policy == MT_POLICY_TIGHT || settings->expandable_segments;
}

/* The period in which a block is allocated. A block that is freed and allocated again has two lifetimes.
 * Invariant: begin < end. */
struct mt_lifetime {
    uint64_t requested_bytes;
    int64_t begin, end; /* positions; end is MT_POSITION_NEVER if it is not freed */
    uint32_t label;     /* number of the trace's label */
    mt_category category;
    mt_stream stream;
};

/* Returns the label's category, which a policy may use; MT_CATEGORY_WORKSPACE for an unknown category. */
mt_category mt_category_of_label(const struct mt_label_row *label);

enum { MT_REPLAY_BINS = 256 };

/* The course of a replay: the most bytes allocated and reserved at the positions first + i * width <= p < first + (i +
 * 1) * width, for i < count. A replay that ran out of memory has no later bins.
 * Invariants: width > 0; 0 < count <= MT_REPLAY_BINS; the maxima are the peaks. */
struct mt_replay_curve {
    int64_t first;
    uint64_t width;
    size_t count;
    uint64_t allocated_bytes[MT_REPLAY_BINS], reserved_bytes[MT_REPLAY_BINS];
};

/* The peaks of a replay, which may occur at different moments.
 * Invariant: requested_bytes <= allocated_bytes <= reserved_bytes. */
struct mt_replay_result {
    uint64_t requested_bytes, allocated_bytes, reserved_bytes;
    bool fits;    /* every lifetime was allocated */
    size_t unmet; /* otherwise the index of the first lifetime that was not, where the replay ended; 0 if it fits */
    struct mt_replay_curve curve;
};

/* Allocates and frees the lifetimes in order of their positions, with these allocator settings, on a simulated device
 * with this capacity. Returns MT_OK also if memory runs out: see `fits`. */
mt_status mt_replay_run(const struct mt_lifetime *lifetimes, size_t count, const struct mt_alloc_settings *settings,
                        uint64_t capacity_bytes, struct mt_replay_result *out);

/* Positions, ascending, at which cached memory is returned to the device, before lifetimes begin or end there. */
struct mt_replay_releases {
    const int64_t *positions;
    size_t count;
};

/* Like mt_replay_run, with releases. */
mt_status mt_replay_run_releasing(const struct mt_lifetime *lifetimes, size_t count, struct mt_replay_releases releases,
                                  const struct mt_alloc_settings *settings, uint64_t capacity_bytes,
                                  struct mt_replay_result *out);
