/* The outcome of a program that was recorded or run dry: how it ended, the answers of its processes, and the notes and
 * the choice of its ranks.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/text.h"
#include "producers/program/rank_notes.h"
#include "run/handover.h"

/* A rank that ran, of a program with many equal ranks. */
struct mt_rank_stand_in {
    int64_t rank;
    int64_t like;         /* the number of ranks that it stands for, with itself; 0: another one stands for it */
    int64_t differs_from; /* the rank that stood for it although their requests differ; -1: none */
};

/* An output instead of a file's number: the end of the program's output is kept. */
enum { MT_KEEP_OUTPUT = -2 };

/* Zero-initialized: nothing ran. Invariants: without many ranks there are no notes and stand-ins; the notes of ranks
 * are not among the answers. */
struct mt_program_outcome {
    char *path;                       /* of the trace, absolute; NULL: nothing was recorded */
    int code;                         /* the exit code, as in a shell; of ranks, the first that is not 0 */
    bool is_interrupted;              /* a signal requested this process's end while the program ran */
    bool is_many;                     /* it ran as ranks */
    int64_t ranks;                    /* the number of ranks of the program */
    struct mt_record_answer *answers; /* an array for MT_HOST_ADD; owns its texts */
    size_t count;
    struct mt_rank_notes notes;
    struct mt_rank_stand_in
        *stand_ins; /* an array for MT_HOST_ADD, one for each rank that ran; NULL: none was chosen */
    size_t stand_in_count;
    struct mt_text said; /* the end of its output, if that was kept */
};

/* Keeps a copy of an answer. `context` is the outcome, for mt_record_answers_read. */
void mt_program_outcome_keep(void *context, const struct mt_record_answer *answer);
void mt_program_outcome_release(struct mt_program_outcome *outcome);

/* Appends how a program failed: "exit code 1, KeyError: 'lr'". */
void mt_program_outcome_add_failure(const struct mt_program_outcome *outcome, struct mt_text *out);

/* Appends the text of a note, or of something missing. */
void mt_program_note_add(const struct mt_record_answer *answer, struct mt_text *out);

/* True if Ctrl-C ended the program, or a signal requested this process's end. */
bool mt_program_outcome_is_interrupted(const struct mt_program_outcome *outcome);

/* Returns the signal with which a user or the kernel killed the program: SIGKILL or SIGTERM; 0 if neither did. */
int mt_program_outcome_killed_by(const struct mt_program_outcome *outcome);
