/* Out of memory: the request that was refused, what was live, and the changes that would have met the request.
 *
 *   trace up to the refusal ──┬─▶ refusal: what was asked for, and what there was
 *                             ├─▶ shares:  what was live, by category and by place
 *                             └─▶ changes: by simulation of the whole run, if it can be made again, and by replay,
 *                                          which knows this one request only
 *
 * Threads: any. An input is only read. */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/advise/observed.h"
#include "analysis/advise/program_changes.h"
#include "analysis/fit/fit.h"

/* The reason for which a hole could not serve. */
typedef enum mt_hole_reason {
    MT_HOLE_TOO_SMALL,
    MT_HOLE_OTHER_POOL,   /* the request is small and its segment is for large blocks, or the other way round */
    MT_HOLE_OTHER_STREAM, /* it is kept for work on another stream */
    MT_HOLE_NOT_TAKEN,    /* large enough, but the policy did not take it */
    MT_HOLE_REASON_COUNT
} mt_hole_reason;

/* Returns "too small", … */
const char *mt_hole_reason_name(mt_hole_reason reason);

/* Holes that could not serve for one reason. Invariant: largest_bytes <= bytes; is_small is of their segments. */
struct mt_hole_group {
    mt_hole_reason reason;
    mt_stream stream;
    bool is_small;
    uint64_t count, bytes, largest_bytes;
};

/* A refused request, what the device had left, and the reasons for which free reserved memory could not serve.
 *
 *   ├────────────────── capacity ──────────────────┤
 *   ├────────── reserved ───────────┤──── left ────┤
 *   ├─────── live ───────┤── holes ─┤├──────── needed ─────────┤
 *                                                   ├─ short ──┤
 *
 * Before an allocator refuses, it gives every segment without a block back to the device. So every hole lies between
 * blocks.
 * Invariants: reserved_bytes = allocated_bytes + hole_bytes; the groups sum to hole_bytes and hole_count, most bytes first;
 * short_bytes = needed_bytes - free if that is positive, and otherwise 0; free is device_free_bytes or, if that is not known,
 * what is left, as on a device that gives all of its capacity;
 * 0 < needed_bytes <= need.segment_bytes. */
struct mt_refusal {
    struct mt_mark_row mark; /* of the event: when, the bytes and the label */
    struct mt_alloc_need need;
    uint64_t capacity_bytes, reserved_bytes, allocated_bytes;
    uint64_t given_back_bytes, given_back_segments; /* or parts of segments, for this request, in vain */
    uint64_t hole_bytes, hole_count, largest_hole_bytes;
    bool grows;                /* a segment would have grown for it; otherwise a new one would have been mapped */
    uint64_t needed_bytes;     /* of the device, for that */
    int64_t device_free_bytes; /* by the driver, when it refused; -1: not known */
    uint64_t short_bytes;
    uint64_t alike; /* earlier requests of the window that were met, of the same size, and alike but for the layer */
    struct mt_hole_group *groups;
    size_t group_count;
};

/* Describes the last refusal in the window, which must end with it: input->last_event is its event. Fails with
 * MT_BAD_TRACE if its size exceeds what can be computed with, and with MT_USAGE if there is none. Release in any case. */
mt_status mt_refusal_create(const struct mt_advice_input *input, struct mt_refusal *out);
void mt_refusal_release(struct mt_refusal *refusal);

/* Sets what the device had free by its driver, which create does not know, and what was short by it. */
void mt_refusal_set_free(struct mt_refusal *refusal, uint64_t free_bytes);

/* Returns the bytes of the device that are not reserved. */
uint64_t mt_refusal_left(const struct mt_refusal *refusal);

/* True if the device had enough free by its driver, so that a limit of the process refused the request: a fraction of the
 * device, or a quota. */
bool mt_refusal_is_limited(const struct mt_refusal *refusal);

/* Returns the bytes of the device that were neither free by its driver nor reserved: others held them, or the process's
 * context. 0 if what was free is not known. The capacity must be. */
uint64_t mt_refusal_elsewhere(const struct mt_refusal *refusal);

typedef enum mt_replayed_kind {
    MT_REPLAYED_PROGRAM,  /* a change of a program that can't be made again */
    MT_REPLAYED_PATTERN,  /* the waste of a finding is gone */
    MT_REPLAYED_POLICY,   /* the alternative to the allocator's settings */
    MT_REPLAYED_USED_ONLY /* every block is live from its first to its last use only */
} mt_replayed_kind;

/* A change with which the run up to the refused request was replayed, and the request, which comes last, was met. Nothing
 * is known of the requests that would have followed. */
