#include "page/page.h"

#include "base/text.h"
#include "mt_page_shell.h"
#include "page/page_chunk.h"
#include "page/page_run.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_FORMAT = 3 };

/* The line of the shell that the chunks replace. */
static const char CHUNKS[] = "<!-- chunks -->\n";

/* ---- chunk 0: the description of the page and its runs, in JSON ---- */

/* Converts text of any encoding; NULL becomes null. */
static json_t *json_of_text(const char *text)
{
    if (text == NULL)
        return json_null();
    struct mt_text repaired = {0};
    mt_utf8_add_repaired(&repaired, text);
    json_t *json = json_string(mt_text_get(&repaired));
    mt_text_release(&repaired);
    return json;
}

static json_t *json_of_number(uint64_t number)
{
    return json_integer((json_int_t)number);
}

/* Appends the names with the numbers from 1 to `count`. */
static void append_names(json_t *list, const struct mt_name_set *set, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++)
        json_array_append_new(list, json_of_text(mt_name_set_name(set, i)));
}

static json_t *describe_phases(void)
{
    json_t *list = json_array();
    for (int i = 0; i < MT_PHASE_COUNT; i++)
        json_array_append_new(list, json_string(mt_phase_name((mt_phase)i)));
    return list;
}

/* Returns the first value of each chunk, which its differences begin with. */
static json_t *list_firsts(const struct mt_page_table *table, size_t index)
{
    json_t *list = json_array();
    for (size_t part = 0; part < mt_page_table_chunks(table); part++)
        json_array_append_new(list, json_of_number(mt_page_table_first(table, index, part)));
    return list;
}

static json_t *describe_column(const struct mt_page_table *table, size_t index)
{
    const struct mt_page_column *column = &table->columns[index];
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(column->name));
    json_object_set_new(object, "width", json_integer(table->shape[index].width));
    json_object_set_new(object, "coding", json_string(column->coding == MT_PAGE_DELTA ? "delta" : "plain"));
    json_object_set_new(object, "unit", json_of_number(table->shape[index].unit));
    if (column->coding == MT_PAGE_DELTA)
        json_object_set_new(object, "first", list_firsts(table, index));
    return object;
}

static json_t *describe_table(const struct mt_page_table *table)
{
    json_t *object = json_object(), *columns = json_array();
    for (size_t i = 0; i < table->column_count; i++)
        json_array_append_new(columns, describe_column(table, i));
    json_object_set_new(object, "rows", json_of_number(table->row_count));
    json_object_set_new(object, "part_rows", json_integer(MT_PAGE_PART_ROWS));
    json_object_set_new(object, "first_chunk", json_of_number(table->first_chunk));
    json_object_set_new(object, "columns", columns);
    return object;
}

static json_t *describe_tables(const struct mt_page_run *page)
{
    json_t *tables = json_object();
    for (int i = 0; i < MT_PAGE_TABLE_COUNT; i++)
        if (page->tables[i].name != NULL)
            json_object_set_new(tables, page->tables[i].name, describe_table(&page->tables[i]));
    return tables;
}

static mt_status describe_settings(const struct mt_page_source *source, json_t *object)
{
    struct mt_setting_row *rows = NULL;
    size_t count = 0;
    json_t *settings = json_array();
    mt_status status = mt_trace_settings(source->trace, source->run, &rows, &count);
    for (size_t i = 0; i < count; i++) {
        json_t *pair = json_array();
        json_array_append_new(pair, json_of_text(rows[i].name));
        json_array_append_new(pair, json_of_text(rows[i].value));
        json_array_append_new(settings, pair);
    }
    json_object_set_new(object, "settings", settings);
    free(rows);
    return status;
}

static mt_status describe_peaks(const struct mt_page_source *source, json_t *object)
{
    json_t *peaks = json_object();
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        struct mt_peak_row peak;
        status = mt_trace_peak(source->trace, source->run, (mt_measure)measure, &peak);
        if (status == MT_OK && peak.bytes > 0) {
            json_t *one = json_object();
            json_object_set_new(one, "bytes", json_of_number(peak.bytes));
            json_object_set_new(one, "event", json_integer(peak.event - source->run->first_event));
            json_object_set_new(peaks, mt_measure_name((mt_measure)measure), one);
        }
        mt_peak_row_release(&peak);
    }
    json_object_set_new(object, "peaks", peaks);
    return status;
}

