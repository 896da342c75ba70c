/* The table of findings. Each kind of finding is one row of MT_FINDING_KINDS: its name, its detector, and its evidence.
 * Each change that fixes a finding is one row of MT_REMEDIES: the findings that it helps, and its cost. advise, oom,
 * the page and the library take all facts about a kind from these rows; src/words/finding_words.c has its English.
 *
 *   detector ──cuts──▶ evidence: blocks with similar labels ──▶ finding ──kind, role──▶ change, cost ──▶ words
 */
#pragma once

#include "analysis/replay.h"
#include "base/label.h"

struct mt_holder_row;
struct mt_window;
struct mt_cut_list;

/* The texts that the blocks of one finding have in common. */
enum {
    MT_ALIKE_CATEGORY = 1,
    MT_ALIKE_ROLE = 2,
    MT_ALIKE_OP = 4,
    MT_ALIKE_PHASE = 8,
    MT_ALIKE_PLACE = 16,
    MT_ALIKE_ALL = 31,
    MT_ALIKE_BY_ROLE = 32, /* the role, and also the category for roles whose categories are used differently */
};

/* Properties of kinds. */
enum {
    MT_FINDS_ACTIVATIONS = 1, /* all activations together are one more finding */
    MT_FINDS_GROWTH = 2,      /* reported even if small, since it grows with more steps */
    MT_FINDS_RESERVED = 4,    /* found in segments, not in lifetimes: it wastes reserved memory */
};

/* X(kind, name, detector, alike, properties): `name` is its name in JSON. mt_cut_DETECTOR adds the evidence: the times
 * at which a block need not be live. `alike` has the MT_ALIKE bits by which these blocks are grouped. */
#define MT_FINDING_KINDS(X)                                                                                            \
    /* Gradients of the last step, live through a forward pass that does not use them. */                              \
    X(KEPT_GRADIENTS, "gradients in forward", kept_gradient, MT_ALIKE_ROLE, 0)                                         \
    X(LATE_FREE, "late free", late_free, MT_ALIKE_ALL, MT_FINDS_ACTIVATIONS)   /* freed long after the last use */     \
    X(EARLY_ALLOCATION, "early allocation", early_allocation, MT_ALIKE_ALL, 0) /* long before the first use */         \
    X(IDLE, "idle between uses", idle, MT_ALIKE_BY_ROLE, MT_FINDS_ACTIVATIONS) /* live for long between two uses */    \
    X(NEVER_USED, "never used", never_used, MT_ALIKE_ALL, 0)                                                           \
    X(DEAD_WRITE, "dead write", dead_write, MT_ALIKE_ALL, 0) /* written, never read */                                 \
    /* A copy in another precision, idle while its original is live. */                                                \
    X(TWO_PRECISIONS, "two precisions", two_precisions, MT_ALIKE_BY_ROLE, 0)                                           \
    X(LEAK, "leak across steps", leak, MT_ALIKE_ALL, MT_FINDS_GROWTH) /* more of it at the end of every step */        \
    /* Reserved and free, but not usable for the request that was made. */                                             \
    X(FRAGMENTATION, "fragmentation", nothing, 0, MT_FINDS_RESERVED)

/* The costs of changes, cheapest first. X(cost, name): `name` is its name in JSON. */
#define MT_REMEDY_COSTS(X)                                                                                             \
    X(LINE, "option")        /* one option, or one line of the program */                                              \
    X(SETTING, "option")     /* one setting of the allocator */                                                        \
    X(REMOVAL, "program")    /* the program leaves something out */                                                    \
    X(ORDER, "program")      /* the program allocates or frees elsewhere */                                            \
    X(CONVERSION, "time")    /* every step converts or updates once more */                                            \
    X(RECOMPUTATION, "time") /* every step computes or copies activations again */                                     \
    X(STATE, "time")         /* every step moves parameters or their state, or the optimizer is another one */         \
    X(EVERYTHING, "time")    /* every block of the program lives for another time */

/* X(change, kind, roles, cost): fixes findings of `kind` whose blocks all have one of `roles` (bits; 0: any or
 * several). The first matching row counts. Which change helps against fragmentation depends on the replay, and
 * COPY_AT_USE depends on the operator. */
