/* Check: compares a run with a budget, criterion by criterion.
 *
 * Threads: one at a time. */
#pragma once

#include "analysis/advise/observed.h"
#include "trace/query/leaks.h"

#define MT_NO_BOUND UINT64_MAX
#define MT_NO_TOLERANCE (-1.0)
#define MT_DEFAULT_TOLERANCE_PERCENT 1.0

/* What is bounded. For a category, role or module: bytes live at the peak of allocated bytes, rounding included. */
typedef enum mt_bound_kind {
    MT_BOUND_LIVE,    /* of a category */
    MT_BOUND_LARGEST, /* requested by the largest allocation of a category */
    MT_BOUND_ROLE,
    MT_BOUND_MODULE, /* including its submodules; its path has "*" for a layer's number */
    MT_BOUND_PHASE,  /* the peak of allocated bytes in a phase */
    MT_BOUND_COUNT
} mt_bound_kind;

struct mt_bound {
    mt_bound_kind kind;
    char *name; /* of the category, role, module or phase */
    uint64_t bytes;
};

/* Requirements for a run. Invariant: no two bounds have the same kind and name. */
struct mt_budget {
    uint64_t most_bytes[MT_MEASURE_COUNT]; /* of the peaks; MT_NO_BOUND: any */
    struct mt_bound *bounds;
    size_t bound_count;
    bool no_leaks;
    char *against;            /* a run, or FILE:RUN, which the caller opens; NULL: none */
    double tolerance_percent; /* allowed above that run, in percent; MT_NO_TOLERANCE: the default */
    uint64_t floor_bytes;     /* allowed above that run at least */
};

/* Returns a budget without requirements. Release in any case. */
struct mt_budget mt_budget_empty(void);
void mt_budget_release(struct mt_budget *budget);

/* Sets a bound, and replaces an earlier one of the same kind and name. Copies `name`. */
void mt_budget_set_bound(struct mt_budget *budget, mt_bound_kind kind, const char *name, uint64_t bytes);

/* Sets the run to compare with. Copies `against`. */
void mt_budget_set_against(struct mt_budget *budget, const char *against);

/* True if the budget has any requirement. */
bool mt_budget_demands(const struct mt_budget *budget);

/* Returns the percentage by which a run may exceed the run that it is compared with. */
double mt_budget_tolerance(const struct mt_budget *budget);

/* The subject of a criterion. */
typedef enum mt_criterion_kind {
    MT_CRITERION_ENDED,    /* the run ended well; always required */
    MT_CRITERION_PEAK,     /* one of the peaks */
    MT_CRITERION_CATEGORY, /* a category's live bytes at the allocated peak; relative: of those that grew */
    MT_CRITERION_LARGEST,  /* largest allocation of a category */
    MT_CRITERION_ROLE,     /* bytes of a role live at the allocated peak */
    MT_CRITERION_MODULE,   /* live bytes of a module at the allocated peak */
    MT_CRITERION_PHASE,    /* the peak of allocated bytes in a phase */
    MT_CRITERION_LEAKS     /* bytes that steps leave: value_bytes in total, bound_bytes 0, or as much for numbers */
} mt_criterion_kind;

/* Invariant: passed = value_bytes <= bound_bytes, except for MT_CRITERION_ENDED. */
struct mt_criterion {
    mt_criterion_kind kind;
    mt_measure measure; /* for MT_CRITERION_PEAK */
    const char *name;   /* of the category, role, module or phase; otherwise "" */
    bool is_relative;   /* the bound derives from another run */
    bool passed;
    uint64_t value_bytes, bound_bytes;
    uint64_t against_bytes; /* relative: the other run's bytes */
};

/* A category whose live bytes at the allocated peak exceed the tolerance above the other run. */
struct mt_category_growth {
    const char *category; /* owned */
    uint64_t bytes, against_bytes;
};

/* The result of a check. Borrows texts from the budget and the questions, which must outlive it. Growth is reported
 * only once: compared with another run, categories and reserved bytes are criteria only if the allocated peak passes.
 * Otherwise the categories explain the growth, and reserved bytes grew with it.
 * Invariant: `failed` is the number of criteria that did not pass. */
struct mt_check {
    const struct mt_budget *budget;
    const struct mt_question *question;
    const struct mt_question *against; /* NULL: none */
    struct mt_criterion *criteria;
    size_t count, failed;
    struct mt_category_growth *growths; /* largest first */
    size_t growth_count;
    struct mt_leaks leaks;               /* if the budget does not bound leaks */
    struct mt_observations observations; /* the same */
    bool leaks_are_numbers;              /* steps leave a few bytes each, or nothing */
    bool leaks_unknown;                  /* the check failed since leaks could not be read */
};

/* True if the run ended well, so that other runs may be compared with it. */
bool mt_run_ended_well(const struct mt_run *run);

/* Returns the first observation about a loop of the program's own code that keeps more in each iteration; NULL: there
 * is none. LBFGS's history does not count, since it has an end. */
const struct mt_observed *mt_check_growth(const struct mt_check *check);

/* Checks a run. Returns MT_OK also if criteria fail: see `failed`. Fails with MT_USAGE for a category, role, module or
 * phase that neither memtrace nor the run has, and for leaks of a run that is too short to show any. `against` is NULL
 * or another run that ended well. Release in any case. */
mt_status mt_check_run(const struct mt_budget *budget, const struct mt_question *question,
                       const struct mt_question *against, struct mt_check *out);
void mt_check_release(struct mt_check *check);

/* A self-test of the check: a budget must pass one run, and fail another. */
struct mt_check_trial {
    mt_criterion_kind kind;
    mt_measure measure; /* of MT_CRITERION_PEAK */
    bool is_relative;   /* the budget refers to another run */
    uint64_t bytes;     /* for a peak or category, the bound that just passes; for leaks, bytes per step */
    bool held;          /* the check did both */
};

/* Invariant: `broken` is the number of trials that did not hold. */
enum { MT_MOST_CHECK_TRIALS = 16 };
struct mt_check_trials {
    struct mt_check_trial items[MT_MOST_CHECK_TRIALS];
    size_t count, broken;
};

/* Tries every criterion. Records two equal runs, one that leaks and one that does not fit in a temporary folder, and
 * checks them against budgets that they just meet and just miss. Fails if the runs could not be recorded or read. */
mt_status mt_check_trials_run(struct mt_check_trials *out);
