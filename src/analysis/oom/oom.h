/* Out of memory: the refused request, the live blocks at that time, and changes that make the request succeed.
 *
 *   trace up to the refusal ──┬─▶ refusal: the request, and the memory at that time
 *                             ├─▶ shares:  live blocks, by category and by place
 *                             └─▶ changes: by simulation of the whole run, if it can be repeated, and by replay,
 *                                          which covers only this one request
 *
 * Threads: any. An input is only read. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/advise/observed.h"
#include "analysis/advise/program_changes.h"
#include "analysis/fit/fit.h"

/* Why a free gap was not used. */
typedef enum mt_hole_reason {
    MT_HOLE_TOO_SMALL,
    MT_HOLE_OTHER_POOL,   /* the request is small and the segment is for large blocks, or vice versa */
    MT_HOLE_OTHER_STREAM, /* it is reserved for another stream */
    MT_HOLE_NOT_TAKEN,    /* large enough, but the policy did not use it */
    MT_HOLE_REASON_COUNT
} mt_hole_reason;

/* Returns "too small", … */
const char *mt_hole_reason_name(mt_hole_reason reason);

/* Gaps that were not used for the same reason. Invariant: largest_bytes <= bytes; is_small belongs to their
 * segments. */
struct mt_hole_group {
    mt_hole_reason reason;
    mt_stream stream;
    bool is_small;
    uint64_t count, bytes, largest_bytes;
};

/* A refused request, the device's memory, and the reasons why free reserved memory was not used.
 *
 *   ├────────────────── capacity ──────────────────┤
 *   ├────────── reserved ───────────┤──── left ────┤
 *   ├─────── live ───────┤── holes ─┤├──────── needed ─────────┤
 *                                                   ├─ short ──┤
 *
 * An allocator returns every segment without a block to the device before it refuses. So every gap is between blocks.
 * Invariants: reserved_bytes = allocated_bytes + hole_bytes; the groups sum to hole_bytes and hole_count, largest
 * first; short_bytes = needed_bytes - free if that is positive, and otherwise 0; free is device_free_bytes or, if
 * unknown, the bytes left, as on a device without other users; 0 < needed_bytes <= need.segment_bytes. */
struct mt_refusal {
    struct mt_mark_row mark; /* of the event: when, the bytes and the label */
    struct mt_alloc_need need;
    uint64_t capacity_bytes, reserved_bytes, allocated_bytes;
    uint64_t given_back_bytes, given_back_segments; /* or parts, released for this request without success */
    uint64_t hole_bytes, hole_count, largest_hole_bytes;
    bool grows;                /* a segment would have had to grow for it; otherwise a new one was needed */
    uint64_t needed_bytes;     /* from the device, for that */
    int64_t device_free_bytes; /* as the driver reported at the refusal; -1: unknown */
    uint64_t short_bytes;
    uint64_t alike; /* earlier successful requests in the window with equal sizes, and labels equal except the layer */
    struct mt_hole_group *groups;
    size_t group_count;
};

/* Describes the last refusal in the window, whose last event it must be (input->last_event). Fails with MT_BAD_TRACE if
 * its size is too large for arithmetic, and with MT_USAGE if there is none. Release in any case. */
mt_status mt_refusal_create(const struct mt_advice_input *input, struct mt_refusal *out);
void mt_refusal_release(struct mt_refusal *refusal);

/* Sets the device's free memory as its driver reported it, which create does not know, and the shortage that
 * follows. */
void mt_refusal_set_free(struct mt_refusal *refusal, uint64_t free_bytes);

/* Returns the bytes of the device that are not reserved. */
uint64_t mt_refusal_left(const struct mt_refusal *refusal);

/* True if the driver reported enough free memory, so that a limit of the process refused the request: a fraction of the
 * device, or a quota. */
bool mt_refusal_is_limited(const struct mt_refusal *refusal);

/* Returns the bytes of the device that were neither free, as its driver reported, nor reserved: other processes or the
 * process's own context held them. 0 if the free memory is unknown. The capacity must be known. */
uint64_t mt_refusal_elsewhere(const struct mt_refusal *refusal);

typedef enum mt_replayed_kind {
    MT_REPLAYED_PROGRAM,  /* a change of a program that can't be repeated */
    MT_REPLAYED_PATTERN,  /* without the waste of a finding */
    MT_REPLAYED_POLICY,   /* the alternative settings of the allocator */
    MT_REPLAYED_USED_ONLY /* every block lives only from its first to its last use */
} mt_replayed_kind;

/* A change with which a replay up to the refused request, which comes last, succeeds. The requests that would have
 * followed are unknown. */
