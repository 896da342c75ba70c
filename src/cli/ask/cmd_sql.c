/* memtrace sql: runs an SQL query. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/run_word.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct sql_options {
    struct mt_trace_options trace;
    const char *query;
    bool csv;
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct sql_options, query, "QUERY",
              .help = "one statement that only reads; :run is the number of the run"),
    MT_OPTION(FLAG, struct sql_options, csv, "--csv", .help = "print comma-separated values"),
    MT_TRACE_OPTIONS,
};

/* The destination of rows: a table or JSON. The other one's members are zero. */
struct listing {
    struct mt_column *columns;
    char **titles; /* copies, since the statement is finished when the table is printed */
    size_t count;
    struct mt_table *table;
    bool has_rows;
    struct mt_json_stream json;
};

enum { VALUE_TEXT = 64 };

/* Returns the value as text, for tables and CSV. A number is written into `text`, of VALUE_TEXT bytes. */
static const char *value_text(const struct mt_sql_value *value, char *text)
{
    switch (value->type) {
    case MT_SQL_INTEGER:
        snprintf(text, VALUE_TEXT, "%" PRId64, value->integer);
        return text;
    case MT_SQL_REAL:
        snprintf(text, VALUE_TEXT, "%.15g", value->real);
        return text;
    case MT_SQL_TEXT:
    case MT_SQL_BLOB:
        return value->text;
    case MT_SQL_NULL:
        break;
    }
    return "";
}

static mt_status begin_table(void *context, size_t count, const char *const *names)
{
    struct listing *listing = context;
    listing->count = count;
    listing->columns = mt_host_alloc(count * sizeof *listing->columns);
    listing->titles = mt_host_alloc(count * sizeof *listing->titles);
    for (size_t i = 0; i < count; i++) {
        struct mt_text title = {0};
        mt_text_add_visible(&title, names[i]);
        listing->titles[i] = mt_host_strdup(mt_text_get(&title));
        listing->columns[i] = (struct mt_column){listing->titles[i], MT_ALIGN_LEFT};
        mt_text_release(&title);
    }
    listing->table = mt_table_create(listing->columns, count);
    return MT_OK;
}

static mt_status print_table_row(void *context, size_t count, const struct mt_sql_value *values)
{
    struct listing *listing = context;
    char text[VALUE_TEXT];
    for (size_t i = 0; i < count; i++) {
        /* SQL has no types of columns; the first row shows them. */
        if (!listing->has_rows && (values[i].type == MT_SQL_INTEGER || values[i].type == MT_SQL_REAL))
            listing->columns[i].align = MT_ALIGN_RIGHT;
        mt_table_add(listing->table, value_text(&values[i], text));
    }
    listing->has_rows = true;
    return mt_output_go_on();
}

static mt_status begin_csv(void *context, size_t count, const char *const *names)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        mt_csv_print(names[i], i + 1 < count ? ',' : '\n');
    return MT_OK;
}

static mt_status print_csv_row(void *context, size_t count, const struct mt_sql_value *values)
{
    (void)context;
    char text[VALUE_TEXT];
    for (size_t i = 0; i < count; i++)
        mt_csv_print(value_text(&values[i], text), i + 1 < count ? ',' : '\n');
    return mt_output_go_on();
}

static mt_status begin_json(void *context, size_t count, const char *const *names)
{
    struct listing *listing = context;
    json_t *columns = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(columns, mt_json_text(names[i]));
    mt_json_stream_begin(&listing->json, json_pack("{s:s, s:o}", "schema", "memtrace.sql/1", "columns", columns),
                         "rows");
    return MT_OK;
}

static json_t *value_json(const struct mt_sql_value *value)
{
    switch (value->type) {
    case MT_SQL_INTEGER:
        return json_integer(value->integer);
    case MT_SQL_REAL:
        return mt_json_number(value->real);
    case MT_SQL_TEXT:
    case MT_SQL_BLOB:
        return mt_json_text(value->text);
    case MT_SQL_NULL:
        break;
    }
    return json_null();
}

static mt_status print_json_row(void *context, size_t count, const struct mt_sql_value *values)
{
    struct listing *listing = context;
    json_t *row = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(row, value_json(&values[i]));
    mt_json_stream_row(&listing->json, row);
    return mt_output_go_on();
}

static void listing_release(struct listing *listing)
{
    mt_table_destroy(listing->table);
    for (size_t i = 0; i < listing->count; i++)
        free(listing->titles[i]);
    free(listing->titles);
    free(listing->columns);
}

static mt_status answer(const struct mt_question *question, const struct sql_options *sql)
{
    struct listing listing = {0};
    struct mt_sql_visitor visitor = {&listing, begin_table, print_table_row};
    if (sql->trace.json)
        visitor = (struct mt_sql_visitor){&listing, begin_json, print_json_row};
    if (sql->csv)
        visitor = (struct mt_sql_visitor){&listing, begin_csv, print_csv_row};
    mt_status status = mt_trace_sql(question->trace, question->run, sql->query, &visitor);
    if (status == MT_OK && listing.table != NULL)
        mt_table_print(listing.table);
    if (status == MT_OK && sql->trace.json)
        mt_json_stream_end(&listing.json);
    listing_release(&listing);
    return status;
}

static mt_status run_sql(const void *given)
{
    const struct sql_options *sql = given;
    if (sql->query == NULL)
        return mt_fail(MT_USAGE, "sql needs a query: memtrace sql 'SELECT id, state FROM run'");
    if (mt_run_word_is(sql->query))
        return mt_run_word_hint(sql->query, mt_fail(MT_USAGE, "\"%s\" is no query", sql->query));
    if (sql->csv && sql->trace.json)
        return mt_fail(MT_USAGE, "--csv and --json exclude each other");
    struct mt_question question = {0};
    mt_status status = mt_trace_open_to_ask(sql->trace.trace, &question.trace);
    if (status != MT_OK)
        return status;
    size_t run_count;
    mt_trace_runs(question.trace, &run_count);
    if (sql->trace.run != NULL || run_count > 0)
        status = mt_trace_find_run(question.trace, sql->trace.run, &question.run);
    MT_THEN(status, answer(&question, sql));
    mt_question_close(&question);
    return mt_output_broken() ? MT_OK : status;
}

const struct mt_command mt_command_sql = {
    .name = "sql",
    .summary = "Runs an SQL query on a trace, which is opened read-only.",
    .usage = "QUERY [OPTIONS]",
    .details =
        "docs/schema.md explains the tables. The rows of a run have its number in the column run. Its events start\n"
        "at run.first_event; run.event_count is their number. Long texts are cut where the terminal is too narrow;\n"
        "pipes, --csv and --json get them whole.\n",
    .examples = "  memtrace sql 'SELECT id, device, state FROM run'\n"
                "  memtrace sql 'SELECT name, value FROM setting WHERE run = :run' --csv\n"
                "  memtrace sql \"SELECT step, value FROM measurement WHERE name = 'loss'\" --json\n",
    .options = options,
    MT_OPTIONS_OF(struct sql_options, .trace.trace = MT_DEFAULT_TRACE),
    .run = run_sql,
};
