/* memtrace categories: the kinds of tensors that were allocated. */
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALL_PHASES = -1 };

struct categories_options {
    struct mt_trace_options trace;
    int phase; /* mt_phase or ALL_PHASES */
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(CHOICE, struct categories_options, phase, "--phase", .value = "PHASE", .choices = mt_phase_names,
              .help = "allocations of this phase, in any category"),
    MT_TRACE_OPTIONS,
};

struct categories_answer {
    const char *phase; /* NULL: all */
    struct mt_category_row *rows;
    size_t count;
};

#define ROW struct mt_category_row
static const struct mt_field row_fields[] = {
    MT_TEXT(ROW, category, "category", "category", NULL),
    MT_SOME_BYTES(ROW, forward_bytes, "forward_max_bytes", "largest in forward",
                  "the largest one of forward and loss; null: none"),
    MT_BYTES(ROW, max_bytes, "max_bytes", "largest over all", "the largest one over all phases, or of `phase`"),
    MT_SHOWN(BYTES, uint64_t, ROW, max_bytes, "phase_max_bytes", "largest in the phase"),
    MT_COUNT(ROW, per_step, "per_step", "per step", "how many in the last full step"),
    MT_BYTES(ROW, total_bytes, "total_bytes", "total", "of all, over the run"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type row_type = MT_ROW_TYPE(struct mt_category_row, row_fields);

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct categories_answer, phase, "phase", NULL, "of `--phase`, which is then what is counted; null: all"),
    MT_ROWS(struct categories_answer, rows, count, "rows", &row_type, "the largest first"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct categories_answer, answer_fields);

static mt_status ask_categories(const struct mt_question *question, const void *given)
{
    const struct categories_options *categories = given;
    const char *phase = categories->phase == ALL_PHASES ? NULL : mt_phase_names[categories->phase];
    struct categories_answer answer = {.phase = phase};
    mt_status status = mt_trace_categories(question->trace, question->run, phase, &answer.rows, &answer.count);
    if (status == MT_OK && categories->trace.json) {
        mt_question_print_json(question, "categories", &answer_type, &answer);
    } else if (status == MT_OK) {
        mt_question_print_title(question);
        if (phase != NULL)
            printf("Allocations in phase %s:\n", phase);
        mt_rows_print(&row_type,
                      phase != NULL ? "category phase_max_bytes per_step total_bytes"
                                    : "category forward_max_bytes max_bytes per_step total_bytes",
                      NULL, answer.rows, answer.count);
    }
    free(answer.rows);
    return status;
}

const struct mt_command mt_command_categories = {
    .name = "categories",
    .summary = "Shows which kinds of tensors were allocated: the largest one, their number in a step, and their sum.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "Sizes are requested bytes. The largest tensor and the sum cover the whole run; the count covers the last\n"
        "full step. The largest tensor in forward covers the pass up to the loss, as in published tables. Backward\n"
        "often allocates larger ones.\n",
    .examples = "  memtrace categories\n"
                "  memtrace categories --phase backward\n"
                "  memtrace categories --json\n",
    .options = options,
    MT_OPTIONS_OF(struct categories_options, .trace.trace = MT_DEFAULT_TRACE, .phase = ALL_PHASES),
    .answer = &answer_type,
    .ask = ask_categories,
};
