/* An answer about a run, in JSON: {schema, run, name, state, device, …}. */
#ifndef MT_ANSWER_ANSWER_H
#define MT_ANSWER_ANSWER_H

#include "answer/row.h"
#include "trace/query/trace.h"

/* Returns the members that every answer about a run begins with; schema is "memtrace.<name>/1". The caller releases it. */
json_t *mt_answer_begin(const char *name, const struct mt_run *run);

#endif
