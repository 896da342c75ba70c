/* What a run that ended out of device memory had. */
#ifndef MT_CLI_OOM_REPORT_H
#define MT_CLI_OOM_REPORT_H

#include "alloc/alloc.h"
#include "base/interner.h"
#include "base/text.h"

/* Adds the lines that follow the allocator's message: who asked for the block that could not be had, what was live by
 * category, what was given back in vain, and what to ask next of the trace that the run is in; NULL: it is in none.
 * `interner` knows the labels that the allocator was given. Adds nothing if every request was met. */
void mt_oom_report_add(const struct mt_alloc_refusal *refusal, const struct mt_interner *interner, const char *trace,
                       struct mt_text *out);

#endif
