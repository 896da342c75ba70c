/* memtrace events: every allocation and free, in order. */
#include "answer/row_stream.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "trace/query/walk.h"
#include "words/role_words.h"

#include <stdlib.h>

/* The value of --explain if it was not given. */
enum { NOT_ASKED = -1 };

struct events_options {
    struct mt_trace_options trace;
    int64_t step, explain;
    bool csv;
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(INTEGER, struct events_options, step, "--step", .value = "N", .low = 0, .high = INT64_MAX,
              .help = "only this step; steps count from 0"),
    MT_OPTION(INTEGER, struct events_options, explain, "--explain", .value = "ID", .low = 0, .high = INT64_MAX,
              .help = "explain how one block's role was found"),
    MT_OPTION(FLAG, struct events_options, csv, "--csv", .help = "print comma-separated values"),
    MT_TRACE_OPTIONS,
};

/* An event, with its call stack. */
struct listed_event {
    struct mt_event_row event;
    const char *line, *frames; /* "" if no stack was recorded */
};

static const struct mt_field row_fields[] = {
    MT_INTEGER(struct listed_event, event.n, "n", "n", "from 0, in this answer"),
    MT_TEXT(struct listed_event, event.action, "action", "action", "`alloc` or `free`"),
    MT_INTEGER(struct listed_event, event.id, "id", "id",
               "of the allocation; a free has the id of the allocation that it ends, -1 if not known"),
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

static const struct mt_field moment_fields[] = {
    MT_STEP(struct mt_moment, step, "step", NULL, "null: before the first"),
    MT_TEXT(struct mt_moment, phase, "phase", NULL, NULL),
    MT_COUNT(struct mt_moment, time_ns, "time_ns", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type moment_type = MT_ROW_TYPE(struct mt_moment, moment_fields);

/* A block, and the evidence for its role. */
struct explanation {
    struct mt_explained_row block;
    const struct mt_moment *freed; /* NULL: it was not freed */
    const char *sureness, *evidence;
};

static const struct mt_field explained_fields[] = {
    MT_INTEGER(struct explanation, block.id, "id", NULL, NULL),
    MT_COUNT(struct explanation, block.bytes, "bytes", NULL, "as requested"),
    MT_TEXT(struct explanation, block.category, "category", NULL, NULL),
    MT_TEXT(struct explanation, block.op, "op", NULL, NULL),
    MT_TEXT(struct explanation, block.span, "span", NULL, NULL),
    MT_TEXT(struct explanation, block.role, "role", NULL, NULL),
    MT_TEXT(struct explanation, block.found, "found", NULL, "declared, observed or inferred; empty: not stored"),
    MT_TEXT(struct explanation, sureness, "sureness", NULL, "certain, likely, a guess or unknown"),
    MT_TEXT(struct explanation, evidence, "evidence", NULL, NULL),
    MT_ROW(struct explanation, block.taken, "taken", &moment_type, NULL),
    MT_ROW_OR_NULL(struct explanation, freed, "freed", &moment_type, "null: never"),
    MT_FIELDS_END,
};
static const struct mt_row_type explained_type = MT_ROW_TYPE(struct explanation, explained_fields);

/* Invariant: it has either rows, which are streamed, or an explanation. */
struct events_answer {
    struct explanation explained;
};

static const struct mt_field answer_fields[] = {
    MT_STREAMED("rows", &row_type, "in order; left out with --explain"),
    MT_ROW(struct events_answer, explained, "explained", &explained_type, "with --explain alone"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct events_answer, answer_fields);
static const struct mt_row_type explanation_type = MT_ROW_TYPE(struct events_answer, answer_fields + 1);

/* The destination of rows: a table or a file. */
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
    bool has_stacks = listing->stack_count > 1; /* the first one is "no stack" */
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

static void say_moment(const char *what, const struct mt_moment *moment)
{
    char step[MT_BYTES_TEXT];
    bool is_in_step = moment->step >= 0;
    mt_say("%-9s %s%s%s, at %.3f ms", what, is_in_step ? mt_format_step(moment->step, step) : "",
           is_in_step ? ", " : "", moment->phase, (double)moment->time_ns * 1e-6);
}

static void say_explanation(const struct explanation *explained)
{
    const struct mt_explained_row *block = &explained->block;
    mt_say("block     %lld, %s of %s %s", (long long)block->id, MT_SIZE(block->bytes), block->category, block->op);
    if (block->span[0] != '\0')
        mt_say("span      %s", block->span);
    say_moment("taken", &block->taken);
    if (explained->freed != NULL)
        say_moment("freed", explained->freed);
    else
        mt_say("freed     never");
    mt_say("role      %s, %s%s%s", block->role, block->found, block->found[0] != '\0' ? ": " : "", explained->sureness);
    mt_say("since     %s", explained->evidence);
}

static mt_status explain(const struct mt_question *question, const struct events_options *events)
{
    struct events_answer answer = {0};
    struct mt_text evidence = {0};
    MT_TRY(mt_trace_explain(question->trace, question->run, events->explain, &answer.explained.block));
    mt_role_evidence(&answer.explained.block, &evidence);
    answer.explained.evidence = mt_text_get(&evidence);
    answer.explained.sureness = mt_role_sureness(&answer.explained.block);
    answer.explained.freed = answer.explained.block.is_freed ? &answer.explained.block.freed : NULL;
    if (events->trace.json)
        mt_question_print_json(question, "events", &explanation_type, &answer);
    else
        say_explanation(&answer.explained);
    mt_text_release(&evidence);
    return MT_OK;
}

static mt_status ask_events(const struct mt_question *question, const void *given)
{
    const struct events_options *events = given;
    struct listing listing = {.question = question, .options = events};
    if (events->csv && events->trace.json)
        return mt_fail(MT_USAGE, "--csv and --json exclude each other");
    if (events->explain != NOT_ASKED)
        return explain(question, events);
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
    .usage = "[RUN|FILE] [--step N | --explain ID] [OPTIONS]",
    .details =
        "Bytes are requested bytes. A free has the id of the allocation that it ends. Category, op, phase and span\n"
        "belong to the block, so a free shows the phase in which the block was allocated. If call stacks were\n"
        "recorded, an allocation shows the innermost line of the program's own code; --json and --csv print the\n"
        "whole stack. --explain says how the role of one block was found, how certain it is, and on what evidence.\n",
    .examples = "  memtrace events --step 1 | head\n"
                "  memtrace events --csv > events.csv\n"
                "  memtrace events --step 0 --json\n"
                "  memtrace events --explain 4\n",
    .options = options,
    MT_OPTIONS_OF(struct events_options, .trace.trace = MT_DEFAULT_TRACE, .step = MT_ALL_STEPS, .explain = NOT_ASKED),
    .answer = &answer_type,
    .ask = ask_events,
};
