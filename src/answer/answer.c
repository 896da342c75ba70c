#include "answer/answer.h"

#include <stdio.h>

static const struct mt_field run_fields[] = {
    MT_INTEGER(struct mt_run, id, "run", NULL, "its number in the trace, from 1"),
    MT_TEXT(struct mt_run, name, "name", NULL, NULL),
    MT_TEXT(struct mt_run, state, "state", NULL, "running, done, failed, oom or interrupted"),
    MT_TEXT(struct mt_run, device, "device", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type run_type = MT_ROW_TYPE(struct mt_run, run_fields);

json_t *mt_answer_begin(const char *name, const struct mt_run *run)
{
    char schema[64];
    snprintf(schema, sizeof schema, "memtrace.%s/1", name);
    json_t *answer = json_pack("{s:s}", "schema", schema);
    mt_row_add_json(&run_type, run, answer);
    return answer;
}
