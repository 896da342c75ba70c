/* The ten largest kinds of allocation, in fp32 and under autocast. */
#include "study/report_sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 10 };

static const struct mt_column columns[] = {
    {"size", MT_ALIGN_RIGHT}, {"count", MT_ALIGN_RIGHT}, {"category", MT_ALIGN_LEFT},
    {"op", MT_ALIGN_LEFT},    {"phase", MT_ALIGN_LEFT},  {"role", MT_ALIGN_LEFT},
    {"dtype", MT_ALIGN_LEFT}, {"shape", MT_ALIGN_LEFT},  {"span", MT_ALIGN_LEFT}};

static void add_row(struct mt_page *page, const struct mt_top_row *row)
{
    const char *const texts[] = {row->category, row->op, row->phase, row->role, row->dtype, row->shape, row->span};
    mt_page_cell_bytes(page, row->bytes);
    mt_page_cell_count(page, (int64_t)row->count);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        mt_page_cell(page, texts[i]);
}

static size_t count_largest(const struct mt_top_row *rows, size_t count)
{
    size_t equal = 0;
    while (equal < count && rows[equal].bytes == rows[0].bytes)
        equal++;
    return equal;
}

static void say_largest(struct mt_page *page, const struct mt_report_run *run, const struct mt_top_row *rows,
                        size_t count)
{
    char size[MT_BYTES_TEXT];
    size_t equal = count_largest(rows, count);
    if (count == 0)
        return;
    mt_format_bytes(rows[0].bytes, size);
    if (equal < count)
        mt_page_say(page,
                    "%zu of the kinds shown %s the largest, with %s a block: the first is %s (%s), asked for %" PRIu64
                    " times in %" PRId64 " steps by %s.",
                    equal, equal == 1 ? "is" : "are", size, rows[0].category, rows[0].op, rows[0].count,
                    run->run->steps, rows[0].span);
    else
        mt_page_say(page,
                    "All kinds shown are of %s a block: the first is %s (%s), asked for %" PRIu64 " times in %" PRId64
                    " steps by %s.",
                    size, rows[0].category, rows[0].op, rows[0].count, run->run->steps, rows[0].span);
}

static mt_status add_run(struct mt_report *report, const struct mt_report_run *run)
{
    struct mt_text title = {0};
    struct mt_top_row *rows;
    size_t count;
    bool is_complete;
    mt_status status =
        mt_trace_top(report->trace, run->run, MT_TOP_MERGED, MT_TOP_WHOLE_RUN, SHOWN, &rows, &count, &is_complete);
    if (status == MT_OK) {
        mt_text_add(&title, "The ten largest kinds of allocation: %s, %s, seq %s, %s", run->model, mt_report_mode(run),
                    run->seq_text, run->steps.precision);
        mt_page_table(report->page, "largest", title.data, columns, sizeof columns / sizeof columns[0]);
        for (size_t i = 0; i < count; i++)
            add_row(report->page, &rows[i]);
        say_largest(report->page, run, rows, count);
    }
    mt_text_release(&title);
    free(rows);
    return status;
}

/* The run of the longest sequence in the lead group, and its row; NULL: there are none. */
static const struct mt_report_run *longest(const struct mt_report_rows *rows, size_t *out_index)
{
    size_t begin, end;
    mt_report_lead(rows, &begin, &end);
    while (end > begin && rows->runs[end - 1]->is_oom)
        end--;
    *out_index = end > begin ? end - 1 : 0;
    return end > begin ? rows->runs[end - 1] : NULL;
}

/* Leaves the pairs of forward passes, if there are some: there activations are the largest. */
static void keep_forward(struct mt_report_pairs *pairs)
{
    size_t kept = 0;
    for (size_t i = 0; i < pairs->autocast.count; i++) {
        if (strcmp(pairs->autocast.runs[i]->mode, "fwd") != 0)
            continue;
        pairs->baselines[kept] = pairs->baselines[i];
        pairs->autocast.runs[kept++] = pairs->autocast.runs[i];
    }
    if (kept > 0)
        pairs->autocast.count = kept;
}

mt_status mt_report_largest(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows all = mt_report_select(report, NULL, NULL);
    mt_status status = MT_OK;
    size_t index;
    mt_page_section(report->page, "largest", "Largest allocations");
    keep_forward(&pairs);
    const struct mt_report_run *run = longest(&pairs.autocast, &index);
    if (run != NULL)
        status = add_run(report, pairs.baselines[index]);
    else
        run = longest(&all, &index);
    if (status == MT_OK && run != NULL)
        status = add_run(report, run);
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&all);
    return status;
}
