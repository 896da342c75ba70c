/* Answers of the program to SQL. */
#pragma once

#include "program.h"

/* Returns the first column of the first row of a query on memtrace.db. Borrowed until the next one. */
static inline const char *ask_trace(const char *sql)
{
    static char answer[4096];
    json_t *table = json_of(shell("\"$M\" sql --json \"%s\"", sql));
    const json_t *value = json_array_get(json_array_get(json_object_get(table, "rows"), 0), 0);
    if (json_is_string(value))
        snprintf(answer, sizeof answer, "%s", json_string_value(value));
    else
        snprintf(answer, sizeof answer, "%lld", (long long)json_integer_value(value));
    json_decref(table);
    return answer;
}
