/* An answer about a run, in JSON: {schema, run, name, state, device, …}. */
#ifndef MT_ANSWER_ANSWER_H
#define MT_ANSWER_ANSWER_H

#include "answer/row.h"
#include "trace/query/trace.h"

/* Returns the number of an answer's schema. It grows when a field of the answer changes its meaning or goes away. */
int mt_schema_number(const char *name);

/* Returns {schema: "memtrace.<name>/<number>"}; the caller releases it. */
json_t *mt_schema_json(const char *name);

/* Returns the members that every answer about a run begins with: schema, run, name, state, device. The caller releases
 * it. */
json_t *mt_answer_begin(const char *name, const struct mt_run *run);

#endif
