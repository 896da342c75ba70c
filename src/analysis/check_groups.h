/* What blocks of a role, a module or a phase have: the values of bounds that are about no category. Private to this folder. */
#ifndef MT_ANALYSIS_CHECK_GROUPS_H
#define MT_ANALYSIS_CHECK_GROUPS_H

#include "analysis/check.h"

/* Finds the bytes that a bound of a role, module or phase is compared with. Fails with MT_USAGE for a role or phase that there
 * is not, and for a module that the run has not: misspelled, it would always be kept. */
mt_status mt_check_group_bytes(const struct mt_question *question, const struct mt_bound *bound, uint64_t *out);

#endif
