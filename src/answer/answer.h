/* An answer about a run, in JSON: {schema, run, name, state, device, …}. */
#pragma once

#include "answer/row.h"
#include "trace/query/trace.h"

/* Returns the number of an answer's schema. It increases when a field changes its meaning or is removed. */
int mt_schema_number(const char *name);

/* Returns {schema: "memtrace.<name>/<number>"}; the caller releases it. */
json_t *mt_schema_json(const char *name);

/* Returns the members at the beginning of every answer about a run: schema, run, name, state, device. The caller
 * releases them. */
json_t *mt_answer_begin(const char *name, const struct mt_run *run);