#define MT_REMEDIES(X)                                                                                                 \
    X(ZERO_GRAD_EARLY, KEPT_GRADIENTS, 0, LINE)                /* clear gradients before the forward pass */           \
    X(NO_BACKWARD, LATE_FREE, MT_OF(ACTIVATION), ORDER)        /* run without backward: it reads nothing saved */      \
    X(LEAVE_OUT, LATE_FREE, MT_OF(PARAMETER), REMOVAL)         /* no step needs it */                                  \
    X(END_AUTOCAST, LATE_FREE, MT_OF(WEIGHT_CAST), ORDER)      /* its cache keeps copies until its region ends */      \
    X(FREE_AFTER_USE, LATE_FREE, 0, ORDER)                     /* drop the last reference after the last use */        \
    X(ALLOCATE_AT_USE, EARLY_ALLOCATION, 0, ORDER)             /* allocate at the first use */                         \
    X(OFFLOAD_PARAMETERS, IDLE, MT_OF(PARAMETER), STATE)       /* keep them on the host, or sharded */                 \
    X(UPDATE_IN_BACKWARD, IDLE, MT_OF(GRADIENT), STATE)        /* update each parameter with its gradient */           \
    X(OFFLOAD_STATE, IDLE, MT_OF(OPTIMIZER_STATE), STATE)      /* on the host, sharded, or in 8 bits */                \
    X(CHECKPOINT, IDLE, MT_OF(ACTIVATION), RECOMPUTATION)      /* compute again in backward, or offload */             \
    X(CAST_AGAIN, IDLE, MT_OF(WEIGHT_CAST), RECOMPUTATION)     /* make the copy again when needed */                   \
    X(SHRINK_WORKSPACE, IDLE, MT_OF(WORKSPACE), RECOMPUTATION) /* free it after use, or use a smaller one */           \
    X(COPY_AGAIN, IDLE, MT_OF_HOST_DATA, RECOMPUTATION)        /* copy it from the host again when needed */           \
    X(RECOMPUTE, IDLE, 0, RECOMPUTATION)                       /* compute it again when needed */                      \
    X(DO_NOT_ALLOCATE, NEVER_USED, 0, REMOVAL)                 /* nothing uses it */                                   \
    X(DO_NOT_WRITE, DEAD_WRITE, 0, REMOVAL)                    /* nothing reads it */                                  \
    X(COPY_AT_USE, DEAD_WRITE, 0, ORDER)                       /* of several copies, such as batches made ahead */     \
    X(CAST_WEIGHTS_AGAIN, TWO_PRECISIONS, MT_OF(WEIGHT_CAST), CONVERSION) /* in backward, or keep only the copies */   \
    X(KEEP_ONE_PRECISION, TWO_PRECISIONS, 0, CONVERSION)                  /* keep one of two copies for backward */    \
    X(DROP_REFERENCE, LEAK, 0, REMOVAL)                                   /* something refers to it across steps */    \
    X(ALLOCATE_LONG_FIRST, FRAGMENTATION, 0, ORDER)                       /* no other policy reserves less */          \
    X(POLICY_TORCH, FRAGMENTATION, 0, SETTING)                            /* use the allocator's other policy */       \
    X(POLICY_TIGHT, FRAGMENTATION, 0, SETTING)

#define MT_OF(role) (1u << MT_ROLE_##role)
#define MT_OF_HOST_DATA (MT_OF(INPUT) | MT_OF(BUFFER) | MT_OF(KEY_VALUE_CACHE) | MT_OF(KEPT))

#define X(kind, ...) MT_PATTERN_##kind,
typedef enum mt_pattern { MT_FINDING_KINDS(X) MT_PATTERN_COUNT } mt_pattern;
#undef X
#define X(cost, name) MT_COST_##cost,
typedef enum mt_remedy_cost { MT_REMEDY_COSTS(X) MT_COST_COUNT } mt_remedy_cost;
#undef X
#define X(change, ...) MT_HINT_##change,
typedef enum mt_hint { MT_REMEDIES(X) MT_HINT_COUNT } mt_hint;
#undef X

struct mt_finding_kind {
    const char *name;

    /* Adds the cuts of block `index`, in order; none if it is not evidence. */
    void (*cut)(const struct mt_window *window, size_t index, struct mt_cut_list *out);

    unsigned alike, properties;
};
extern const struct mt_finding_kind mt_finding_kinds[MT_PATTERN_COUNT];

/* The detectors. */
#define X(kind, name, detector, ...)                                                                                   \
    void mt_cut_##detector(const struct mt_window *window, size_t index, struct mt_cut_list *out);
MT_FINDING_KINDS(X)
#undef X

/* Waste of one pattern by blocks with similar labels.
 * Invariants: claim_bytes = replay.requested_bytes, unless the replay ran out of memory; saved_bytes is the original
 * peak minus the peak without the waste, or 0. Both are peaks of requested bytes, but of reserved bytes for
 * fragmentation. */
struct mt_finding {
    mt_pattern pattern;
    const char *category, *role, *op, *phase, *place; /* common to its blocks; "" where they differ */
    const char
        *taken_at; /* the line of the program that allocated the largest of them: "train.py:7"; "": not recorded */
    const struct mt_holder_row *holder; /* of the largest of them; NULL: unknown */
    int64_t event;                      /* that allocated it; 0 for fragmentation */
    uint64_t bytes;                     /* requested bytes wasted at the run's peak or, if none, when most are wasted */
    uint64_t blocks;                    /* number of these blocks; for fragmentation, of free pieces */
    int64_t events;                     /* the median of the events for which each block is wasted */
    uint64_t ns;                        /* the same in time */
    uint64_t total_blocks;              /* blocks that are wasted at some time */
    double byte_seconds;                /* sum of bytes times seconds wasted */
    uint64_t claim_bytes;               /* the peak of requested bytes without the waste */
    uint64_t saved_bytes;
    struct mt_replay_result replay; /* of the run without the waste */
    struct mt_alloc_settings alloc; /* of that replay: the answer's; for fragmentation, the alternative */
};

/* Cuts everything outside the block's first and last use. */
void mt_cut_unused(const struct mt_window *window, size_t index, struct mt_cut_list *out);

/* True if the finding wastes reserved memory, not lifetimes of blocks. */
bool mt_finding_is_of_reserved(const struct mt_finding *finding);

/* Returns the change that fixes the finding, and its cost. */
mt_hint mt_finding_hint(const struct mt_finding *finding);
mt_remedy_cost mt_finding_cost(const struct mt_finding *finding);

/* True if one option fixes the finding. */
bool mt_finding_is_optional(const struct mt_finding *finding);

/* True if `part` covers some of the blocks and the same waste as `whole`. Then `whole` has no category. */
bool mt_finding_is_part(const struct mt_finding *part, const struct mt_finding *whole);

/* Returns "option", "program" or "time". */
const char *mt_remedy_cost_name(mt_remedy_cost cost);
