#include "trace/export/stacks.h"

#include "base/memory.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_AFTER_SPAN = 2 };

static void add_frame(struct mt_stack *stack, const char *name)
{
    if (name[0] != '\0')
        stack->frames[stack->depth++] = name;
}

void mt_stack_create(struct mt_stack *stack, const struct mt_label_row *label, mt_stack_layers layers)
{
    *stack = (struct mt_stack){.span = mt_host_strdup(layers == MT_LAYERS_MERGED ? label->place : label->span)};
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

void mt_stack_release(struct mt_stack *stack)
{
    free(stack->span);
    *stack = (struct mt_stack){0};
}

/* A frame whose characters mean nothing to a reader of folded stacks: it takes ';' for the next frame, a line's end for
 * the next stack, and a number after a blank for a column. */
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
    struct mt_stack stack;
    struct mt_text line = {0}, repaired = {0};
    mt_stack_create(&stack, label, layers);
    for (size_t i = 0; i < stack.depth; i++) {
        if (i > 0)
            mt_text_add(&line, ";");
        add_plain(&line, stack.frames[i]);
    }
    mt_stack_release(&stack);
    mt_utf8_add_repaired(&repaired, mt_text_get(&line));
    mt_text_release(&line);
    return repaired.data;
}

void mt_folded_add(struct mt_folded *folded, const struct mt_label_row *labels, const struct mt_label_sum *sums,
                   size_t count, mt_stack_moment moment, mt_stack_layers layers, int column)
{
    folded->rows = mt_host_resize(folded->rows, folded->count + count, sizeof *folded->rows);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = moment == MT_STACKS_AT_PEAK ? sums[i].live_bytes : sums[i].allocated_bytes;
        if (bytes == 0)
            continue;
        struct mt_folded_row row = {.stack = fold(&labels[i], layers)};
        row.bytes[column] = bytes;
        folded->rows[folded->count++] = row;
    }
}

static int compare_stacks(const void *left, const void *right)
{
    return strcmp(((const struct mt_folded_row *)left)->stack, ((const struct mt_folded_row *)right)->stack);
}

void mt_folded_merge(struct mt_folded *folded)
{
    size_t kept = 0;
    if (folded->count > 1)
        qsort(folded->rows, folded->count, sizeof *folded->rows, compare_stacks);
    for (size_t i = 0; i < folded->count; i++) {
        struct mt_folded_row *row = &folded->rows[i], *last = kept > 0 ? &folded->rows[kept - 1] : NULL;
        if (last == NULL || compare_stacks(last, row) != 0) {
            folded->rows[kept++] = *row;
            continue;
        }
        last->bytes[0] += row->bytes[0];
        last->bytes[1] += row->bytes[1];
        free(row->stack);
    }
    folded->count = kept;
}

void mt_folded_release(struct mt_folded *folded)
{
    for (size_t i = 0; i < folded->count; i++)
        free(folded->rows[i].stack);
    free(folded->rows);
    *folded = (struct mt_folded){0};
}
