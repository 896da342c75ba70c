/* Advice: what a run wastes, and by how much its peak falls if that is mended.
 *
 *   blocks, uses, marks ──patterns──▶ cuts: when a block need not be there
 *                                       │
 *                        by what the blocks are (their labels)
 *                                       │
 *                                       ▼
 *                     finding:  claim, by adding up ══ check, by replaying
 *
 * A claim says what the peak of requested bytes is without what is cut out. Each is checked: the lifetimes with the
 * cuts are replayed through an allocator of the run's own settings, and the replay's peak of requested bytes is the
 * claim's.
 *
 * Threads: any; an input is only read, so several may ask about one at a time. */
#ifndef MT_WHATIF_ADVICE_H
#define MT_WHATIF_ADVICE_H

#include "analysis/replay.h"
#include "trace/query/leaks.h"

/* What can be wrong with how long a block is there. */
#define MT_PATTERNS(X)                                                                                                 \
    X(KEPT_GRADIENTS,                                                                                                  \
      "gradients in forward") /* of the last step, live through a forward pass that has no use of them */              \
    X(LATE_FREE, "late free") /* there long after its last use */                                                      \
    X(EARLY_ALLOCATION, "early allocation") /* there long before its first use */                                      \
    X(IDLE, "idle between uses")            /* there while nothing uses it */                                          \
    X(NEVER_USED, "never used")                                                                                        \
    X(DEAD_WRITE, "dead write")         /* written, never read */                                                      \
    X(TWO_PRECISIONS, "two precisions") /* a copy in another precision, idle beside its original */                    \
    X(LEAK, "leak across steps")        /* more of its kind at the end of every step */                                \
    X(FRAGMENTATION, "fragmentation")   /* reserved and free, but of no use to what was asked for */

#define X(name, text) MT_PATTERN_##name,
typedef enum mt_pattern { MT_PATTERNS(X) MT_PATTERN_COUNT } mt_pattern;
#undef X

/* "late free", … */
const char *mt_pattern_name(mt_pattern pattern);

/* A run, or a window of its events. Everything is borrowed.
 * Invariants: blocks are those of first_event <= id <= last_event, by alloc_event; uses[i] is of blocks[i]; every
 * block's label < label_count. */
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
    const struct mt_part_row *parts; /* of these */
    size_t part_count;
    const struct mt_leaks *leaks; /* of the run; NULL: it is too short to tell */
    int64_t first_event, last_event;
    struct mt_alloc_settings settings; /* of the run's allocator */
    uint64_t capacity_bytes;           /* of its device */
};

/* Something that could be mended.
 * Invariants: claim_bytes = replay.requested_bytes, unless the replay ran out of memory; saved_bytes = the peak as it was
 * (of requested bytes; of fragmentation, of reserved ones) - what it would be, or 0. */
struct mt_finding {
    mt_pattern pattern;
    const char *category, *role, *op, *phase, *place; /* of its blocks; "" where they differ */
    uint64_t bytes;  /* wasted at the run's peak or, if nothing is wasted then, at the moment of most; requested */
    uint64_t blocks; /* how many these are; of fragmentation, free pieces */
    int64_t events;  /* for how long each of them is wasted: the median */
    uint64_t ns;
    uint64_t total_blocks; /* whenever they are wasted */
    double byte_seconds;   /* sum of bytes times seconds wasted */
    uint64_t claim_bytes;  /* the peak of requested bytes if mended */
    uint64_t saved_bytes;
    struct mt_replay_result replay; /* of the mended run */
    mt_policy policy;               /* of that replay: the run's; of fragmentation, the other one */
};

/* What the segments looked like when most was reserved, with the block that the last one was mapped for in its place. */
struct mt_fragmentation {
    uint64_t reserved_bytes, allocated_bytes;
    uint64_t idle_bytes; /* of segments with no block in them */
    uint64_t hole_bytes; /* free in segments that have some; idle + hole = reserved - allocated */
    uint64_t hole_count;
    uint64_t largest_bytes; /* of the free pieces */
    uint64_t asked_bytes;   /* by the block that the last segment was mapped for; requested */
    uint32_t culprit;       /* label of the blocks that most of the free bytes lie between; 0: none */
};

/* Invariant: findings are ordered by saved_bytes, then byte_seconds, largest first. */
struct mt_advice {
    bool knows_uses;                   /* false: the program told no use of any block */
    uint64_t peak_bytes;               /* requested, of the window */
    int64_t peak_event;                /* that reached it first */
    struct mt_replay_result as_it_was; /* the replay without a change */
    struct mt_replay_result used_only; /* of blocks that are there from their first to their last use only; if uses are
                                        * known */
    struct mt_fragmentation fragmentation;
    struct mt_finding *findings;
    size_t count;
    size_t left_out; /* kinds of blocks that waste something, of which nothing is told */
};

typedef enum mt_advice_extent {
    MT_ADVICE_WORTHWHILE, /* what lowers the peak, then what wastes a hundredth of all byte-seconds or more; none that
                           * is a part of another one */
    MT_ADVICE_ALL,
} mt_advice_extent;

/* Looks for every pattern; at most `limit` findings, which is 1 or more. Release in any case. Takes about 100 ns an event
 * and, for each finding, a replay. */
mt_status mt_advice_create(const struct mt_advice_input *input, mt_advice_extent extent, size_t limit,
                           struct mt_advice *out);
void mt_advice_release(struct mt_advice *advice);

/* Whether `part` speaks of some of the blocks that `whole` speaks of, and of the same waste; `whole` then is of all
 * categories. */
bool mt_finding_is_part(const struct mt_finding *part, const struct mt_finding *whole);

/* What could be done about it: a setting of ours, or what to change in a program. Static text. */
const char *mt_finding_hint(const struct mt_finding *finding);

/* An option of `memtrace run` that the hint names, and whose gain no replay could tell, since other requests are made with
 * it: a simulation does. */
typedef enum mt_named_option {
    MT_NAMED_NONE,
    MT_NAMED_OPTIMIZER_IN_BACKWARD,
    MT_NAMED_CHECKPOINT,
    MT_NAMED_COUNT
} mt_named_option;
mt_named_option mt_finding_option(const struct mt_finding *finding);

/* What that costs. */
typedef enum mt_remedy_cost {
    MT_COST_OPTION,  /* nothing: it is one option */
    MT_COST_PROGRAM, /* a change of the program, and no time */
    MT_COST_TIME,    /* computing or copying, in every step */
} mt_remedy_cost;
mt_remedy_cost mt_finding_cost(const struct mt_finding *finding);

/* "option", "program", "time". */
const char *mt_remedy_cost_name(mt_remedy_cost cost);

#endif
