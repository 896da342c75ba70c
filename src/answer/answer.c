#include "answer/answer.h"

#include <stdio.h>
#include <string.h>

static const struct mt_field run_fields[] = {
    MT_INTEGER(struct mt_run, id, "run", NULL, "its number in the trace, from 1"),
    MT_TEXT(struct mt_run, name, "name", NULL, NULL),
    MT_TEXT(struct mt_run, state, "state", NULL, "running, done, failed, oom, interrupted or damaged"),
    MT_TEXT(struct mt_run, device, "device", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type run_type = MT_ROW_TYPE(struct mt_run, run_fields);

/* Answers with a schema number above 1. */
static const struct {
    const char *name;
    int number;
} grown[] = {{"advise", 4},        {"categories", 2}, {"check", 2},       {"diff", 2},   {"export_blocks", 2},
             {"export_events", 2}, {"fit", 2},        {"fit_program", 2}, {"import", 2}, {"oom", 2},
             {"peak", 3},          {"run", 2},        {"top", 2}};

int mt_schema_number(const char *name)
{
    for (size_t i = 0; i < sizeof grown / sizeof grown[0]; i++)
        if (strcmp(grown[i].name, name) == 0)
            return grown[i].number;
    return 1;
}

json_t *mt_schema_json(const char *name)
{
    char schema[64];
    snprintf(schema, sizeof schema, "memtrace.%s/%d", name, mt_schema_number(name));
    return json_pack("{s:s}", "schema", schema);
}

json_t *mt_answer_begin(const char *name, const struct mt_run *run)
{
    json_t *answer = mt_schema_json(name);
    mt_row_add_json(&run_type, run, answer);
    return answer;
}
