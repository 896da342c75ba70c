/* Changes of a training program, or of its allocator's settings, whose effect follows from the blocks of a run. For
 * programs that can't be repeated here: each change is applied to the lifetimes of the run's blocks, which are then
 * replayed.
 *
 *   blocks with roles, phases, modules ──▶ lifetimes with the change ──replay──▶ peaks
 *
 * Blocks that a change would add to the run's own are unknown and not counted. If the trace lacks facts for a change,
 * the answer has a gap with the reason.
 *
 * Threads: any. An input is only read. */
#pragma once

#include "analysis/advise/advise.h"

/* The kinds of changes. X(kind, name, cost): `name` is its name in JSON, `cost` as in MT_REMEDY_COSTS. */
#define MT_CHANGE_KINDS(X)                                                                                             \
    X(ALLOCATOR, "allocator", SETTING)                  /* other settings of PyTorch's allocator */                    \
    X(ZERO_GRAD, "zero grad", LINE)                     /* gradients go before the next forward pass */                \
    X(IN_BACKWARD, "optimizer in backward", CONVERSION) /* each gradient goes when the next one comes */               \
    /* A module's activations, except its output, are freed at its end and allocated again in backward. */             \
    X(CHECKPOINT, "checkpoint", RECOMPUTATION)                                                                         \
    X(SLICED_LOSS, "sliced loss", CONVERSION) /* logits are computed a part at a time */                               \
    X(MICRO_BATCH, "micro-batch", CONVERSION) /* half the batch at once, and gradients accumulated */                  \
    X(LESS_STATE, "optimizer", STATE)         /* another optimizer */

#define X(kind, ...) MT_CHANGE_##kind,
typedef enum mt_change_kind { MT_CHANGE_KINDS(X) MT_CHANGE_KIND_COUNT } mt_change_kind;
#undef X

struct mt_change_kind_row {
    const char *name;
    mt_remedy_cost cost;
};
extern const struct mt_change_kind_row mt_change_kinds[MT_CHANGE_KIND_COUNT];

/* An optimizer with less state than the run's. */
typedef enum mt_lean_optimizer {
    MT_OPTIMIZER_8BIT, /* every state of 4096 elements or more with one byte per element and 4 bytes per block of 256 */
    MT_OPTIMIZER_OFFLOADED, /* states in the host's memory */
    MT_OPTIMIZER_MOMENTUM,  /* one of two states */
    MT_OPTIMIZER_STATELESS,
    MT_OPTIMIZER_COUNT
} mt_lean_optimizer;

/* Why a kind of change is missing. */
typedef enum mt_change_gap {
    MT_GAP_NONE,
    MT_GAP_NO_STEPS,     /* no forward pass followed by another phase */
    MT_GAP_NO_GRADIENTS, /* no block is a gradient */
    MT_GAP_ACCUMULATED,  /* gradients live through several forward passes of a step, which accumulate into them */
    MT_GAP_BUCKETS,      /* DDP reduces gradients in buckets, after the hooks of the parameters */
    MT_GAP_NO_MODULES,   /* no activation has a module */
    MT_GAP_NO_BACKWARD,  /* the program only infers */
    MT_GAP_NO_STATE,     /* no block is optimizer state */
    MT_GAP_COUNT
} mt_change_gap;

/* The order of changes, before their savings. */
typedef enum mt_change_tier {
    MT_TIER_OPTION, /* one option or line makes it, and it saves at least half of the largest saving */
    MT_TIER_SAVING,
    MT_TIER_TRANSFER, /* every step moves the optimizer's state to the host and back */
    MT_TIER_ANOTHER   /* the optimizer computes something else */
} mt_change_tier;

/* Returns the tier of a change with this saving; most_bytes is the largest saving of all changes. */
mt_change_tier mt_change_tier_of(bool is_option, uint64_t saved_bytes, uint64_t most_bytes);

/* A change and its replay. Invariants: place is "" except for checkpoints, where the list owns it; bytes and blocks are
 * those that the change affects at the window's peak. */
struct mt_program_change {
    mt_change_kind kind;
    mt_lean_optimizer optimizer; /* for less state */
    mt_change_tier tier;
    const char *place;         /* for a checkpoint: the modules, with "*" for the layer's number */
    size_t calls;              /* for a checkpoint: calls of these modules in the window */
    uint64_t recomputed_bytes; /* for a checkpoint: the largest temporary memory of one recomputation */
    uint64_t bytes;            /* requested */
    uint64_t blocks;
    struct mt_alloc_settings alloc; /* of the replay */
    struct mt_replay_result replay;
};

enum { MT_MOST_CHECKPOINTS = 3 };

/* Invariant: items are ordered by tier, then by the peaks of reserved and of allocated bytes, lowest first. */
struct mt_program_changes {
    struct mt_replay_result as_it_was;
    struct mt_program_change *items;
    size_t count;
    mt_change_gap gaps[MT_CHANGE_KIND_COUNT];
};

/* Replays every change on a device of the input's capacity, and keeps changes that lower a peak by a hundredth. Of the
 * allocator's settings it keeps the one that reserves least, if much of the reserved memory is not allocated and the
 * setting saves a twentieth of it. Takes about twenty replays. Release in any case. */
mt_status mt_program_changes_create(const struct mt_advice_input *input, struct mt_program_changes *out);
void mt_program_changes_release(struct mt_program_changes *changes);
