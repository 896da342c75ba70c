/* A check in words: what the screen, JSON, JUnit and Markdown all say. */
#pragma once

#include "analysis/check/check.h"
#include "answer/row.h"
#include "base/text.h"

/* The way in which the run was named, which the commands to ask next repeat. */
struct mt_check_place {
    const char *trace; /* its file; NULL: the usual one */
    bool names_run;
};

/* Adds the run that it is compared with: "run 2", "run 1 of main.db" if a file was named. */
void mt_check_add_against(const struct mt_check *check, struct mt_text *out);

/* Adds "run 3 (nightly)". */
void mt_check_add_run(const struct mt_check *check, struct mt_text *out);

/* Adds "run 3 (nightly) passes 5 criteria" or "run 3 (nightly) fails 2 of 5 criteria". */
void mt_check_add_verdict(const struct mt_check *check, struct mt_text *out);

/* Adds the criterion that passed with the least to spare: ": max-allocated comes nearest, with 51.32 GiB of 52.00 GiB".
 * Adds nothing if no bytes were bounded. */
void mt_check_add_nearest(const struct mt_check *check, struct mt_text *out);

/* A criterion with its words. Bytes are -1 of the run's end. */
struct mt_criterion_row {
    struct mt_criterion criterion;
    int64_t value_bytes, bound_bytes, over_bytes, against_bytes;
    struct mt_text name;    /* "max-allocated", "category AttnScores", "against run 1 of main.db: allocated" */
    struct mt_text finding; /* "54.10 GiB, over 52.00 GiB by 2.10 GiB (4.04 %)" */
};

/* Commands to ask next of a check that failed, and what they tell. */
enum { MT_MOST_CHECK_HINTS = 2 };
struct mt_check_hint {
    struct mt_text command; /* "memtrace top --at peak --run 3" */
    const char *tells;
};
struct mt_check_hints {
    struct mt_check_hint items[MT_MOST_CHECK_HINTS];
    size_t count;
};

/* The run that it is compared with. */
struct mt_check_against_row {
    struct mt_run run;
    const char *file; /* NULL: the same trace */
    double tolerance_percent;
    uint64_t floor_bytes;
    const struct mt_category_growth *growths; /* borrowed */
    size_t growth_count;
};

/* A check with its words, not to be copied. Invariant: criteria[i] is of check->criteria[i]. */
struct mt_check_row {
    const struct mt_check *check; /* borrowed */
    bool passed;
    int64_t failed;
    struct mt_criterion_row *criteria;
    size_t count;
    const struct mt_leaks *leaks;               /* NULL: not asked for */
    const struct mt_check_against_row *against; /* against_row; NULL: no run */
    struct mt_check_against_row against_row;
    /* The settings in which the runs differ, "seq 256 → 512, batch 4 → 8", and of how many one says nothing; "":
     * none. */
    struct mt_text differences;
    const char *differences_shown; /* the same text */
    struct mt_check_hints hints;
    json_t *next; /* the hints' commands */
};

/* Puts the check into words. Fails if the settings of the runs can't be read. Release in any case. */
mt_status mt_check_row_create(const struct mt_check *check, const struct mt_check_place *place,
                              struct mt_check_row *out);
void mt_check_row_release(struct mt_check_row *row);

/* Returns the check as JSON; the caller releases it. */
json_t *mt_check_json(const struct mt_check_row *row);

/* A trial of the check itself, and all of them. */
struct mt_check_trial_row {
    struct mt_text criterion, expected;
    bool held;
    const char *verdict;
};
struct mt_check_trials_row {
    bool works;
    struct mt_check_trial_row *rows;
    size_t count;
};

/* Puts the trials into words. Release the row. */
void mt_check_trials_row_create(const struct mt_check_trials *trials, struct mt_check_trials_row *out);
void mt_check_trials_row_release(struct mt_check_trials_row *row);

/* Describe the rows. Tables have the verdict on a trial as a field of their own. */
extern const struct mt_row_type mt_check_type, mt_criterion_type, mt_check_trials_type, mt_check_trial_type;
