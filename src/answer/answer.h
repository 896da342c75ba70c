/* An answer about a run, in JSON: {schema, run, name, state, device, …}. */
#pragma once

#include "answer/row.h"
#include "trace/query/trace.h"

/* Returns the number of an answer's schema. It grows when a field of the answer changes its meaning or goes away. */
int mt_schema_number(const char *name);

/* Returns {schema: "memtrace.<name>/<number>"}; the caller releases it. */
json_t *mt_schema_json(const char *name);

/* Returns the members that every answer about a run begins with: schema, run, name, state, device. The caller releases
 * it. */
json_t *mt_answer_begin(const char *name, const struct mt_run *run);
