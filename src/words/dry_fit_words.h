/* Changes of a program that was run dry with them, in words: the names of changes, and the lines of PyTorch that make
 * them. */
#pragma once

#include "analysis/fit/dry_fit.h"
#include "words/change_words.h"

/* A change that lowers what the program reserves. Invariant: hint has the lines to write, each ended by \n. */
struct mt_trial_row {
    struct mt_text kind, change, hint;
    struct mt_text assumed; /* by a replay; empty for a dry run */
    const char *where;      /* of the program the change was made; of several changes "" */
    const char *basis;      /* "dry run" or "replay" */
    bool is_option;         /* a single option or line makes it */
    mt_change_tier tier;
    struct mt_replay_result peak;
    int64_t rank;             /* of many ranks, the one whose peak it is; -1: it is no rank */
    int64_t difference_bytes; /* of the peak of reserved bytes, to that of the program as it is */
};

/* Describes a trial, with the peaks as fields of tables. */
extern const struct mt_row_type mt_trial_type;

/* The changes that lower what the program reserves, best first, and the reasons for leaving others out. Texts are
 * borrowed from the fit. */
struct mt_trial_rows {
    struct mt_trial_row *items;
    size_t count;
    struct mt_gap_row *gaps;
    size_t gap_count;
};

/* Makes rows of a fit, and of replays of changes that no dry run tries. Release them. */
void mt_trial_rows_create(const struct mt_dry_fit *fit, const struct mt_program_changes *replayed,
                          struct mt_trial_rows *out);
void mt_trial_rows_release(struct mt_trial_rows *rows);

/* Adds the changes as a table names them: "autocast to bf16 + checkpointed blocks". */
void mt_dry_changes_add(const struct mt_dry_changes *changes, struct mt_text *out);
