/* memtrace steps: how long steps took, run by run. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/way_out.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct steps_options {
    struct mt_trace_options trace;
    bool full;
};

static const struct mt_option options[] = {
    {.name = "--full",
     .help = "a row for each phase, with median, minimum and maximum",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct steps_options, full)},
    MT_TRACE_OPTIONS,
};

/* Where the runs go. */
struct listing {
    void (*add)(struct listing *listing, const struct mt_run *run, const struct mt_steps_row *steps);
    struct mt_table *table; /* NULL: `rows` */
    json_t *rows;           /* NULL: `table` */
    bool has_estimates;
};

/* Whether the times are the roofline's. */
static bool is_estimated(const struct mt_run *run)
{
    return mt_device_is_simulated(run->device);
}

static bool is_oom(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_OOM);
}

/* "12.3 ± 0.4", "12.3" where there was one step, "OOM", "-" for a phase that the run does not have. */
static void add_time(struct mt_table *table, const struct mt_run *run, const struct mt_time_statistics *time)
{
    char text[2 * MT_BYTES_TEXT];
    if (time->count == 0)
        snprintf(text, sizeof text, "%s", is_oom(run) ? "OOM" : "-");
    else if (time->count == 1)
        snprintf(text, sizeof text, "%.2f", time->mean);
    else
        snprintf(text, sizeof text, "%.2f ± %.2f", time->mean, time->deviation);
    mt_table_add(table, text);
}

static void add_number(struct mt_table *table, double ms)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, isnan(ms) ? "-" : "%.3f", ms);
    mt_table_add(table, text);
}

/* What a reader must know of the run's times. */
static void add_note(struct mt_table *table, const struct mt_run *run, const struct mt_steps_row *steps)
{
    struct mt_text note = {0};
    char asked[MT_BYTES_TEXT];
    if (is_oom(run) && steps->oom_bytes >= 0)
        mt_text_add(&note, "OOM: %s asked for %s in %s", mt_format_bytes((uint64_t)steps->oom_bytes, asked),
                    steps->oom_category, steps->oom_phase);
    else if (!mt_run_is(run, MT_RUN_DONE))
        mt_text_add(&note, "%s", run->state);
    if (is_estimated(run))
        mt_text_add(&note, note.length > 0 ? "; estimate" : "estimate");
    mt_table_add(table, mt_text_get(&note));
    mt_text_release(&note);
}

static void add_settings(struct mt_table *table, const struct mt_run *run, const struct mt_steps_row *steps)
{
    mt_table_add_number(table, run->id);
    mt_table_add(table, run->name != NULL ? run->name : "");
    mt_table_add(table, run->device);
    mt_table_add(table, steps->model);
    mt_table_add(table, steps->batch);
    mt_table_add(table, steps->seq);
    mt_table_add(table, steps->mode);
    mt_table_add(table, steps->precision);
    mt_table_add_number(table, steps->warmup);
}

#define SETTINGS_COLUMNS                                                                                               \
    {"run", MT_ALIGN_RIGHT}, {"name", MT_ALIGN_LEFT}, {"device", MT_ALIGN_LEFT}, {"model", MT_ALIGN_LEFT},             \
        {"batch", MT_ALIGN_RIGHT}, {"seq", MT_ALIGN_RIGHT}, {"mode", MT_ALIGN_LEFT}, {"precision", MT_ALIGN_LEFT},     \
    {                                                                                                                  \
        "warm-up", MT_ALIGN_RIGHT                                                                                      \
    }

/* The columns that both tables can spare first. */
#define SPARE_SETTINGS "warm-up", "device", "mode", "batch", "steps", "model", "seq", "note", "precision", "name"

static void add_run(struct listing *listing, const struct mt_run *run, const struct mt_steps_row *steps)
{
    static const mt_timed_part parts[] = {MT_TIMED_FORWARD, MT_TIMED_BACKWARD, MT_TIMED_OPTIMIZER, MT_TIMED_STEP};
    add_settings(listing->table, run, steps);
    mt_table_add_number(listing->table, steps->part[MT_TIMED_STEP].count);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add_time(listing->table, run, &steps->part[parts[i]]);
    add_note(listing->table, run, steps);
}

static void add_phases(struct listing *listing, const struct mt_run *run, const struct mt_steps_row *steps)
{
    for (int part = 0; part < MT_TIMED_PART_COUNT; part++) {
        const struct mt_time_statistics *time = &steps->part[part];
        if (time->count == 0 && part != MT_TIMED_STEP)
            continue;
        add_settings(listing->table, run, steps);
        mt_table_add_number(listing->table, time->count);
        mt_table_add(listing->table, mt_timed_part_name((mt_timed_part)part));
        const double numbers[] = {time->mean, time->deviation, time->median, time->minimum, time->maximum};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            add_number(listing->table, numbers[i]);
        add_note(listing->table, run, steps);
    }
}

static json_t *time_json(const struct mt_time_statistics *time)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "count", (json_int_t)time->count, "mean",
                     mt_json_number(time->mean), "std", mt_json_number(time->deviation), "median",
                     mt_json_number(time->median), "min", mt_json_number(time->minimum), "max",
                     mt_json_number(time->maximum));
}

static json_t *oom_json(const struct mt_steps_row *steps)
{
    if (steps->oom_bytes < 0)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o}", "requested_bytes", (json_int_t)steps->oom_bytes, "category",
                     mt_json_text(steps->oom_category), "phase", mt_json_text(steps->oom_phase), "span",
                     mt_json_text(steps->oom_span));
}

