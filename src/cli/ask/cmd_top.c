/* memtrace top: the largest blocks. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <stdlib.h>

struct top_options {
    struct mt_trace_options trace;
    int64_t limit;
    bool each;
    int moment; /* mt_top_moment */
};

static const char *const moments[] = {[MT_TOP_WHOLE_RUN] = "run", [MT_TOP_AT_PEAK] = "peak", NULL};

static const struct mt_option options[] = {
    {.name = "N",
     .help = "how many rows (10 unless given)",
     .kind = MT_OPTION_INTEGER,
     .offset = offsetof(struct top_options, limit),
     .low = 1,
     .high = INT32_MAX},
    {.name = "--each",
     .help = "list every block singly, in place of merging alike ones",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct top_options, each)},
    {.name = "--at",
     .value = "MOMENT",
     .help = "blocks of the whole run, or only what was live at its allocated peak",
     .kind = MT_OPTION_CHOICE,
     .offset = offsetof(struct top_options, moment),
     .choices = moments},
    MT_TRACE_OPTIONS,
};

struct top_answer {
    struct mt_top_row *rows;
    size_t count;
    bool complete;
};

static json_t *row_json(const struct mt_top_row *row)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "bytes", (json_int_t)row->bytes, "count",
                     (json_int_t)row->count, "category", mt_json_text(row->category), "op", mt_json_text(row->op),
                     "phase", mt_json_text(row->phase), "span", mt_json_text(row->span), "role",
                     mt_json_text(row->role), "dtype", mt_json_text(row->dtype), "shape", mt_json_text(row->shape),
                     "step", row->step >= 0 ? json_integer(row->step) : json_null());
}

static void print_json(const struct mt_question *question, const struct top_options *top,
                       const struct top_answer *answer)
{
    json_t *object = mt_question_json(question, "top"), *rows = json_array();
    json_object_set_new(object, "at", json_string(moments[top->moment]));
    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(rows, row_json(&answer->rows[i]));
    json_object_set_new(object, "complete", json_boolean(answer->complete));
    json_object_set_new(object, "rows", rows);
    mt_json_print(object);
}

static void add_row(struct mt_table *table, const struct mt_top_row *row, bool each)
{
    char step[MT_BYTES_TEXT];
    mt_table_add_bytes(table, row->bytes);
    if (each)
        mt_table_add(table, mt_format_step(row->step, step));
    else
        mt_table_add_number(table, (int64_t)row->count);
    const char *texts[] = {row->category, row->op, row->phase, row->role, row->dtype, row->shape, row->span};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mt_table_add(table, texts[i]);
}

static void print_table(const struct mt_question *question, const struct top_options *top,
                        const struct top_answer *answer)
{
    const struct mt_column columns[] = {
        {"size", MT_ALIGN_RIGHT},    {top->each ? "step" : "count", top->each ? MT_ALIGN_LEFT : MT_ALIGN_RIGHT},
        {"category", MT_ALIGN_LEFT}, {"op", MT_ALIGN_LEFT},
        {"phase", MT_ALIGN_LEFT},    {"role", MT_ALIGN_LEFT},
        {"dtype", MT_ALIGN_LEFT},    {"shape", MT_ALIGN_LEFT},
        {"span", MT_ALIGN_LEFT}};
    mt_question_print_title(question);
    static const char *const spare[] = {"role", "dtype", "phase", "shape", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < answer->count; i++)
        add_row(table, &answer->rows[i], top->each);
    mt_table_print(table);
    mt_table_destroy(table);
}

static mt_status run_top(const void *given)
{
    const struct top_options *top = given;
    struct mt_question question;
    mt_status status = mt_question_open(&top->trace, &question);
    if (status != MT_OK)
        return status;
    struct top_answer answer;
    status =
        mt_trace_top(question.trace, question.run, top->each ? MT_TOP_EACH : MT_TOP_MERGED, (mt_top_moment)top->moment,
                     (size_t)top->limit, &answer.rows, &answer.count, &answer.complete);
    if (status == MT_OK && !answer.complete)
        mt_note("the run made smaller allocations too, of more kinds than a trace keeps a table of");
    if (status == MT_OK)
        (top->trace.json ? print_json : print_table)(&question, top, &answer);
    free(answer.rows);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_top = {
    .name = "top",
    .summary = "Shows the largest blocks, with what each was for and who asked for it.",
    .usage = "[N] [OPTIONS]",
    .details = "Sizes are as requested. Blocks that are alike but for the layer are one row, with * for the layer's\n"
               "number and a count of how many the run allocated, or of how many were live at the peak.\n",
    .examples = "  memtrace top\n"
                "  memtrace top 20 --at peak\n"
                "  memtrace top 5 --each --json\n",
    .options = options,
    .defaults = &(const struct top_options){.trace.trace = MT_DEFAULT_TRACE, .limit = 10},
    .options_bytes = sizeof(struct top_options),
    .run = run_top,
};
