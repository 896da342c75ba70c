/* memtrace events: every allocation and free, in order. */
#include "answer/row_stream.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "trace/query/walk.h"

#include <stdlib.h>

struct events_options {
    struct mt_trace_options trace;
    int64_t step;
    bool csv;
};

static const struct mt_option options[] = {
    MT_OPTION(INTEGER, struct events_options, step, "--step", .value = "N", .low = 0, .high = INT64_MAX,
              .help = "only this step; steps count from 0"),
    MT_OPTION(FLAG, struct events_options, csv, "--csv", .help = "print comma-separated values"),
    MT_TRACE_OPTIONS,
};

/* An event with what its call stack tells. */
struct listed_event {
    struct mt_event_row event;
    const char *line, *frames; /* "" where no stack was recorded */
};

static const struct mt_field row_fields[] = {
    MT_INTEGER(struct listed_event, event.n, "n", "n", "from 0, in this answer"),
    MT_TEXT(struct listed_event, event.action, "action", "action", "`alloc` or `free`"),
    MT_INTEGER(struct listed_event, event.id, "id", "id",
               "of the allocation; a free has that of the one it ends, -1 if not known"),
    MT_COUNT(struct listed_event, event.bytes, "bytes", "bytes", "as requested"),
    MT_TEXT(struct listed_event, event.category, "category", "category", NULL),
    MT_TEXT(struct listed_event, event.op, "op", "op", NULL),
    MT_TEXT(struct listed_event, event.phase, "phase", "phase", "in which the block was allocated"),
    MT_TEXT(struct listed_event, event.span, "span", "span", NULL),
    MT_NAME(struct listed_event, line, "line", "line",
            "of an alloc, the innermost of the program's own code; null: no call stack was recorded"),
    MT_NAME(struct listed_event, frames, "frames", NULL,
            "of an alloc, the call stack, innermost first: `FUNCTION FILE:LINE; …`"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct listed_event, row_fields);

static const struct mt_field answer_fields[] = {MT_STREAMED("rows", &row_type, "in order"), MT_FIELDS_END};
static const struct mt_row_type answer_type = {.fields = answer_fields};

/* The place where rows go: a table or a file. */
struct listing {
    const struct mt_question *question;
    const struct events_options *options;
    struct mt_table *table;
    struct mt_output_file *file;
    struct mt_row_stream stream;
    struct mt_stack_row *stacks;
    size_t stack_count;
    struct mt_text line, frames; /* of the latest event */
};

static struct listed_event complete(struct listing *listing, const struct mt_event_row *row)
{
    mt_text_release(&listing->line);
    mt_text_release(&listing->frames);
    mt_stack_line(listing->stacks, listing->stack_count, row->stack, &listing->line);
    mt_stack_frames(listing->stacks, listing->stack_count, row->stack, &listing->frames);
    return (struct listed_event){*row, mt_text_get(&listing->line), mt_text_get(&listing->frames)};
}

static mt_status begin_table(void *context)
{
    struct listing *listing = context;
    bool has_stacks = listing->stack_count > 1; /* the first is none */
    listing->table = mt_table_of_rows(mt_output_screen(), &row_type,
                                      has_stacks ? "n action id bytes category op phase line span"
                                                 : "n action id bytes category op phase span",
                                      "phase id category");
    return MT_OK;
}

static mt_status add_to_table(void *context, const struct mt_event_row *row)
{
    struct listing *listing = context;
    const struct listed_event event = complete(listing, row);
    mt_table_add_rows(listing->table, &event, 1);
    return mt_output_go_on();
}

static mt_status begin_stream(void *context)
{
    struct listing *listing = context;
    mt_row_stream_begin(&listing->stream, listing->file, listing->options->csv ? MT_ROWS_CSV : MT_ROWS_JSON, &row_type,
                        mt_question_json(listing->question, "events"));
    return MT_OK;
}

static mt_status add_to_stream(void *context, const struct mt_event_row *row)
{
    struct listing *listing = context;
    const struct listed_event event = complete(listing, row);
    return mt_row_stream_add(&listing->stream, &event);
}

static mt_status list_in_table(struct listing *listing)
{
    const struct mt_question *question = listing->question;
    struct mt_event_visitor visitor = {listing, begin_table, add_to_table};
    mt_status status = mt_trace_events(question->trace, question->run, listing->options->step, &visitor);
    if (status == MT_OK)
        mt_table_print(listing->table);
    mt_table_destroy(listing->table);
    return status;
}

static mt_status list_in_stream(struct listing *listing)
{
    const struct mt_question *question = listing->question;
    struct mt_event_visitor visitor = {listing, begin_stream, add_to_stream};
    MT_TRY(mt_output_file_open(NULL, MT_OUTPUT_BY_NAME, &listing->file));
    mt_status status = mt_trace_events(question->trace, question->run, listing->options->step, &visitor);
    if (status == MT_OK)
        mt_row_stream_end(&listing->stream);
    return mt_output_file_close(listing->file, status);
}

static mt_status ask_events(const struct mt_question *question, const void *given)
{
    const struct events_options *events = given;
    struct listing listing = {.question = question, .options = events};
    if (events->csv && events->trace.json)
        return mt_fail(MT_USAGE, "--csv and --json exclude each other");
    MT_TRY(mt_trace_stacks(question->trace, question->run, &listing.stacks, &listing.stack_count));
    mt_status status = (events->csv || events->trace.json ? list_in_stream : list_in_table)(&listing);
    mt_text_release(&listing.line);
    mt_text_release(&listing.frames);
    free(listing.stacks);
    return mt_output_broken() ? MT_OK : status;
}

const struct mt_command mt_command_events = {
    .name = "events",
    .summary = "Lists allocations and frees in order.",
    .usage = "[--step N] [OPTIONS]",
    .details =
        "Bytes are as requested. A free has the id of the allocation that it ends; category, op, phase and span\n"
        "are the block's, so a free's phase is the one that it was allocated in. Where call stacks were recorded, an\n"
        "allocation has the innermost line of the program's own code; --json and --csv print the whole stack.\n",
    .examples = "  memtrace events --step 1 | head\n"
                "  memtrace events --csv > events.csv\n"
                "  memtrace events --step 0 --json\n",
    .options = options,
    MT_OPTIONS_OF(struct events_options, .trace.trace = MT_DEFAULT_TRACE, .step = MT_ALL_STEPS),
    .answer = &answer_type,
    .ask = ask_events,
};
