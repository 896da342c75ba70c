#include "page/page.h"

#include "answer/row.h"
#include "mt_page_shell.h"
#include "page/page_chunk.h"
#include "page/page_run.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_FORMAT = 3 };

/* The line of the shell that the chunks replace. */
static const char CHUNKS[] = "<!-- chunks -->\n";

/* ---- chunk 0: the description of the page and its runs, in JSON ---- */

/* Appends the names with the numbers from 1 to `count`. */
static void append_names(json_t *list, const struct mt_name_set *set, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++)
        json_array_append_new(list, mt_json_text(mt_name_set_name(set, i)));
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
        json_array_append_new(list, json_integer(mt_page_table_first(table, index, part)));
    return list;
}

static json_t *describe_column(const struct mt_page_table *table, size_t index)
{
    const struct mt_page_column *column = &table->columns[index];
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(column->name));
    json_object_set_new(object, "width", json_integer(table->shape[index].width));
    json_object_set_new(object, "coding", json_string(column->coding == MT_PAGE_DELTA ? "delta" : "plain"));
    json_object_set_new(object, "unit", json_integer(table->shape[index].unit));
    if (column->coding == MT_PAGE_DELTA)
        json_object_set_new(object, "first", list_firsts(table, index));
    return object;
}

static json_t *describe_table(const struct mt_page_table *table)
{
    json_t *object = json_object(), *columns = json_array();
    for (size_t i = 0; i < table->column_count; i++)
        json_array_append_new(columns, describe_column(table, i));
    json_object_set_new(object, "rows", json_integer(table->row_count));
    json_object_set_new(object, "part_rows", json_integer(MT_PAGE_PART_ROWS));
    json_object_set_new(object, "first_chunk", json_integer(table->first_chunk));
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
        json_array_append_new(pair, mt_json_text(rows[i].name));
        json_array_append_new(pair, mt_json_text(rows[i].value));
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
            json_object_set_new(one, "bytes", json_integer(peak.bytes));
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
    json_object_set_new(object, "trace", mt_json_text(source->path));
    json_object_set_new(object, "id", json_integer(run->id));
    json_object_set_new(object, "name", mt_json_text(run->name));
    json_object_set_new(object, "state", mt_json_text(run->state));
    json_object_set_new(object, "started_at", mt_json_text(run->started_at));
    json_object_set_new(object, "device", mt_json_text(run->device));
    json_object_set_new(object, "capacity_bytes", json_integer(run->capacity_bytes));
    json_object_set_new(object, "first_event", json_integer(run->first_event));
    json_object_set_new(object, "event_count", json_integer(run->event_count));
    json_object_set_new(object, "lost_events", json_integer(run->lost_events));
    json_object_set_new(object, "time_unit_ns", json_integer(page->time_unit_ns));
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
    json_object_set_new(object, "program", mt_json_text(plan->program));
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

/* ---- a set of chunks ---- */

/* The tables are written in two groups: those that the first picture needs, of every run, and then the rest. */
static const enum mt_page_table_id groups[] = {0, MT_PAGE_REST, MT_PAGE_TABLE_COUNT};
enum { GROUPS = sizeof groups / sizeof groups[0] - 1 };

static mt_status measure_tables(const struct mt_page_plan *plan, struct mt_page_run *runs)
{
    size_t next_chunk = 1; /* chunk 0 is the description */
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < plan->source_count; i++)
            MT_TRY(mt_page_run_measure(&runs[i], groups[group], groups[group + 1], &next_chunk));
    return MT_OK;
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

/* The runs of a plan, read and measured. */
struct data {
    struct mt_page_names names;
    struct mt_page_run runs[MT_PAGE_MOST_RUNS];
};

/* Release *out in any case. */
static mt_status load(const struct mt_page_plan *plan, struct data *out)
{
    mt_status status = MT_OK;
    *out = (struct data){.names = {0}};
    mt_page_names_create(&out->names);
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status = mt_page_run_load(plan->sources[i].trace, plan->sources[i].path, plan->sources[i].run, &out->names,
                                  &out->runs[i]);
    return status == MT_OK ? measure_tables(plan, out->runs) : status;
}

static void release(struct data *data)
{
    for (size_t i = 0; i < MT_PAGE_MOST_RUNS; i++)
        mt_page_run_release(&data->runs[i]);
    mt_page_names_release(&data->names);
}

/* ---- other ranks ---- */

/* Writes a rank's run as a set of its own. */
static mt_status write_rank(const struct mt_page_output *out, const struct mt_page_plan *plan,
                            const struct mt_rank *rank)
{
    struct mt_page_output set = *out;
    struct mt_page_plan alone = {.program = plan->program, .source_count = 1};
    struct mt_page_source *source = &alone.sources[0];
    snprintf(set.set, sizeof set.set, "rank%" PRId64 "-", rank->rank);
    source->path = rank->file;
    MT_TRY(mt_trace_open(rank->file, &source->trace));
    mt_status status = mt_trace_find_numbered(source->trace, rank->run, &source->run);
    if (status == MT_OK) {
        struct data data;
        status = load(&alone, &data);
        MT_THEN(status, write_chunks(&set, &alone, data.runs, &data.names));
        release(&data);
    }
    mt_trace_close(source->trace);
    return status;
}

static mt_status write_ranks(const struct mt_page_output *out, const struct mt_page_plan *plan)
{
    const struct mt_rank_job *job = plan->job->job;
    struct mt_page_rank *ranks;
    mt_status status = mt_page_ranks_read(plan->job, &ranks);
    MT_THEN(status, mt_page_ranks_write(out, plan->job, ranks));
    for (size_t i = 0; i < job->count && status == MT_OK; i++)
        if (ranks[i].is_whole && job->ranks[i].of->rank != plan->job->shown)
            status = write_rank(out, plan, job->ranks[i].of);
    free(ranks);
    return status;
}

/* ---- the page ---- */

/* Writes chunk 0 of the set "answers-". */
static mt_status write_answers(const struct mt_page_output *out, const char *answers)
{
    struct mt_page_output set = *out;
    snprintf(set.set, sizeof set.set, "answers-");
    return mt_page_chunk_write(&set, 0, answers, strlen(answers));
}

static mt_status write_page(const struct mt_page_output *out, const struct mt_page_plan *plan, const struct data *data)
{
    const char *chunks = strstr(mt_page_shell, CHUNKS);
    assert(chunks != NULL);
    out->write(out->context, mt_page_shell, (size_t)(chunks - mt_page_shell));
    mt_status status = write_chunks(out, plan, data->runs, &data->names);
    if (status == MT_OK && plan->job != NULL)
        status = write_ranks(out, plan);
    if (status == MT_OK && plan->answers != NULL)
        status = write_answers(out, plan->answers);
    mt_page_output_text(out, chunks + strlen(CHUNKS));
    return status;
}

mt_status mt_page_write(const struct mt_page_plan *plan, const struct mt_page_output *out)
{
    struct data data;
    assert(plan->source_count >= 1 && plan->source_count <= MT_PAGE_MOST_RUNS);
    assert(plan->job == NULL || plan->source_count == 1);
    mt_status status = load(plan, &data);
    MT_THEN(status, write_page(out, plan, &data));
    release(&data);
    return status;
}
