/* Measures the blocks of a role, a module or a phase: the values of bounds that are about no category. Private to this
 * folder. */
#ifndef MT_ANALYSIS_CHECK_GROUPS_H
#define MT_ANALYSIS_CHECK_GROUPS_H

#include "analysis/run_question.h"

/* Find the bytes of a role that live at the allocated peak, of a module and of those within it, and the most that a phase had.
 * Fail with MT_USAGE for a role or phase that there is not, and for a module that the run has not: misspelled, a bound of it
 * would always be kept. */
mt_status mt_role_bytes(const struct mt_question *question, const char *role, uint64_t *out);
mt_status mt_module_bytes(const struct mt_question *question, const char *module, uint64_t *out);
mt_status mt_phase_bytes(const struct mt_question *question, const char *phase, uint64_t *out);

#endif
