/* The outcome of a program that was recorded or run dry: how it ended, the answers of its processes, and the notes and the
 * choice of its ranks.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/text.h"
#include "producers/program/rank_notes.h"
#include "run/handover.h"

/* A rank that was run of a program with many alike ranks. */
struct mt_rank_stand_in {
    int64_t rank;
    int64_t like;         /* the ranks that it stands for, itself included; 0: another one stands for it */
    int64_t differs_from; /* the rank that was taken to stand for it and requests other memory; -1: none */
};

/* An output instead of a file's number: the end of the program's output is kept. */
enum { MT_KEEP_OUTPUT = -2 };

/* Zero-initialized: nothing ran. Invariants: without many ranks there are no notes and stand-ins; the notes of ranks are not
 * among the answers. */
struct mt_program_outcome {
    char *path;                       /* of the trace, absolute; NULL: nothing was recorded */
    int code;                         /* the exit code, as a shell has it; of ranks, the first that is not 0 */
    bool is_interrupted;              /* this process was told to end while the program ran */
    bool is_many;                     /* it was run as ranks */
    int64_t ranks;                    /* that the program has */
    struct mt_record_answer *answers; /* an array for MT_HOST_ADD; owns its texts */
    size_t count;
    struct mt_rank_notes notes;
    struct mt_rank_stand_in
        *stand_ins; /* an array for MT_HOST_ADD, one for each rank that was run; NULL: none was chosen */
    size_t stand_in_count;
    struct mt_text said; /* the end of its output, if that was kept */
};

/* Keeps a copy of an answer. `context` is the outcome, for mt_record_answers_read. */
void mt_program_outcome_keep(void *context, const struct mt_record_answer *answer);
void mt_program_outcome_release(struct mt_program_outcome *outcome);

/* Adds how a program failed: "exit code 1, KeyError: 'lr'". */
void mt_program_outcome_add_failure(const struct mt_program_outcome *outcome, struct mt_text *out);

/* Adds the words of a note, or what is missing. */
void mt_program_note_add(const struct mt_record_answer *answer, struct mt_text *out);

/* True if Ctrl-C ended the program, or a signal that told this process to end. */
bool mt_program_outcome_is_interrupted(const struct mt_program_outcome *outcome);

/* Returns the signal by which a user or the kernel killed the program: SIGKILL or SIGTERM. 0: the program ended by itself. */
int mt_program_outcome_killed_by(const struct mt_program_outcome *outcome);
