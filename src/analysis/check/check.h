/* Check: a run measured against a budget, criterion by criterion.
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/advise/observed.h"
#include "trace/query/leaks.h"

#define MT_NO_BOUND UINT64_MAX
#define MT_NO_TOLERANCE (-1.0)
#define MT_DEFAULT_TOLERANCE_PERCENT 1.0

/* The bytes that are bounded: of a category, role or module those live at the peak of allocated bytes, rounding included. */
typedef enum mt_bound_kind {
    MT_BOUND_LIVE,    /* of a category */
    MT_BOUND_LARGEST, /* requested by the largest allocation of a category */
    MT_BOUND_ROLE,
    MT_BOUND_MODULE, /* and of the modules within it; its path has "*" for the number of a layer */
    MT_BOUND_PHASE,  /* the most that was allocated in a phase */
    MT_BOUND_COUNT
} mt_bound_kind;

struct mt_bound {
    mt_bound_kind kind;
    char *name; /* of the category, role, module or phase */
    uint64_t bytes;
};

/* The demands on a run. Invariant: no two bounds are of one kind and name. */
struct mt_budget {
    uint64_t most_bytes[MT_MEASURE_COUNT]; /* of the peaks; MT_NO_BOUND: any */
    struct mt_bound *bounds;
    size_t bound_count;
    bool no_leaks;
    char *against;            /* a run, or FILE:RUN, for who opens it; NULL: none */
    double tolerance_percent; /* allowed above that run; MT_NO_TOLERANCE: the default */
    uint64_t floor_bytes;     /* allowed above it where the tolerance is less */
};

/* Returns a budget without demands. Release in any case. */
struct mt_budget mt_budget_empty(void);
void mt_budget_release(struct mt_budget *budget);

/* Sets a bound, in place of an earlier one of that kind and name. `name` is copied. */
void mt_budget_set_bound(struct mt_budget *budget, mt_bound_kind kind, const char *name, uint64_t bytes);

/* Sets the run to compare with. `against` is copied. */
void mt_budget_set_against(struct mt_budget *budget, const char *against);

/* True if the budget demands something of a run. */
bool mt_budget_demands(const struct mt_budget *budget);

/* Returns the percentage by which a run may exceed the one that it is compared with. */
double mt_budget_tolerance(const struct mt_budget *budget);

/* The subject of a criterion. */
typedef enum mt_criterion_kind {
    MT_CRITERION_ENDED,    /* the run ended well; always demanded */
    MT_CRITERION_PEAK,     /* one of the peaks */
    MT_CRITERION_CATEGORY, /* bytes of a category live at the allocated peak; relative: of those that grew too much */
    MT_CRITERION_LARGEST,  /* largest allocation of a category */
    MT_CRITERION_ROLE,     /* bytes of a role live at the allocated peak */
    MT_CRITERION_MODULE,   /* the same of a module */
    MT_CRITERION_PHASE,    /* the most that was allocated in a phase */
    MT_CRITERION_LEAKS     /* bytes that steps leave behind: value_bytes in all, bound_bytes 0 */
} mt_criterion_kind;

/* Invariant: but for MT_CRITERION_ENDED, passed = value_bytes <= bound_bytes. */
struct mt_criterion {
    mt_criterion_kind kind;
    mt_measure measure; /* of MT_CRITERION_PEAK */
    const char *name;   /* of the category, role, module or phase; otherwise "" */
    bool is_relative;   /* the bound comes of the run that is compared with */
    bool passed;
    uint64_t value_bytes, bound_bytes;
    uint64_t against_bytes; /* relative: of that run */
};

/* A category that is more at the allocated peak than the run that is compared with allows. */
struct mt_category_growth {
    const char *category; /* owned */
    uint64_t bytes, against_bytes;
};

/* The result of a check. Texts are borrowed from the budget and the questions, which must outlive it. Growth is told once:
 * against another run, categories and reserved bytes are criteria only if the allocated peak passes; otherwise categories
 * explain it, and reserved bytes grew with it.
 * Invariant: `failed` criteria did not pass. */
struct mt_check {
    const struct mt_budget *budget;
    const struct mt_question *question;
    const struct mt_question *against; /* NULL: none */
    struct mt_criterion *criteria;
    size_t count, failed;
    struct mt_category_growth *growths; /* the most first */
    size_t growth_count;
    struct mt_leaks leaks;               /* if the budget demands none */
    struct mt_observations observations; /* if there are leaks */
    bool leaks_unknown;                  /* the check failed since leaks could not be read */
};

/* True if the run ended well, so that it may serve as the measure of others. */
bool mt_run_ended_well(const struct mt_run *run);

/* Checks a run. Returns MT_OK also if criteria fail: see `failed`. Fails with MT_USAGE for a category, role, module or phase
 * that is neither ours nor of the run, and for leaks of a run that is too short to show any. `against`, NULL or another run, ended well. Release
 * in any case. */
mt_status mt_check_run(const struct mt_budget *budget, const struct mt_question *question,
                       const struct mt_question *against, struct mt_check *out);
void mt_check_release(struct mt_check *check);

/* A trial of the check itself: a budget that one run keeps must let it through, and stop a run that misses it. */
struct mt_check_trial {
    mt_criterion_kind kind;
    mt_measure measure; /* of MT_CRITERION_PEAK */
    bool is_relative;   /* the budget compares with another run */
    uint64_t bytes;     /* of a peak or category, the bound that is just kept; of leaks, those of a step */
    bool held;          /* the check did both */
};

/* Invariant: `broken` trials did not hold. */
enum { MT_MOST_CHECK_TRIALS = 16 };
struct mt_check_trials {
    struct mt_check_trial items[MT_MOST_CHECK_TRIALS];
    size_t count, broken;
};

/* Tries every criterion. Records runs that are alike, one that leaks and one that does not fit, in a folder that is removed
 * again, and checks them against budgets that they just keep and just miss. Fails if the runs could not be recorded or
 * read. */
mt_status mt_check_trials_run(struct mt_check_trials *out);