struct mt_replayed_change {
    mt_replayed_kind kind;
    struct mt_program_change program; /* of MT_REPLAYED_PROGRAM; its place is owned by the list */
    struct mt_finding finding;        /* of MT_REPLAYED_PATTERN; its texts are those of the labels */
    struct mt_alloc_settings alloc;   /* of the replay */
    struct mt_replay_result replay;
};

/* Invariants: every item's replay fits; items are ordered by what the change costs a program, least first; of findings with
 * one hint, only the one that saves most is there. */
struct mt_replayed_changes {
    struct mt_replay_result as_it_was; /* without a change; its peaks are those until the request */
    bool is_reproduced; /* without a change, the replay ends at the request; otherwise there are no items */
    uint64_t
        capacity_bytes; /* of the replays' device: that of the run's or, if the request fits there since others held
                              * a part of it, what the run held when it asked */
    struct mt_replayed_change *items;
    size_t count;
};

/* Finds changes. `refusal` is that of `input`. Takes a replay for each of up to `limit` findings, which is 1 or more, and
 * two or three others. Release in any case. */
mt_status mt_replayed_changes_create(const struct mt_advice_input *input, const struct mt_refusal *refusal,
                                     size_t limit, struct mt_replayed_changes *out);
void mt_replayed_changes_release(struct mt_replayed_changes *changes);

/* The sum of live blocks of one kind. */
struct mt_oom_share {
    const char *category;
    const char *place; /* the span with "*" for the layer's number; "" for a whole category */
    uint64_t allocated_bytes, requested_bytes, blocks;
};

/* Largest first. Invariant: the items sum to the refusal's allocated_bytes. */
struct mt_oom_shares {
    struct mt_oom_share *items;
    size_t count;
};

/* The proof that a change would have sufficed. */
typedef enum mt_oom_proof {
    MT_PROOF_SIMULATION, /* the whole run was simulated with it, to the end */
    MT_PROOF_REPLAY      /* the run up to the request was replayed with it, and the request was met */
} mt_oom_proof;

/* Returns "simulation" or "replay". */
const char *mt_oom_proof_name(mt_oom_proof proof);

/* A change that would have sufficed. Its room is mt_oom_answer.limit_bytes less reserved_bytes. */
struct mt_oom_change {
    mt_oom_proof proof;
    struct mt_fit_remedy remedy;        /* of a simulation; its plan is for the device that the run was on */
    struct mt_replayed_change replayed; /* of a replay */
    uint64_t reserved_bytes;            /* the peak with it */
};

/* Of a run that can't be made again, all are replayed. */
enum { MT_MOST_OOM_SIMULATED = 3, MT_MOST_OOM_REPLAYED = 6, MT_MOST_OOM_CHANGES = 6 };

/* A run up to its last refused request, and changes. Plans borrow the spellings of devices, so it is not to be copied.
 * Invariants: with is_simulated, fit.fit.fits is false; changes that were simulated come first, and those of each proof
 * from the one that costs least. Ownership: everything but the question. */
struct mt_oom_answer {
    const struct mt_question *question;
    int64_t event;                      /* of the refusal; 0: no request was refused */
    int64_t step;                       /* in which it was made; MT_NO_STEP: before the first */
    struct mt_advice_material material; /* its events end with the refusal */
    struct mt_refusal refusal;
    struct mt_replayed_changes replayed;
    struct mt_oom_shares roles, categories, places; /* of roles, a share's category is the role */
    uint64_t limit_bytes;      /* the most that a change could reserve: all of the device, or what the run held of it */
    bool is_ours;              /* the run can be made again, so a simulation was tried */
    bool is_simulated;         /* the simulation ran out of memory, too */
    struct mt_fit_answer fit;  /* of the simulation; its plans are for a simulated device */
    const char *smallest_card; /* known card that the run as it is fits, looked for if no change does; NULL: none */
    char device[MT_DEVICE_NAME], simulated_device[MT_DEVICE_NAME]; /* spellings to open them by */
    struct mt_card card;                                           /* of the simulated device, if the run keeps it */
    struct mt_oom_change changes[MT_MOST_OOM_CHANGES];
    size_t change_count;
    struct mt_observations observations; /* of a run that can't be made again */
};

/* Loads the run and tries changes. Borrows the question. Fails with MT_USAGE, and event = 0, for a run in which no request
 * was refused. Release in any case. */
mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out);

/* Does the same without trying changes: event, step, material and refusal are set. */
mt_status mt_oom_answer_load_refusal(const struct mt_question *question, struct mt_oom_answer *out);
void mt_oom_answer_release(struct mt_oom_answer *answer);
