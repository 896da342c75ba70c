/* Reads budgets from the command line and from files. Both use the same names.
 *
 *   {"max-allocated": "52GiB", "max-reserved": "60GiB", "category": {"AttnScores": "40MiB"},
 *    "largest": {"Softmax": "1GiB"}, "no-leaks": true, "against": "baseline", "tolerance": "1%"} */
#pragma once

#include "analysis/check/check.h"

/* Returns "category", "largest", "role", …: the option without its dashes, and the key in a file. */
const char *mt_bound_kind_name(mt_bound_kind kind);

/* Adds the requirements of a file. Fails with MT_USAGE if it can't be read or is not a budget. */
mt_status mt_budget_read(const char *path, struct mt_budget *budget);

/* Adds "AttnScores<=40MiB", and replaces an earlier bound with the same name. Fails with MT_USAGE if `text` has another
 * form. */
mt_status mt_budget_add_bound(struct mt_budget *budget, mt_bound_kind kind, const char *text);

/* Fails with MT_USAGE if the budget has no requirement, or a tolerance without a run to compare with. */
mt_status mt_budget_check(const struct mt_budget *budget);
