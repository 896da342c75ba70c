/* Advice: the memory that a run wastes, and how far its peak falls without that waste.
 *
 *   blocks, uses, marks ──patterns──▶ cuts: times in which a block is not needed
 *                                       │
 *                        grouped by what the blocks are (their labels)
 *                                       │
 *                                       ▼
 *                                  candidates ──weighed by adding up, checked by replay──▶ findings
 *
 * A finding claims a peak of requested bytes without its cuts. The lifetimes with the cuts are then replayed through an
 * allocator with the run's own settings, and the replay's peak of requested bytes equals the claim.
 *
 * Threads: any. An input is only read, so several threads may use one. */
#pragma once

#include "analysis/advise/finding.h"
#include "analysis/run_question.h"
#include "analysis/run_settings.h"
#include "trace/query/leaks.h"

/* A run, or a window of its events. Borrows everything.
 * Invariants: blocks are all blocks that are live at some moment of first_event <= id <= last_event, by alloc_event;
 * uses[i] belongs to blocks[i]; every block's label < label_count. */
struct mt_advice_input {
    const struct mt_block_row *blocks;
    const struct mt_use_row *uses;
    size_t block_count;
    const struct mt_label_row *labels;
    size_t label_count;
    const struct mt_mark_row *marks; /* of the same events */
    size_t mark_count;
    const struct mt_segment_row *segments; /* of the run */
    size_t segment_count;
    const struct mt_part_row *parts; /* of these segments */
    size_t part_count;
    const struct mt_leaks *leaks; /* of the run; NULL: it is too short to show any */
    int64_t first_event, last_event;
    bool has_failed; /* the program failed; what it freed after its last allocation was error cleanup */
    struct mt_alloc_settings settings; /* of the allocator that the advice is for */
    bool is_another;                   /* true if the run had another allocator */
    struct mt_program program;
    uint64_t capacity_bytes; /* of its device */
};

/* Runs with more events than the first limit are read in a window; runs with more than the second are not read. Each
 * event takes about 100 bytes, so the second limit is 1.6 GB. */
enum { MT_ADVICE_WHOLE_EVENTS = 2000000, MT_ADVICE_MOST_EVENTS = 1 << 24 };

/* Returns the settings that could reserve less: for a PyTorch program, the input's settings with expandable segments
 * toggled; otherwise the defaults of the other policy. */
struct mt_alloc_settings mt_advice_alternative(const struct mt_advice_input *input);

/* An input and the arrays that it borrows. */
struct mt_advice_material {
    struct mt_advice_input input;
    struct mt_block_row *blocks;
    struct mt_use_row *uses;
    struct mt_label_row *labels;
    struct mt_mark_row *marks;
    struct mt_segment_row *segments;
    struct mt_part_row *parts;
    struct mt_leaks leaks;
    bool is_whole;                 /* false: only a window of the run */
    int64_t first_step, last_step; /* of the window */
};

/* Loads the run or, if it is very long, the steps around its peak of requested bytes. The answer is to be about the
 * allocator `alloc` or, if that is NULL, about the run's own: policy=tight stands for one that is not known. Fails with
 * MT_USAGE for too many events. Release in any case. */
mt_status mt_advice_material_load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                                  struct mt_advice_material *out);

/* Loads the run up to an event. A very long run is loaded from the beginning of the step before the event's step. The
 * advice is for the run's own allocator. */
mt_status mt_advice_material_load_until(const struct mt_question *question, int64_t last_event,
                                        struct mt_advice_material *out);
void mt_advice_material_release(struct mt_advice_material *material);

/* The run's segments at the peak of reserved bytes. The last segment is replaced by the block for which it was
 * mapped. */
struct mt_fragmentation {
    uint64_t reserved_bytes, allocated_bytes;
    uint64_t idle_bytes;    /* of segments without a block */
    uint64_t hole_bytes;    /* free in the others; idle + hole = reserved - allocated */
    uint64_t hole_count;    /* number of free pieces in hole_bytes */
    uint64_t largest_bytes; /* of the free pieces */
    uint64_t pool_bytes;    /* free in segments of private pools, idle or not */
    uint64_t asked_bytes;   /* requested for the block for which the last segment was mapped */
    uint32_t culprit;       /* label of the largest blocks of the segments with most free bytes; 0: none */
};

/* Invariant: findings are ordered. First come findings for which mt_finding_comes_first is true. Within both groups
 * they are ordered by saving, then by wasted byte_seconds. Parts follow their whole. A smaller limit drops findings
 * from the end. */
struct mt_advice {
    bool knows_uses;                   /* false: the program recorded no use of any block */
    uint64_t peak_bytes;               /* requested, in the window */
    int64_t peak_event;                /* the first event that reached it */
    struct mt_replay_result as_it_was; /* the replay without a change */
    struct mt_replay_result used_only; /* replay with each block live only from first to last use, if uses are known */
    struct mt_fragmentation fragmentation;
    struct mt_finding *findings;
    size_t count;
    size_t left_out; /* number of candidates that did not become findings */
};

typedef enum mt_advice_extent {
    MT_ADVICE_WORTHWHILE, /* leaks, and findings that lower a peak by a hundredth; no parts of other findings */
    MT_ADVICE_ALL,
} mt_advice_extent;

/* Runs all detectors and returns at most `limit` (at least 1) findings. Takes about 100 ns per event and one replay per
 * finding. Release in any case. */
mt_status mt_advice_create(const struct mt_advice_input *input, mt_advice_extent extent, size_t limit,
                           struct mt_advice *out);
void mt_advice_release(struct mt_advice *advice);
