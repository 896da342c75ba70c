/* memtrace top: the largest blocks. */
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
    MT_OPTION(INTEGER, struct top_options, limit, "N", .low = 1, .high = INT32_MAX,
              .help = "how many rows (10 unless given)"),
    MT_OPTION(FLAG, struct top_options, each, "--each",
              .help = "list every block singly, in place of merging alike ones"),
    MT_OPTION(CHOICE, struct top_options, moment, "--at", .value = "MOMENT", .choices = moments,
              .help = "blocks of the whole run, or only what was live at its allocated peak"),
    MT_TRACE_OPTIONS,
};

struct top_answer {
    int moment; /* mt_top_moment */
    struct mt_top_row *rows;
    size_t count;
    bool complete;
};

static const struct mt_field row_fields[] = {
    MT_BYTES(struct mt_top_row, bytes, "bytes", "size", "of one block, as requested"),
    MT_COUNT(struct mt_top_row, count, "count", "count", "alike blocks: of the run, or live at its peak"),
    MT_TEXT(struct mt_top_row, category, "category", "category", "the kind of tensor"),
    MT_TEXT(struct mt_top_row, op, "op", "op", "what asked for it"),
    MT_TEXT(struct mt_top_row, phase, "phase", "phase", NULL),
    MT_TEXT(struct mt_top_row, span, "span", "span", "the module that asked; `*` for the number of the layer"),
    MT_TEXT(struct mt_top_row, role, "role", "role", NULL),
    MT_TEXT(struct mt_top_row, dtype, "dtype", "dtype", NULL),
    MT_TEXT(struct mt_top_row, shape, "shape", "shape", NULL),
    MT_STEP(struct mt_top_row, step, "step", "step", "of the first of them"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct mt_top_row, row_fields);
#define FIELDS "category op phase role dtype shape span" /* that every table has */

static const struct mt_field answer_fields[] = {
    MT_CHOICE(struct top_answer, moment, "at", NULL, "blocks of the whole run, or those live at its peak", moments),
    MT_FLAG(struct top_answer, complete, "complete", NULL, "false if smaller blocks are no longer told apart"),
    MT_ROWS(struct top_answer, rows, count, "rows", &row_type, "the largest first"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct top_answer, answer_fields);

static mt_status ask_top(const struct mt_question *question, const void *given)
{
    const struct top_options *top = given;
    struct top_answer answer = {.moment = top->moment};
    mt_status status =
        mt_trace_top(question->trace, question->run, top->each ? MT_TOP_EACH : MT_TOP_MERGED,
                     (mt_top_moment)top->moment, (size_t)top->limit, &answer.rows, &answer.count, &answer.complete);
    if (status == MT_OK && !answer.complete)
        mt_note("the run made smaller allocations too, of more kinds than a trace keeps a table of");
    if (status == MT_OK && top->trace.json) {
        mt_question_print_json(question, "top", &answer_type, &answer);
    } else if (status == MT_OK) {
        mt_question_print_title(question);
        mt_rows_print(&row_type, top->each ? "bytes step " FIELDS : "bytes count " FIELDS, "role dtype phase shape",
                      answer.rows, answer.count);
    }
    free(answer.rows);
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
    MT_OPTIONS_OF(struct top_options, .trace.trace = MT_DEFAULT_TRACE, .limit = 10),
    .answer = &answer_type,
    .ask = ask_top,
};
