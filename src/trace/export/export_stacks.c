/* Folded stacks, for tools that draw flame graphs, and the stacks themselves, which profiles use, too. */
#include "trace/export/export_stacks.h"

#include "answer/escape.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_AFTER_SPAN = 2 };

static void add_frame(struct mt_label_stack *stack, const char *name)
{
    assert(stack->depth < MT_MOST_FRAMES);
    if (name[0] != '\0')
        stack->frames[stack->depth++] = name;
}

void mt_label_stack_create(struct mt_label_stack *stack, const struct mt_label_row *label, mt_stack_layers layers)
{
    *stack = (struct mt_label_stack){.span = mt_host_strdup(layers == MT_LAYERS_MERGED ? label->place : label->span)};
    char *part = stack->span;
    while (part != NULL && stack->depth < MT_MOST_FRAMES - FRAMES_AFTER_SPAN - 1) {
        char *dot = strchr(part, '.');
        if (dot != NULL)
            *dot = '\0';
        add_frame(stack, part);
        part = dot != NULL ? dot + 1 : NULL;
    }
    if (part != NULL)
        add_frame(stack, part);
    add_frame(stack, label->category);
    add_frame(stack, label->op);
    if (stack->depth == 0)
        add_frame(stack, "unlabelled");
}

void mt_label_stack_release(struct mt_label_stack *stack)
{
    free(stack->span);
    *stack = (struct mt_label_stack){0};
}

/* A line of folded stacks: the frames, separated by ';', and the bytes in each column. */
struct folded_row {
    char *stack;
    uint64_t bytes[2];
};

/* Lines. All zero: none. Invariant: once merged, they are sorted by stack, and each stack occurs once. */
struct folded {
    struct folded_row *rows;
    size_t count;
};

/* Adds a frame without the characters that have a meaning in folded stacks: ';' separates frames, a line end separates
 * stacks, and a number after a blank is a column. */
static void add_plain(struct mt_text *out, const char *name)
{
    for (; *name != '\0'; name++) {
        bool has_meaning =
            *name == ';' || iscntrl((unsigned char)*name) || (*name == ' ' && !isalpha((unsigned char)name[1]));
        mt_text_add(out, "%c", has_meaning ? '_' : *name);
    }
}

static char *fold(const struct mt_label_row *label, mt_stack_layers layers)
{
    struct mt_label_stack stack;
    struct mt_text line = {0}, repaired = {0};
    mt_label_stack_create(&stack, label, layers);
    for (size_t i = 0; i < stack.depth; i++) {
        if (i > 0)
            mt_text_add(&line, ";");
        add_plain(&line, stack.frames[i]);
    }
    mt_label_stack_release(&stack);
    mt_utf8_add_repaired(&repaired, mt_text_get(&line));
    mt_text_release(&line);
    return repaired.data;
}

static void folded_add(struct folded *folded, const struct mt_label_sums *sums, mt_stack_moment moment,
                       mt_stack_layers layers, int column)
{
    assert(column == 0 || column == 1);
    folded->rows = mt_host_resize(folded->rows, folded->count + sums->count, sizeof *folded->rows);
    for (size_t i = 0; i < sums->count; i++) {
        const struct mt_label_sum *sum = &sums->sums[i];
        uint64_t bytes = moment == MT_STACKS_AT_PEAK ? sum->live_bytes : sum->allocated_bytes;
        if (bytes == 0)
            continue;
        struct folded_row row = {.stack = fold(&sums->labels[i], layers)};
        row.bytes[column] = bytes;
        folded->rows[folded->count++] = row;
    }
}

static void folded_merge(struct folded *folded)
{
    size_t kept = 0;
    if (folded->count > 1)
        qsort(folded->rows, folded->count, sizeof *folded->rows, mt_compare_text);
    for (size_t i = 0; i < folded->count; i++) {
        struct folded_row *row = &folded->rows[i], *last = kept > 0 ? &folded->rows[kept - 1] : NULL;
        if (last == NULL || strcmp(last->stack, row->stack) != 0) {
            folded->rows[kept++] = *row;
            continue;
        }
        last->bytes[0] += row->bytes[0];
        last->bytes[1] += row->bytes[1];
        free(row->stack);
    }
    folded->count = kept;
}

static void folded_release(struct folded *folded)
{
    for (size_t i = 0; i < folded->count; i++)
        free(folded->rows[i].stack);
    free(folded->rows);
    *folded = (struct folded){0};
}

void mt_label_sums_release(struct mt_label_sums *sums)
{
    free(sums->labels);
    free(sums->sums);
    *sums = (struct mt_label_sums){0};
}

/* A run that is being written may get labels between the two queries. The sums do not refer to them. */
mt_status mt_label_sums_read(const struct mt_export_run *from, struct mt_label_sums *out)
{
    size_t label_count = 0, sum_count = 0;
    *out = (struct mt_label_sums){0};
    mt_status status = mt_trace_labels(from->trace, from->run, &out->labels, &label_count);
    MT_THEN(status, mt_trace_label_sums(from->trace, from->run, &out->sums, &sum_count));
    if (status != MT_OK)
        mt_label_sums_release(out);
    out->count = status == MT_OK ? (label_count < sum_count ? label_count : sum_count) : 0;
    return status;
}

static mt_status add_run(const struct mt_export_run *from, mt_stack_moment moment, mt_stack_layers layers, int column,
                         struct folded *folded)
{
    struct mt_label_sums sums;
    mt_status status = mt_label_sums_read(from, &sums);
    if (status == MT_OK)
        folded_add(folded, &sums, moment, layers, column);
    mt_label_sums_release(&sums);
    return status;
}

static void print_line(struct mt_output_file *file, const struct folded_row *row, int columns)
{
    struct mt_text line = {0};
    if (mt_output_file_is_terminal(file))
        mt_text_add_visible(&line, row->stack);
    else
        mt_text_add(&line, "%s", row->stack);
    for (int column = 0; column < columns; column++)
        mt_text_add(&line, " %" PRIu64, row->bytes[column]);
    mt_text_add(&line, "\n");
    mt_output_file_print(file, mt_text_get(&line));
    mt_text_release(&line);
}

mt_status mt_export_folded(const struct mt_export_request *request, struct mt_output_file *file)
{
    const mt_stack_moment moment = request->moment;
    struct folded folded = {0};
    int columns = 0;
    mt_status status =
        request->before != NULL ? add_run(request->before, moment, request->layers, columns++, &folded) : MT_OK;
    MT_THEN(status, add_run(&request->from, moment, request->layers, columns++, &folded));
    folded_merge(&folded);
    for (size_t i = 0; i < folded.count && status == MT_OK; i++) {
        print_line(file, &folded.rows[i], columns);
        status = mt_output_file_go_on(file);
    }
    folded_release(&folded);
    return status;
}
