/* memtrace runs: what a trace holds. */
#include "alloc/alloc.h"
#include "answer/table.h"
#include "base/text.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/way_out.h"

#include <stdlib.h>

static const struct mt_option options[] = {MT_TRACE_OPTIONS};

/* What is told of a run besides its row. */
struct summary {
    struct mt_setting_row *settings;
    size_t setting_count;
    uint64_t peak_bytes; /* allocated */
};

static mt_status load_summary(struct mt_question *question, struct summary *out)
{
    struct mt_peak_row peak = {0};
    *out = (struct summary){0};
    mt_status status = mt_trace_settings(question->trace, question->run, &out->settings, &out->setting_count);
    if (status == MT_OK)
        status = mt_trace_peak(question->trace, question->run, MT_MEASURE_ALLOCATED, &peak);
    out->peak_bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return status;
}

static json_t *run_json(const struct mt_run *run, const struct summary *summary)
{
    json_t *settings = json_object();
    for (size_t i = 0; i < summary->setting_count; i++)
        json_object_set_new(settings, summary->settings[i].name, mt_json_text(summary->settings[i].value));
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "run", (json_int_t)run->id,
                     "name", mt_json_text(run->name), "state", mt_json_text(run->state), "started_at",
                     mt_json_text(run->started_at), "device", mt_json_text(run->device), "capacity_bytes",
                     (json_int_t)run->capacity_bytes, "steps", (json_int_t)run->steps, "events",
                     (json_int_t)run->event_count, "lost_events", (json_int_t)run->lost_events, "stall_count",
                     (json_int_t)run->stall_count, "stall_ns", (json_int_t)run->stall_ns, "allocated_bytes",
                     (json_int_t)summary->peak_bytes, "settings", settings);
}

/* As short as --alloc takes it; nothing for a run that was imported without it. */
static void add_allocator(struct mt_table *table, const struct summary *summary)
{
    struct mt_alloc_settings settings;
    struct mt_text text = {0};
    const char *alloc = mt_setting_find(summary->settings, summary->setting_count, "alloc");
    if (alloc[0] != '\0' && mt_alloc_settings_parse(alloc, &settings) == MT_OK)
        mt_alloc_settings_format_short(&settings, &text);
    mt_table_add(table, mt_text_get(&text));
    mt_text_release(&text);
}

static void add_row(struct mt_table *table, const struct mt_run *run, const struct summary *summary)
{
    mt_table_add_number(table, run->id);
    mt_table_add(table, run->name != NULL ? run->name : "");
    mt_table_add(table, run->state);
    mt_table_add(table, run->started_at);
    mt_table_add(table, run->device);
    static const char *const settings[] = {"model", "impl", "batch", "seq", "mode", "autocast"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        mt_table_add(table, mt_setting_find(summary->settings, summary->setting_count, settings[i]));
    add_allocator(table, summary);
    mt_table_add_number(table, run->steps);
    mt_table_add_number(table, run->event_count);
    mt_table_add_bytes(table, summary->peak_bytes);
}

/* Where the runs go: the form that is not asked for is NULL. */
struct listing {
    struct mt_table *table;
    json_t *rows;
};

static mt_status list_run(void *context, struct mt_trace *trace, const struct mt_run *run)
{
    struct listing *listing = context;
    struct summary summary;
    mt_status status = load_summary(&(struct mt_question){.trace = trace, .run = run}, &summary);
    if (status == MT_OK && listing->rows != NULL)
        json_array_append_new(listing->rows, run_json(run, &summary));
    else if (status == MT_OK)
        add_row(listing->table, run, &summary);
    free(summary.settings);
    return status;
}

static mt_status print_table(struct mt_trace *trace, const char *which)
{
    static const struct mt_column columns[] = {
        {"run", MT_ALIGN_RIGHT},    {"name", MT_ALIGN_LEFT},     {"state", MT_ALIGN_LEFT},
        {"started", MT_ALIGN_LEFT}, {"device", MT_ALIGN_LEFT},   {"model", MT_ALIGN_LEFT},
        {"impl", MT_ALIGN_LEFT},    {"batch", MT_ALIGN_RIGHT},   {"seq", MT_ALIGN_RIGHT},
        {"mode", MT_ALIGN_LEFT},    {"autocast", MT_ALIGN_LEFT}, {"alloc", MT_ALIGN_LEFT},
        {"steps", MT_ALIGN_RIGHT},  {"events", MT_ALIGN_RIGHT},  {"peak allocated", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"events", "alloc", "started", "impl",     "steps",
                                        "device", "mode",  "batch",   "autocast", NULL};
    struct listing listing = {.table = mt_table_create(columns, sizeof columns / sizeof columns[0])};
    mt_table_spare(listing.table, spare);
    mt_status status = mt_runs_visit(trace, which, list_run, &listing);
    if (status == MT_OK)
        mt_table_print(listing.table);
    mt_table_destroy(listing.table);
    return status;
}

static mt_status print_json(struct mt_trace *trace, const char *which)
{
    struct listing listing = {.rows = json_array()};
    mt_status status = mt_runs_visit(trace, which, list_run, &listing);
    json_t *answer = json_pack("{s:s, s:o}", "schema", "memtrace.runs/1", "rows", listing.rows);
    if (status == MT_OK)
        mt_json_print(answer);
    else
        json_decref(answer);
    return status;
}

static mt_status run_runs(const void *given)
{
    const struct mt_trace_options *options_given = given;
    struct mt_trace *trace;
    mt_status status = mt_trace_open_to_ask(options_given->trace, &trace);
    if (status != MT_OK)
        return status;
    status = (options_given->json ? print_json : print_table)(trace, options_given->run);
    mt_trace_close(trace);
    return status;
}

const struct mt_command mt_command_runs = {
    .name = "runs",
    .summary = "Lists the runs of a trace, oldest first.",
    .usage = "[OPTIONS]",
    .examples = "  memtrace runs\n"
                "  memtrace runs --json\n",
    .options = options,
    .defaults = &(const struct mt_trace_options){.trace = MT_DEFAULT_TRACE},
    .options_bytes = sizeof(struct mt_trace_options),
    .run = run_runs,
};
