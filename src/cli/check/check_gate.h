/* The gate: a run measured against a budget, criterion by criterion. */
#ifndef MT_CLI_CHECK_GATE_H
#define MT_CLI_CHECK_GATE_H

#include "cli/check/check_budget.h"
#include "cli/output/question.h"
#include "trace/query/leaks.h"

/* What a criterion looks at. */
typedef enum mt_criterion_kind {
    MT_CRITERION_ENDED,    /* whether the run ended well; demanded always */
    MT_CRITERION_PEAK,     /* one of the peaks */
    MT_CRITERION_CATEGORY, /* bytes of a category live at the allocated peak */
    MT_CRITERION_LARGEST,  /* largest allocation of a category */
    MT_CRITERION_LEAKS     /* what steps leave behind: value_bytes in all, bound_bytes 0 */
} mt_criterion_kind;

/* Invariant: but for MT_CRITERION_ENDED, passed = value_bytes <= bound_bytes. */
struct mt_criterion {
    mt_criterion_kind kind;
    mt_measure measure;   /* of MT_CRITERION_PEAK */
    const char *category; /* of a category; otherwise "" */
    bool is_relative;     /* whether the bound comes of the run that is compared with */
    bool passed;
    uint64_t value_bytes, bound_bytes;
};

/* Adds what a user calls it: "max-allocated", "category AttnScores", "against run 1 of main.db: AttnScores". */
struct mt_check;
void mt_criterion_add_name(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out);

/* What came of a check. Texts are borrowed from the budget and the questions, which must outlive it.
 * Invariant: failed is how many of the criteria did not pass. */
struct mt_check {
    const struct mt_budget *budget;
    const struct mt_question *question;
    const struct mt_question *against; /* NULL: none */
    struct mt_criterion *criteria;
    size_t count, failed;
    struct mt_leaks leaks; /* of a run that was asked for them */
};

/* Checks. MT_OK also where criteria fail: see `failed`. MT_USAGE for a category that there is not, a run that is compared
 * with itself or with one that did not end well, and leaks of a run that is too short to show any. Release in any
 * case. */
mt_status mt_check_run(const struct mt_budget *budget, const struct mt_question *question,
                       const struct mt_question *against, struct mt_check *out);
void mt_check_release(struct mt_check *check);

/* Adds which run it is compared with, if it is: "run 2", "run 1 of main.db" where a file was named. */
void mt_check_add_against(const struct mt_check *check, struct mt_text *out);

/* Percent that a run may have more than the one it is compared with. */
double mt_budget_tolerance(const struct mt_budget *budget);

#endif