struct mt_replayed_change {
    mt_replayed_kind kind;
    struct mt_program_change program; /* for MT_REPLAYED_PROGRAM; the list owns its place */
    struct mt_finding finding;        /* for MT_REPLAYED_PATTERN; borrows the labels' texts */
    struct mt_alloc_settings alloc;   /* of the replay */
    struct mt_replay_result replay;
};

/* Invariants: every item's replay fits; items are ordered by the cost of the change, cheapest first; of findings with
 * one hint, only the one that saves most is included. */
struct mt_replayed_changes {
    struct mt_replay_result as_it_was; /* without a change; its peaks are those until the request */
    bool is_reproduced;                /* the unchanged replay also ends at the request; otherwise there are no items */
    /* Of the replays' device: the run's capacity or, if the request fits there since other processes used part of it,
     * the run's memory at the request. */
    uint64_t capacity_bytes;
    struct mt_replayed_change *items;
    size_t count;
};

/* Finds changes. `refusal` belongs to `input`. Takes one replay for each of up to `limit` (at least 1) findings, and
 * two or three others. Release in any case. */
mt_status mt_replayed_changes_create(const struct mt_advice_input *input, const struct mt_refusal *refusal,
                                     size_t limit, struct mt_replayed_changes *out);
void mt_replayed_changes_release(struct mt_replayed_changes *changes);

/* The sum of live blocks of one kind. */
struct mt_oom_share {
    const char *category;
    const char *place; /* the span, with "*" for the layer's number; "" for a whole category */
    uint64_t allocated_bytes, requested_bytes, blocks;
};

/* Largest first. Invariant: the items sum to the refusal's allocated_bytes. */
struct mt_oom_shares {
    struct mt_oom_share *items;
    size_t count;
};

/* How it was verified that a change suffices. */
typedef enum mt_oom_proof {
    MT_PROOF_SIMULATION, /* the whole run was simulated with it to the end */
    MT_PROOF_REPLAY      /* the run up to the request was replayed with it, and the request succeeded */
} mt_oom_proof;

/* Returns "simulation" or "replay". */
const char *mt_oom_proof_name(mt_oom_proof proof);

/* A change that makes the run fit. It leaves mt_oom_answer.limit_bytes - reserved_bytes free. */
struct mt_oom_change {
    mt_oom_proof proof;
    struct mt_fit_remedy remedy;        /* for a simulation; its plan is for the run's device */
    struct mt_replayed_change replayed; /* for a replay */
    uint64_t reserved_bytes;            /* the peak with it */
};

/* If the run can't be repeated, all changes are replayed. */
enum { MT_MOST_OOM_SIMULATED = 3, MT_MOST_OOM_REPLAYED = 6, MT_MOST_OOM_CHANGES = 6 };

/* A run up to its last refused request, and changes. Plans borrow the spellings of devices, so do not copy this struct.
 * Invariants: with is_simulated, fit.fit.fits is false; simulated changes come first, and the changes of each proof are
 * ordered by cost, cheapest first. Owns everything but the question. */
struct mt_oom_answer {
    const struct mt_question *question;
    int64_t event;                      /* of the refusal; 0: no request was refused */
    int64_t step;                       /* with the request; MT_NO_STEP: before the first step */
    struct mt_advice_material material; /* its events end with the refusal */
    struct mt_refusal refusal;
    struct mt_replayed_changes replayed;
    struct mt_oom_shares roles, categories, places; /* in `roles`, a share's category is its role */
    uint64_t limit_bytes;      /* limit for a change: the whole device, or the part that the run held */
    bool is_ours;              /* the run can be repeated, so a simulation was tried */
    bool is_simulated;         /* the simulation also ran out of memory */
    struct mt_fit_answer fit;  /* of the simulation; its plans are for a simulated device */
    const char *smallest_card; /* known card that the unchanged run fits, searched if no change does; NULL: none */
    char device[MT_DEVICE_NAME], simulated_device[MT_DEVICE_NAME]; /* spellings to open them by */
    struct mt_card card;                                           /* of the simulated device, if the run stores it */
    struct mt_oom_change changes[MT_MOST_OOM_CHANGES];
    size_t change_count;
    struct mt_observations observations; /* for a run that can't be repeated */
};

/* Loads the run and tries changes. Borrows the question. Fails with MT_USAGE, and event = 0, for a run without a
 * refused request. Release in any case. */
mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out);

/* Like mt_oom_answer_load, but without changes: sets event, step, material and refusal. */
mt_status mt_oom_answer_load_refusal(const struct mt_question *question, struct mt_oom_answer *out);
void mt_oom_answer_release(struct mt_oom_answer *answer);