static void add_json(struct listing *listing, const struct mt_run *run, const struct mt_steps_row *steps)
{
    json_t *ms = json_object();
    for (int part = 0; part < MT_TIMED_PART_COUNT; part++)
        json_object_set_new(ms, mt_timed_part_name((mt_timed_part)part), time_json(&steps->part[part]));
    json_array_append_new(listing->rows,
                          json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:o, s:o}", "run",
                                    (json_int_t)run->id, "name", mt_json_text(run->name), "state",
                                    mt_json_text(run->state), "device", mt_json_text(run->device), "model",
                                    mt_json_text(steps->model), "batch", mt_json_text(steps->batch), "seq",
                                    mt_json_text(steps->seq), "mode", mt_json_text(steps->mode), "precision",
                                    mt_json_text(steps->precision), "warmup", (json_int_t)steps->warmup, "estimated",
                                    (int)is_estimated(run), "ms", ms, "oom", oom_json(steps)));
}

static mt_status list_run(void *context, struct mt_trace *trace, const struct mt_run *run)
{
    struct listing *listing = context;
    struct mt_steps_row steps;
    mt_status status = mt_trace_steps(trace, run, &steps);
    if (status == MT_OK)
        listing->add(listing, run, &steps);
    listing->has_estimates |= is_estimated(run);
    return status;
}

static void print_what_estimates_are(void)
{
    putchar('\n');
    mt_print_wrapped("Times on sim are estimates: each op's roofline time on the card that it stands for.", 0);
}

static mt_status print_table(struct mt_trace *trace, const char *which, struct listing *listing)
{
    mt_status status = mt_runs_visit(trace, which, list_run, listing);
    if (status == MT_OK)
        mt_table_print(listing->table);
    if (status == MT_OK && listing->has_estimates)
        print_what_estimates_are();
    mt_table_destroy(listing->table);
    return status;
}

static mt_status print_means(struct mt_trace *trace, const char *which)
{
    static const struct mt_column columns[] = {SETTINGS_COLUMNS,
                                               {"steps", MT_ALIGN_RIGHT},
                                               {"forward ms", MT_ALIGN_RIGHT},
                                               {"backward ms", MT_ALIGN_RIGHT},
                                               {"optimizer ms", MT_ALIGN_RIGHT},
                                               {"step ms", MT_ALIGN_RIGHT},
                                               {"note", MT_ALIGN_LEFT}};
    static const char *const spare[] = {SPARE_SETTINGS, "optimizer ms", "forward ms", "backward ms", NULL};
    struct listing listing = {.add = add_run, .table = mt_table_create(columns, sizeof columns / sizeof columns[0])};
    mt_table_spare(listing.table, spare);
    return print_table(trace, which, &listing);
}

static mt_status print_phases(struct mt_trace *trace, const char *which)
{
    static const struct mt_column columns[] = {
        SETTINGS_COLUMNS,        {"steps", MT_ALIGN_RIGHT},  {"of", MT_ALIGN_LEFT},   {"mean ms", MT_ALIGN_RIGHT},
        {"std", MT_ALIGN_RIGHT}, {"median", MT_ALIGN_RIGHT}, {"min", MT_ALIGN_RIGHT}, {"max", MT_ALIGN_RIGHT},
        {"note", MT_ALIGN_LEFT}};
    static const char *const spare[] = {SPARE_SETTINGS, NULL};
    struct listing listing = {.add = add_phases, .table = mt_table_create(columns, sizeof columns / sizeof columns[0])};
    mt_table_spare(listing.table, spare);
    return print_table(trace, which, &listing);
}

static mt_status print_json(struct mt_trace *trace, const char *which)
{
    struct listing listing = {.add = add_json, .rows = json_array()};
    mt_status status = mt_runs_visit(trace, which, list_run, &listing);
    json_t *answer = json_pack("{s:s, s:o}", "schema", "memtrace.steps/1", "rows", listing.rows);
    if (status == MT_OK)
        mt_json_print(answer);
    else
        json_decref(answer);
    return status;
}

static mt_status run_steps(const void *given)
{
    const struct steps_options *steps = given;
    struct mt_trace *trace;
    mt_status status = mt_trace_open_to_ask(steps->trace.trace, &trace);
    if (status != MT_OK)
        return status;
    if (steps->trace.json)
        status = print_json(trace, steps->trace.run);
    else
        status = (steps->full ? print_phases : print_means)(trace, steps->trace.run);
    mt_trace_close(trace);
    return status;
}

const struct mt_command mt_command_steps = {
    .name = "steps",
    .summary = "Shows how long forward, backward, optimizer and step took in each run, warm-up excluded.",
    .usage = "[OPTIONS]",
    .details =
        "All runs of the trace, or the one of --run: mean and standard deviation (of a sample) over the steps that\n"
        "are no warm-up, by the device's clock. The loss belongs to neither forward nor backward: it is in the step,\n"
        "and by itself with --full and --json. A run that ended out of memory says OOM and what was asked for; times\n"
        "on sim are estimates.\n",
    .examples = "  memtrace steps\n"
                "  memtrace steps --full\n"
                "  memtrace steps --json\n",
    .options = options,
    .defaults = &(const struct steps_options){.trace.trace = MT_DEFAULT_TRACE},
    .options_bytes = sizeof(struct steps_options),
    .run = run_steps,
};
