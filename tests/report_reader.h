/* Reads the page of `report --json`, and runs what it is made of. */
#pragma once

#include "program.h"

/* A model that runs in milliseconds, on a simulated card. */
#define TINY "run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 "
enum { TINY_BATCH = 2, TINY_WIDTH = 16 };

static inline json_t *section_of(const json_t *page, const char *key)
{
    size_t i;
    json_t *section;
    json_array_foreach(json_object_get(page, "sections"), i, section)
    {
        if (strcmp(text_of(section, "key"), key) == 0)
            return section;
    }
    fail_msg("there is no section %s", key);
    return NULL;
}

/* Returns the table of that key; NULL if the section has none. */
static inline json_t *table_of(const json_t *page, const char *section, const char *key)
{
    size_t i;
    json_t *table;
    json_array_foreach(json_object_get(section_of(page, section), "tables"), i, table)
    {
        if (strcmp(text_of(table, "key"), key) == 0)
            return table;
    }
    return NULL;
}

static inline size_t column_of(const json_t *table, const char *title)
{
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(table, "columns"), i, column)
    {
        if (strcmp(json_string_value(column), title) == 0)
            return i;
    }
    fail_msg("there is no column %s", title);
    return 0;
}

static inline json_t *rows_of(const json_t *table)
{
    assert_non_null(table);
    return json_object_get(table, "rows");
}

static inline json_t *cell_of(const json_t *table, size_t row, const char *column)
{
    json_t *cells = json_array_get(rows_of(table), row);
    assert_int_equal(json_array_size(cells), json_array_size(json_object_get(table, "columns")));
    return json_array_get(cells, column_of(table, column));
}

static inline const char *cell_text(const json_t *table, size_t row, const char *column)
{
    return text_of(cell_of(table, row, column), "text");
}

static inline json_int_t cell_bytes(const json_t *table, size_t row, const char *column)
{
    return integer_of(cell_of(table, row, column), "bytes");
}

/* Returns the row whose cell of that column has that text. */
static inline size_t row_of(const json_t *table, const char *column, const char *text)
{
    for (size_t row = 0; row < json_array_size(rows_of(table)); row++)
        if (strcmp(cell_text(table, row, column), text) == 0)
            return row;
    fail_msg("no row has %s %s", column, text);
    return 0;
}

/* True if a sentence of the section has that part. */
static inline bool is_said(const json_t *page, const char *section, const char *part)
{
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(section_of(page, section), "text"), i, text)
    {
        if (strstr(json_string_value(text), part) != NULL)
            return true;
    }
    return false;
}

static inline json_t *report(void)
{
    json_t *page = json_of(MEMTRACE("report --json"));
    assert_schema(page, "memtrace.report/1");
    return page;
}

static inline void run(const char *arguments)
{
    const struct said *said = shell("\"$M\" %s", arguments);
    if (said->code != 0)
        fail_msg("%s: exit code %d: %s", arguments, said->code, said->err);
}

static inline int set_up(void **state)
{
    *state = enter_folder("report");
    return 0;
}

static inline void run_both_precisions(void)
{
    run(TINY "--seq 8 --autocast off");
    run(TINY "--seq 8 --autocast bf16");
    run(TINY "--seq 32 --autocast off");
    run(TINY "--seq 32 --autocast bf16");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, leave_folder)
