/* What a run must keep to, as `check` is told on the command line or by a budget file: the same names in both.
 *
 *   {"max-allocated": "52GiB", "max-reserved": "60GiB", "category": {"AttnScores": "40MiB"},
 *    "largest": {"Softmax": "1GiB"}, "no-leaks": true, "against": "baseline", "tolerance": "1%"} */
#ifndef MT_CLI_CHECK_BUDGET_H
#define MT_CLI_CHECK_BUDGET_H

#include "base/status.h"
#include "trace/store/trace_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_NO_BOUND UINT64_MAX
#define MT_NO_TOLERANCE (-1.0)
#define MT_DEFAULT_TOLERANCE_PERCENT 1.0

/* What of a category is bounded. */
typedef enum mt_bound_kind {
    MT_BOUND_LIVE,   /* its bytes live at the peak of allocated bytes, rounding included */
    MT_BOUND_LARGEST /* its largest single allocation, as requested */
} mt_bound_kind;

/* "category", "largest": the option without its dashes, and the key. */
const char *mt_bound_kind_name(mt_bound_kind kind);

struct mt_category_bound {
    mt_bound_kind kind;
    char *category;
    uint64_t bytes;
};

/* Invariant: no two bounds are of one kind and category. */
struct mt_budget {
    uint64_t most_bytes[MT_MEASURE_COUNT]; /* of the peaks; MT_NO_BOUND: any */
    struct mt_category_bound *bounds;
    size_t bound_count;
    bool no_leaks;
    char *against;            /* a run, or FILE:RUN; NULL: none */
    double tolerance_percent; /* above that run's; MT_NO_TOLERANCE: the default */
};

/* Demands nothing. Release in any case. */
struct mt_budget mt_budget_empty(void);
void mt_budget_release(struct mt_budget *budget);

/* Adds what the file says. MT_USAGE if it can't be read or is no such file: only a run that was checked can fail. */
mt_status mt_budget_read(const char *path, struct mt_budget *budget);

/* Adds "AttnScores<=40MiB", in place of what was said of that category before. MT_USAGE if it is not so spelled. */
mt_status mt_budget_add_bound(struct mt_budget *budget, mt_bound_kind kind, const char *text);

/* Sets the run to compare with; copies. */
void mt_budget_set_against(struct mt_budget *budget, const char *against);

/* MT_USAGE if nothing is demanded, or a tolerance of nothing. */
mt_status mt_budget_check(const struct mt_budget *budget);

#endif
