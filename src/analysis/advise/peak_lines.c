#include "analysis/advise/peak_lines.h"

#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 4096, MOST_LINES = 256 };

/* Returns the line of that text, a new one if there is none yet; NULL if there are too many. */
static struct mt_peak_line *line_of(struct mt_peak_line *lines, size_t *count, const struct mt_top_row *block)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(lines[i].line, block->line) == 0)
            return &lines[i];
    if (*count == MOST_LINES)
        return NULL;
    lines[*count] = (struct mt_peak_line){.line = block->line, .span = block->span};
    return &lines[(*count)++];
}

static int compare_bytes(const void *left, const void *right)
{
    const struct mt_peak_line *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    return order != 0 ? order : strcmp(a->line, b->line);
}

mt_status mt_peak_lines_find(const struct mt_question *question, struct mt_peak_lines *out)
{
    const struct mt_top_choice choice = {.grouping = MT_TOP_EACH, .moment = MT_TOP_AT_PEAK};
    struct mt_peak_line lines[MOST_LINES];
    struct mt_top_row *blocks;
    size_t block_count, count = 0;
    bool is_complete;
    *out = (struct mt_peak_lines){.count = 0};
    MT_TRY(mt_trace_top(question->trace, question->run, &choice, MOST_BLOCKS, &blocks, &block_count, &is_complete));
    for (size_t i = 0; i < block_count; i++) {
        const bool has_line = blocks[i].line != NULL && blocks[i].line[0] != '\0';
        struct mt_peak_line *line = has_line ? line_of(lines, &count, &blocks[i]) : NULL;
        if (line == NULL)
            continue;
        line->bytes += blocks[i].total_bytes;
        line->blocks += blocks[i].count;
    }
    free(blocks);
    qsort(lines, count, sizeof *lines, compare_bytes);
    out->count = count < MT_MOST_PEAK_LINES ? count : MT_MOST_PEAK_LINES;
    memcpy(out->items, lines, out->count * sizeof *lines);
    return MT_OK;
}
