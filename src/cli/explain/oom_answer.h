/* The answer of `memtrace oom`, before it is printed: what analysis found of the refusal, and the changes that would have
 * sufficed. These are tried by simulation of the whole run, if it can be made again, and by replay, which knows this one
 * request only. */
#ifndef MT_CLI_OOM_ANSWER_H
#define MT_CLI_OOM_ANSWER_H

#include "analysis/fit.h"
#include "analysis/oom.h"
#include "base/text.h"
#include "cli/output/question.h"

/* The proof that a change would have sufficed. */
typedef enum mt_oom_proof {
    MT_PROOF_SIMULATION, /* the whole run was simulated with it, to the end */
    MT_PROOF_REPLAY      /* the run up to the request was replayed with it, and the request was met */
} mt_oom_proof;

/* "simulation", "replay". */
const char *mt_oom_proof_name(mt_oom_proof proof);

/* A change that would have sufficed. Its room is mt_oom_answer.limit_bytes less reserved_bytes. */
struct mt_oom_change {
    mt_oom_proof proof;
    struct mt_fit_remedy remedy;        /* of a simulation; its plan is for the device that the run was on */
    struct mt_replayed_change replayed; /* of a replay */
    uint64_t reserved_bytes;            /* the peak with it */
};

enum { MT_MOST_OOM_SIMULATED = 3, MT_MOST_OOM_CHANGES = 4 };

/* Invariants: with is_simulated, fit.fit.fits is false. changes: those that were simulated first, each kind from the one
 * that costs least. Ownership: everything but the question. */
struct mt_oom_answer {
    const struct mt_question *question;
    struct mt_oom oom;
    uint64_t limit_bytes;     /* the most that a change could reserve: all of the device, or what the run held of it */
    bool is_ours;             /* the run can be made again, so a simulation was tried */
    bool is_simulated;        /* the simulation ran out of memory, too */
    struct mt_fit_answer fit; /* of the simulation; its plans are for a simulated device */
    const char
        *smallest_card; /* known card that the run as it is fits, looked for if nothing simulated does; NULL: none */
    char device[64], simulated_device[64]; /* spellings to open them by */
    struct mt_oom_change changes[MT_MOST_OOM_CHANGES];
    size_t change_count;
};

/* Borrows the question. MT_USAGE for a run in which no request was refused. Release in any case. */
mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out);
void mt_oom_answer_release(struct mt_oom_answer *answer);

/* Adds the change in words: options of memtrace run, or the blocks that are live for too long. */
void mt_oom_change_add(const struct mt_oom_change *change, struct mt_text *out);

/* Adds the way to make the change: a command to paste, or words. */
void mt_oom_change_add_way(const struct mt_oom_change *change, struct mt_text *out);

/* Print it: for people, or as JSON. */
void mt_oom_answer_print(const struct mt_oom_answer *answer);
void mt_oom_answer_print_json(const struct mt_oom_answer *answer);

#endif
