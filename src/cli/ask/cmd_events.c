/* memtrace events: every allocation and free, in order. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <inttypes.h>
#include <stdio.h>

struct events_options {
    struct mt_trace_options trace;
    int64_t step;
    bool csv;
};

static const struct mt_option options[] = {
    {.name = "--step",
     .value = "N",
     .help = "only this step; steps count from 0",
     .kind = MT_OPTION_INTEGER,
     .offset = offsetof(struct events_options, step),
     .low = 0,
     .high = INT64_MAX},
    {.name = "--csv",
     .help = "print comma-separated values",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct events_options, csv)},
    MT_TRACE_OPTIONS,
};

static const struct mt_column columns[] = {
    {"n", MT_ALIGN_RIGHT},       {"action", MT_ALIGN_LEFT}, {"id", MT_ALIGN_RIGHT},   {"bytes", MT_ALIGN_RIGHT},
    {"category", MT_ALIGN_LEFT}, {"op", MT_ALIGN_LEFT},     {"phase", MT_ALIGN_LEFT}, {"span", MT_ALIGN_LEFT}};

enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

/* Where rows go; the form that is not asked for has nothing. */
struct listing {
    const struct mt_question *question;
    struct mt_table *table;
    struct mt_json_stream json;
};

static mt_status begin_csv(void *context)
{
    (void)context;
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        mt_csv_print(columns[i].title, i + 1 < COLUMN_COUNT ? ',' : '\n');
    return MT_OK;
}

static mt_status print_csv_row(void *context, const struct mt_event_row *row)
{
    (void)context;
    printf("%" PRId64 ",%s,%" PRId64 ",%" PRIu64 ",", row->n, row->action, row->id, row->bytes);
    mt_csv_print(row->category, ',');
    mt_csv_print(row->op, ',');
    mt_csv_print(row->phase, ',');
    mt_csv_print(row->span, '\n');
    return mt_output_go_on();
}

static mt_status begin_json(void *context)
{
    struct listing *listing = context;
    mt_json_stream_begin(&listing->json, mt_question_json(listing->question, "events"), "rows");
    return MT_OK;
}

static mt_status print_json_row(void *context, const struct mt_event_row *row)
{
    struct listing *listing = context;
    mt_json_stream_row(&listing->json,
                       json_pack("{s:I, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "n", (json_int_t)row->n, "action",
                                 row->action, "id", (json_int_t)row->id, "bytes", (json_int_t)row->bytes, "category",
                                 mt_json_text(row->category), "op", mt_json_text(row->op), "phase",
                                 mt_json_text(row->phase), "span", mt_json_text(row->span)));
    return mt_output_go_on();
}

static mt_status begin_table(void *context)
{
    static const char *const spare[] = {"phase", "id", "category", NULL};
    struct listing *listing = context;
    listing->table = mt_table_create(columns, COLUMN_COUNT);
    mt_table_spare(listing->table, spare);
    return MT_OK;
}

static mt_status print_table_row(void *context, const struct mt_event_row *row)
{
    struct mt_table *table = ((struct listing *)context)->table;
    mt_table_add_number(table, row->n);
    mt_table_add(table, row->action);
    mt_table_add_number(table, row->id);
    mt_table_add_number(table, (int64_t)row->bytes);
    const char *texts[] = {row->category, row->op, row->phase, row->span};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mt_table_add(table, texts[i]);
    return mt_output_go_on();
}

static mt_status list_events(const struct mt_question *question, const struct events_options *events)
{
    struct listing listing = {.question = question};
    struct mt_event_visitor visitor = {&listing, begin_table, print_table_row};
    if (events->trace.json)
        visitor = (struct mt_event_visitor){&listing, begin_json, print_json_row};
    if (events->csv)
        visitor = (struct mt_event_visitor){&listing, begin_csv, print_csv_row};
    mt_status status = mt_trace_events(question->trace, question->run, events->step, &visitor);
    if (status == MT_OK && listing.table != NULL)
        mt_table_print(listing.table);
    if (status == MT_OK && events->trace.json)
        mt_json_stream_end(&listing.json);
    mt_table_destroy(listing.table);
    return status;
}

static mt_status run_events(const void *given)
{
    const struct events_options *events = given;
    if (events->csv && events->trace.json)
        return mt_fail(MT_USAGE, "--csv and --json exclude each other");
    struct mt_question question;
    mt_status status = mt_question_open(&events->trace, &question);
    if (status != MT_OK)
        return status;
    status = list_events(&question, events);
    mt_question_close(&question);
    return mt_output_broken() ? MT_OK : status;
}

const struct mt_command mt_command_events = {
    .name = "events",
    .summary = "Lists allocations and frees in order.",
    .usage = "[--step N] [OPTIONS]",
    .details =
        "Bytes are as requested. A free has the id of the allocation that it ends; category, op, phase and span\n"
        "are the block's, so a free's phase is the one that it was allocated in.\n",
    .examples = "  memtrace events --step 1 | head\n"
                "  memtrace events --csv > events.csv\n"
                "  memtrace events --step 0 --json\n",
    .options = options,
    .defaults = &(const struct events_options){.trace.trace = MT_DEFAULT_TRACE, .step = MT_ALL_STEPS},
    .options_bytes = sizeof(struct events_options),
    .run = run_events,
};