static mt_status describe_run(const struct mt_page_source *source, const struct mt_page_run *page, json_t *runs)
{
    const struct mt_run *run = source->run;
    assert(page->run == run);
    json_t *object = json_object();
    json_object_set_new(object, "trace", json_of_text(source->path));
    json_object_set_new(object, "id", json_integer(run->id));
    json_object_set_new(object, "name", json_of_text(run->name));
    json_object_set_new(object, "state", json_of_text(run->state));
    json_object_set_new(object, "started_at", json_of_text(run->started_at));
    json_object_set_new(object, "device", json_of_text(run->device));
    json_object_set_new(object, "capacity_bytes", json_of_number(run->capacity_bytes));
    json_object_set_new(object, "first_event", json_integer(run->first_event));
    json_object_set_new(object, "event_count", json_integer(run->event_count));
    json_object_set_new(object, "lost_events", json_integer(run->lost_events));
    json_object_set_new(object, "time_unit_ns", json_of_number(page->time_unit_ns));
    json_object_set_new(object, "tables", describe_tables(page));
    json_array_append_new(runs, object);
    MT_TRY(describe_settings(source, object));
    return describe_peaks(source, object);
}

/* Makes the JSON of all runs: *out, which the caller frees. */
static mt_status describe(const struct mt_page_plan *plan, const struct mt_page_run *runs,
                          const struct mt_page_names *names, char **out)
{
    json_t *object = json_object(), *texts = json_array(), *categories = json_array(), *list = json_array();
    json_array_append_new(texts, json_string(""));
    append_names(texts, names->texts, names->text_count);
    append_names(categories, names->categories, names->category_count);
    json_object_set_new(object, "format", json_integer(PAGE_FORMAT));
    json_object_set_new(object, "program", json_of_text(plan->program));
    json_object_set_new(object, "texts", texts);
    json_object_set_new(object, "categories", categories);
    json_object_set_new(object, "phases", describe_phases());
    json_object_set_new(object, "runs", list);
    mt_status status = MT_OK;
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status = describe_run(&plan->sources[i], &runs[i], list);
    *out = status == MT_OK ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return status;
}

static mt_status write_description(const struct mt_page_output *out, const struct mt_page_plan *plan,
                                   const struct mt_page_run *runs, const struct mt_page_names *names)
{
    char *description;
    MT_TRY(describe(plan, runs, names, &description));
    mt_status status = mt_page_chunk_write(out, 0, description, strlen(description));
    free(description);
    return status;
}

/* ---- the page ---- */

/* The tables are written in two groups: those that the first picture needs, of every run, and then the rest. */
static const enum mt_page_table_id groups[] = {0, MT_PAGE_REST, MT_PAGE_TABLE_COUNT};
enum { GROUPS = sizeof groups / sizeof groups[0] - 1 };

static mt_status measure_tables(const struct mt_page_plan *plan, struct mt_page_run *runs)
{
    size_t next_chunk = 1; /* chunk 0 is the description */
    mt_status status = MT_OK;
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
            status = mt_page_run_measure(&runs[i], groups[group], groups[group + 1], &next_chunk);
    return status;
}

static mt_status write_chunks(const struct mt_page_output *out, const struct mt_page_plan *plan,
                              const struct mt_page_run *runs, const struct mt_page_names *names)
{
    mt_status status = write_description(out, plan, runs, names);
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
            status = mt_page_tables_write(out, &runs[i].tables[groups[group]], groups[group + 1] - groups[group]);
    return status;
}

static mt_status write_page(const struct mt_page_output *out, const struct mt_page_plan *plan,
                            const struct mt_page_run *runs, const struct mt_page_names *names)
{
    const char *chunks = strstr(mt_page_shell, CHUNKS);
    assert(chunks != NULL);
    out->write(out->context, mt_page_shell, (size_t)(chunks - mt_page_shell));
    mt_status status = write_chunks(out, plan, runs, names);
    mt_page_output_text(out, chunks + strlen(CHUNKS));
    return status;
}

mt_status mt_page_write(const struct mt_page_plan *plan, const struct mt_page_output *out)
{
    struct mt_page_names names;
    struct mt_page_run runs[MT_PAGE_MOST_RUNS] = {{0}};
    mt_status status = MT_OK;
    assert(plan->source_count >= 1 && plan->source_count <= MT_PAGE_MOST_RUNS);
    mt_page_names_create(&names);
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status =
            mt_page_run_load(plan->sources[i].trace, plan->sources[i].path, plan->sources[i].run, &names, &runs[i]);
    if (status == MT_OK)
        status = measure_tables(plan, runs);
    if (status == MT_OK)
        status = write_page(out, plan, runs, &names);
    for (size_t i = 0; i < MT_PAGE_MOST_RUNS; i++)
        mt_page_run_release(&runs[i]);
    mt_page_names_release(&names);
    return status;
}
