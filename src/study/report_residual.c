/* The size of one tensor of the residual stream: by formula, and as the trace has it. */
#include "base/checked.h"
#include "study/report_sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The category of what the sums x + f(x) make. */
static const char STREAM_CATEGORY[] = "Block";

enum { ELEMENT_BYTES = 4 };

/* batch · seq · d_model · 4; 0 if that does not fit. */
static uint64_t formula_bytes(const struct mt_report_run *run)
{
    uint64_t bytes = ELEMENT_BYTES;
    const int64_t factors[] = {run->batch, run->seq, run->d_model};
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        if (factors[i] < 0 || !mt_checked_mul(bytes, (uint64_t)factors[i], &bytes))
            return 0;
    return bytes;
}

/* The largest block of the category that forward asked for; 0: there is none. */
static mt_status measured_bytes(struct mt_report *report, const struct mt_report_run *run, uint64_t *out)
{
    struct mt_category_row *rows;
    size_t count;
    mt_status status = mt_trace_categories(report->trace, run->run, "forward", &rows, &count);
    *out = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (strcmp(rows[i].category, STREAM_CATEGORY) == 0)
            *out = rows[i].max_bytes;
    free(rows);
    return status;
}

/* One row for each model, batch and length, whatever else differs. */
static bool was_before(const struct mt_report_rows *rows, size_t index)
{
    const struct mt_report_run *run = rows->runs[index];
    for (size_t i = 0; i < index; i++)
        if (strcmp(rows->runs[i]->model, run->model) == 0 && rows->runs[i]->batch == run->batch &&
            rows->runs[i]->seq == run->seq && strcmp(rows->runs[i]->autocast, run->autocast) == 0)
            return true;
    return false;
}

/* Backwards, so that rows before a row that is looked at are still there. */
static void drop_repeated(struct mt_report_rows *rows)
{
    for (size_t i = rows->count; i-- > 0;)
        if (was_before(rows, i)) {
            memmove(&rows->runs[i], &rows->runs[i + 1], (rows->count - i - 1) * sizeof *rows->runs);
            rows->count--;
        }
}

static void add_row(struct mt_page *page, const struct mt_report_run *run, uint64_t measured)
{
    char formula[4 * MT_BYTES_TEXT];
    mt_page_cell(page, run->model);
    mt_page_cell(page, run->steps.precision);
    mt_page_cell_count(page, run->seq);
    snprintf(formula, sizeof formula, "%" PRId64 " · %" PRId64 " · %" PRId64 " · %d", run->batch, run->seq,
             run->d_model, ELEMENT_BYTES);
    mt_page_cell(page, formula);
    mt_page_cell_bytes(page, formula_bytes(run));
    mt_page_cell_bytes(page, measured);
    mt_page_cell(page, measured == formula_bytes(run) ? "equal" : "different");
}

static mt_status add_rows(struct mt_report *report, const struct mt_report_rows *rows)
{
    size_t equal = 0, under_autocast = 0;
    mt_status status = MT_OK;
    for (size_t i = 0; i < rows->count && status == MT_OK; i++) {
        uint64_t measured;
        status = measured_bytes(report, rows->runs[i], &measured);
        if (status == MT_OK)
            add_row(report->page, rows->runs[i], measured);
        equal += status == MT_OK && measured == formula_bytes(rows->runs[i]);
        under_autocast += strcmp(rows->runs[i]->autocast, "off") != 0;
    }
    if (status != MT_OK)
        return status;
    if (equal < rows->count)
        mt_page_say(report->page, "%zu of %zu rows are what the formula says.", equal, rows->count);
    else
        mt_page_say(report->page, "In every row the trace's tensor is what the formula says, to the byte.%s",
                    under_autocast > 0 ? " So the stream stays fp32 under autocast, too: it casts the operands of "
                                         "matrix products, not what they are added to."
                                       : "");
    return status;
}

mt_status mt_report_residual(struct mt_report *report)
{
    static const struct mt_column columns[] = {{"model", MT_ALIGN_LEFT},
                                               {"precision", MT_ALIGN_LEFT},
                                               {"seq", MT_ALIGN_RIGHT},
                                               {"batch · seq · d_model · 4", MT_ALIGN_RIGHT},
                                               {"by formula", MT_ALIGN_RIGHT},
                                               {"in the trace", MT_ALIGN_RIGHT},
                                               {"", MT_ALIGN_LEFT}};
    struct mt_report_rows rows = mt_report_select(report, NULL, NULL);
    drop_repeated(&rows);
    mt_page_section(report->page, "residual", "The residual stream");
    mt_page_table(report->page, "residual", "One tensor of the residual stream", columns,
                  sizeof columns / sizeof columns[0]);
    mt_status status = add_rows(report, &rows);
    mt_report_rows_release(&rows);
    return status;
}
