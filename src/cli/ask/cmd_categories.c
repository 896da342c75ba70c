/* memtrace categories: what kinds of tensors were allocated. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <stdio.h>
#include <stdlib.h>

enum { USUAL_CUT = -1 };

struct categories_options {
    struct mt_trace_options trace;
    int phase; /* mt_phase or USUAL_CUT */
};

static const struct mt_option options[] = {
    {.name = "--phase",
     .value = "PHASE",
     .help = "what was allocated in this phase, whatever its category",
     .kind = MT_OPTION_CHOICE,
     .offset = offsetof(struct categories_options, phase),
     .choices = mt_phase_names},
    MT_TRACE_OPTIONS,
};

static void print_json(const struct mt_question *question, const char *phase, const struct mt_category_row *rows,
                       size_t count)
{
    json_t *object = mt_question_json(question, "categories"), *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:I, s:I}", "category", mt_json_text(rows[i].category), "max_bytes",
                                        (json_int_t)rows[i].max_bytes, "per_step", (json_int_t)rows[i].per_step,
                                        "total_bytes", (json_int_t)rows[i].total_bytes));
    json_object_set_new(object, "phase", mt_json_text(phase));
    json_object_set_new(object, "rows", list);
    mt_json_print(object);
}

static void print_table(const struct mt_question *question, const char *phase, const struct mt_category_row *rows,
                        size_t count)
{
    static const struct mt_column columns[] = {{"category", MT_ALIGN_LEFT},
                                               {"largest", MT_ALIGN_RIGHT},
                                               {"per step", MT_ALIGN_RIGHT},
                                               {"total", MT_ALIGN_RIGHT}};
    mt_question_print_title(question);
    if (phase != NULL)
        printf("Allocations in phase %s:\n", phase);
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < count; i++) {
        mt_table_add(table, rows[i].category);
        mt_table_add_bytes(table, rows[i].max_bytes);
        mt_table_add_number(table, (int64_t)rows[i].per_step);
        mt_table_add_bytes(table, rows[i].total_bytes);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static mt_status run_categories(const void *given)
{
    const struct categories_options *categories = given;
    const char *phase = categories->phase == USUAL_CUT ? NULL : mt_phase_names[categories->phase];
    struct mt_question question;
    mt_status status = mt_question_open(&categories->trace, &question);
    if (status != MT_OK)
        return status;
    struct mt_category_row *rows;
    size_t count;
    status = mt_trace_categories(question.trace, question.run, phase, &rows, &count);
    if (status == MT_OK)
        (categories->trace.json ? print_json : print_table)(&question, phase, rows, count);
    free(rows);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_categories = {
    .name = "categories",
    .summary = "Shows what kinds of tensors were allocated: the largest one, how many in a step, their sum.",
    .usage = "[OPTIONS]",
    .details =
        "Sizes are as requested; largest and total are over the run, the count is of the last full step. Each\n"
        "category is counted where it belongs: activations in forward and loss, Gradient in backward, Opt State\n"
        "and Optimizer in the optimizer, and in backward where that updates, Param in init, Data in forward,\n"
        "Workspace and names of a program's own anywhere.\n",
    .examples = "  memtrace categories\n"
                "  memtrace categories --phase backward\n"
                "  memtrace categories --json\n",
    .options = options,
    .defaults = &(const struct categories_options){.trace.trace = MT_DEFAULT_TRACE, .phase = USUAL_CUT},
    .options_bytes = sizeof(struct categories_options),
    .run = run_categories,
};
