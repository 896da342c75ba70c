/* memtrace runs: lists the runs of a trace. */
#include "alloc/alloc.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/caveat_rows.h"

#include <stdlib.h>

static const struct mt_option options[] = {MT_RUN_ARGUMENT, MT_TRACE_OPTIONS};

/* A run, for the answer. */
struct run_row {
    struct mt_run run;
    struct mt_caveat_lists caveats;
    uint64_t peak_bytes; /* allocated */
    json_t *settings;
    const char *model, *impl, *batch, *seq, *mode, *autocast;
    struct mt_text alloc; /* in the short form of --alloc; empty for a run that was imported without it */
    const char *alloc_shown;
};

static const struct mt_field row_fields[] = {
    MT_INTEGER(struct run_row, run.id, "run", "run", NULL),
    MT_TEXT(struct run_row, run.name, "name", "name", NULL),
    MT_TEXT(struct run_row, run.state, "state", "state", NULL),
    MT_TEXT(struct run_row, run.started_at, "started_at", "started", "UTC"),
    MT_TEXT(struct run_row, run.device, "device", "device", NULL),
    MT_BYTES(struct run_row, run.capacity_bytes, "capacity_bytes", NULL, NULL),
    MT_KNOWN(struct run_row, run.rank, "rank", "rank", "of the process in its job"),
    MT_KNOWN(struct run_row, run.local_rank, "local_rank", NULL, "of the process on its host"),
    MT_KNOWN(struct run_row, run.world_size, "world_size", NULL, "processes of the job"),
    MT_NAME(struct run_row, run.host, "host", "host", "that recorded it"),
    MT_NAME(struct run_row, run.job, "job", NULL, "the same for all its ranks"),
    MT_POSITIVE(struct run_row, run.pid, "pid", NULL, "of the process that recorded it"),
    MT_INTEGER(struct run_row, run.steps, "steps", "steps", NULL),
    MT_INTEGER(struct run_row, run.event_count, "events", "events", NULL),
    MT_INTEGER(struct run_row, run.lost_events, "lost_events", NULL, "not stored"),
    MT_INTEGER(struct run_row, run.missing_records, "missing_records", NULL,
               "of its last moments, damaged when it was recovered"),
    MT_INTEGER(struct run_row, run.stall_count, "stall_count", NULL, "waits of the program for the disk"),
    MT_INTEGER(struct run_row, run.stall_ns, "stall_ns", NULL, NULL),
    MT_BYTES(struct run_row, peak_bytes, "allocated_bytes", "peak allocated", "the peak"),
    MT_VALUE(struct run_row, settings, "settings", NULL, "an object: every setting by name, as text"),
    MT_PART(struct run_row, caveats, &mt_caveat_lists_type),
    MT_SHOWN(NAME, const char *, struct run_row, run.ended_by, "end", "ended by"),
    MT_SHOWN(TEXT, const char *, struct run_row, model, "model", "model"),
    MT_SHOWN(TEXT, const char *, struct run_row, impl, "impl", "impl"),
    MT_SHOWN(DIGITS, const char *, struct run_row, batch, "batch", "batch"),
    MT_SHOWN(DIGITS, const char *, struct run_row, seq, "seq", "seq"),
    MT_SHOWN(TEXT, const char *, struct run_row, mode, "mode", "mode"),
    MT_SHOWN(TEXT, const char *, struct run_row, autocast, "autocast", "autocast"),
    MT_SHOWN(TEXT, const char *, struct run_row, alloc_shown, "alloc", "alloc"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct run_row, row_fields);

struct runs_answer {
    struct run_row *rows;
    size_t count;
};
static const struct mt_field answer_fields[] = {
    MT_ROWS(struct runs_answer, rows, count, "rows", &row_type, "the oldest first"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct runs_answer, answer_fields);

static void read_settings(const struct mt_setting_row *settings, size_t count, struct run_row *out)
{
    const struct {
        const char *name, **text;
    } shown[] = {{"model", &out->model}, {"impl", &out->impl}, {"batch", &out->batch},
                 {"seq", &out->seq},     {"mode", &out->mode}, {"autocast", &out->autocast}};
    struct mt_alloc_settings alloc;
    const char *text = mt_setting_find(settings, count, "alloc");
    out->settings = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(out->settings, settings[i].name, mt_json_text(settings[i].value));
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        *shown[i].text = mt_setting_find(settings, count, shown[i].name);
    if (text[0] != '\0' && mt_alloc_settings_parse(text, &alloc) == MT_OK)
        mt_alloc_settings_format_short(&alloc, &out->alloc);
    out->alloc_shown = mt_text_get(&out->alloc);
}

static mt_status add_run(void *context, struct mt_trace *trace, const struct mt_run *run)
{
    struct runs_answer *answer = context;
    struct mt_setting_row *settings = NULL;
    size_t setting_count = 0;
    answer->rows = mt_host_room(answer->rows, answer->count, sizeof *answer->rows);
    struct run_row *row = &answer->rows[answer->count++];
    *row = (struct run_row){.run = *run};
    mt_status status = mt_trace_settings(trace, run, &settings, &setting_count);
    MT_THEN(status, mt_trace_peak_bytes(trace, run, MT_MEASURE_ALLOCATED, &row->peak_bytes));
    MT_THEN(status, mt_caveat_lists_load(trace, run, &row->caveats));
    read_settings(settings, setting_count, row);
    free(settings);
    mt_note_missing(run);
    return status;
}

static void release(struct runs_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        json_decref(answer->rows[i].settings);
        mt_text_release(&answer->rows[i].alloc);
        mt_caveat_lists_release(&answer->rows[i].caveats);
    }
    free(answer->rows);
}

static bool has_ranks(const struct runs_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        if (answer->rows[i].run.rank >= 0)
            return true;
    return false;
}

static bool has_ends(const struct runs_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        if (answer->rows[i].run.ended_by != NULL)
            return true;
    return false;
}

/* Prints the table, with ranks and hosts if a run has a rank, and with the reasons why runs ended if known. */
static void print_table(const struct runs_answer *answer)
{
    struct mt_text columns = {0};
    mt_text_add(&columns,
                "run name %sstate %sstarted_at device model impl batch seq mode autocast alloc steps events"
                " allocated_bytes",
                has_ranks(answer) ? "rank host " : "", has_ends(answer) ? "end " : "");
    mt_rows_print(&row_type, mt_text_get(&columns), "events alloc started_at impl steps device mode batch autocast",
                  answer->rows, answer->count);
    mt_text_release(&columns);
}

static mt_status run_runs(const void *given)
{
    const struct mt_trace_options *asked = given;
    struct runs_answer answer = {0};
    struct mt_trace *trace;
    MT_TRY(mt_trace_open_to_ask(asked->trace, &trace));
    mt_status status = mt_runs_visit(trace, asked->run, add_run, &answer);
    if (status == MT_OK && asked->json)
        mt_answer_print_json("runs", &answer_type, &answer);
    else if (status == MT_OK)
        print_table(&answer);
    release(&answer);
    mt_trace_close(trace);
    return status;
}

const struct mt_command mt_command_runs = {
    .name = "runs",
    .summary = "Lists the runs of a trace, oldest first.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .examples = "  memtrace runs\n"
                "  memtrace runs --json\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &answer_type,
    .run = run_runs,
};
