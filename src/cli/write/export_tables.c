/* Exports that are tables: blocks, events, peaks.
 *
 * An `id` is the position of an event in its run, from 0, the same in every table: that of an allocation names its block. */
#include "cli/write/export_what.h"
#include "trace/query/blocks.h"

#include <inttypes.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Events of the run: first <= id <= last. */
struct window {
    int64_t first, last;
};

static mt_status find_window(const struct mt_question *question, int64_t step, struct window *out)
{
    const struct mt_run *run = question->run;
    *out = (struct window){run->first_event, run->first_event + run->event_count - 1};
    if (step == MT_ALL_STEPS)
        return MT_OK;
    return mt_trace_step_events(question->trace, run, step, &out->first, &out->last);
}

static const char *const block_columns[] = {
    "id",       "alloc_ns", "free_id", "free_ns", "requested_bytes", "block_bytes", "segment", "offset", "stream",
    "category", "role",     "op",      "phase",   "dtype",           "shape",       "layer",   "span"};

static void add_end(struct mt_export_rows *rows, const struct mt_block_row *block, int64_t first_event)
{
    if (block->free_event == 0) {
        mt_export_add_unknown(rows);
        mt_export_add_unknown(rows);
        return;
    }
    mt_export_add_integer(rows, block->free_event - first_event);
    mt_export_add_size(rows, block->free_ns);
}

static void add_label(struct mt_export_rows *rows, const struct mt_label_row *label)
{
    const char *texts[] = {label->category, label->role, label->op, label->phase, label->dtype, label->shape};
    for (size_t i = 0; i < COUNT(texts); i++)
        mt_export_add_text(rows, texts[i]);
    if (label->layer < 0)
        mt_export_add_unknown(rows);
    else
        mt_export_add_integer(rows, label->layer);
    mt_export_add_text(rows, label->span);
}

static mt_status write_block(struct mt_export_rows *rows, const struct mt_block_row *block,
                             const struct mt_label_row *label, int64_t first_event)
{
    mt_export_add_integer(rows, block->alloc_event - first_event);
    mt_export_add_size(rows, block->alloc_ns);
    add_end(rows, block, first_event);
    mt_export_add_size(rows, block->requested_bytes);
    mt_export_add_size(rows, block->block_bytes);
    mt_export_add_integer(rows, block->segment);
    mt_export_add_size(rows, block->offset);
    mt_export_add_integer(rows, block->stream);
    add_label(rows, label);
    return mt_export_row_end(rows);
}

mt_status mt_export_blocks(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                           int64_t step)
{
    struct mt_label_row *labels = NULL;
    struct mt_block_row *blocks = NULL;
    size_t label_count, count = 0;
    struct window window;
    struct mt_export_rows rows;
    mt_status status = find_window(question, step, &window);
    if (status == MT_OK)
        status = mt_trace_blocks(question->trace, question->run, window.first, window.last, &blocks, &count);
    if (status == MT_OK)
        status = mt_trace_labels(question->trace, question->run, &labels, &label_count);
    if (status == MT_OK) {
        mt_export_rows_begin(&rows, file, form, mt_question_json(question, "export_blocks"), block_columns,
                             COUNT(block_columns));
        for (size_t i = 0; i < count && status == MT_OK; i++)
            status = write_block(&rows, &blocks[i], &labels[blocks[i].label], question->run->first_event);
        mt_export_rows_end(&rows);
    }
    free(labels);
    free(blocks);
    return status;
}

static const char *const event_columns[] = {"n",           "action",   "id",   "time_ns", "stream", "requested_bytes",
                                            "block_bytes", "category", "role", "op",      "phase",  "span"};

/* Where events go, once it is known that there are some to ask for. */
struct event_export {
    const struct mt_question *question;
    struct mt_output_file *file;
    mt_export_form form;
    struct mt_export_rows rows;
};

static mt_status begin_events(void *context)
{
    struct event_export *events = context;
    mt_export_rows_begin(&events->rows, events->file, events->form, mt_question_json(events->question, "export_events"),
                         event_columns, COUNT(event_columns));
    return MT_OK;
}

static mt_status write_event(void *context, const struct mt_event_row *event)
{
    struct mt_export_rows *rows = &((struct event_export *)context)->rows;
    const char *texts[] = {event->category, event->role, event->op, event->phase, event->span};
    mt_export_add_integer(rows, event->n);
    mt_export_add_text(rows, event->action);
    mt_export_add_integer(rows, event->id);
    mt_export_add_size(rows, event->time_ns);
    mt_export_add_integer(rows, event->stream);
    mt_export_add_size(rows, event->bytes);
    mt_export_add_size(rows, event->block_bytes);
    for (size_t i = 0; i < COUNT(texts); i++)
        mt_export_add_text(rows, texts[i]);
    return mt_export_row_end(rows);
}

mt_status mt_export_events(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                           int64_t step)
{
    struct event_export events = {.question = question, .file = file, .form = form};
    struct mt_event_visitor visitor = {&events, begin_events, write_event};
    mt_status status = mt_trace_events(question->trace, question->run, step, &visitor);
    if (status == MT_OK)
        mt_export_rows_end(&events.rows);
    return status;
}

/* A row a category, and of reserved bytes one for what no block held: the `bytes` of a peak sum to it. */
static const char *const peak_columns[] = {"scope", "step", "measure",  "peak_bytes", "id",    "time_ns",
                                           "phase", "span", "category", "bytes",      "blocks"};

static const char cached[] = "(cached)";

static void add_scope(struct mt_export_rows *rows, int64_t step)
{
    mt_export_add_text(rows, step == MT_ALL_STEPS ? "run" : step < 0 ? "init" : "step");
    if (step < 0)
        mt_export_add_unknown(rows);
    else
        mt_export_add_integer(rows, step);
}

/* What a row is about. */
struct peak_scope {
    int64_t step, first_event;
    mt_measure measure;
};

static mt_status write_share(struct mt_export_rows *rows, const struct peak_scope *scope,
                             const struct mt_peak_row *peak, const struct mt_peak_share *share)
{
    bool is_requested = scope->measure == MT_MEASURE_REQUESTED;
    add_scope(rows, scope->step);
    mt_export_add_text(rows, mt_measure_name(scope->measure));
    mt_export_add_size(rows, peak->bytes);
    mt_export_add_integer(rows, peak->event - scope->first_event);
    mt_export_add_size(rows, peak->time_ns);
    mt_export_add_text(rows, peak->phase);
    mt_export_add_text(rows, peak->span);
    mt_export_add_text(rows, share->category);
    mt_export_add_size(rows, is_requested ? share->requested_bytes : share->allocated_bytes);
    mt_export_add_size(rows, share->blocks);
    return mt_export_row_end(rows);
}

static mt_status write_peak(struct mt_export_rows *rows, const struct peak_scope *scope, const struct mt_peak_row *peak)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < peak->share_count && status == MT_OK; i++)
        status = write_share(rows, scope, peak, &peak->shares[i]);
    struct mt_peak_share rest = {.category = cached, .allocated_bytes = peak->cached_bytes};
    if (status == MT_OK && peak->cached_bytes > 0)
        status = write_share(rows, scope, peak, &rest);
    return status;
}

static mt_status write_peaks_of(const struct mt_question *question, int64_t step, struct mt_export_rows *rows)
{
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        struct peak_scope scope = {step, question->run->first_event, (mt_measure)measure};
        struct mt_peak_row peak;
        status = mt_trace_step_peak(question->trace, question->run, step, scope.measure, &peak);
        if (status == MT_OK)
            status = write_peak(rows, &scope, &peak);
        mt_peak_row_release(&peak);
    }
    return status;
}

mt_status mt_export_peaks(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                          int64_t step)
{
    struct mt_export_rows rows;
    mt_status status = mt_run_check_step(question->run, step);
    if (status != MT_OK)
        return status;
    mt_export_rows_begin(&rows, file, form, mt_question_json(question, "export_peaks"), peak_columns,
                         COUNT(peak_columns));
    int64_t last = step == MT_ALL_STEPS ? question->run->steps - 1 : step;
    for (int64_t scope = step; scope <= last && status == MT_OK; scope++)
        status = write_peaks_of(question, scope, &rows);
    mt_export_rows_end(&rows);
    return status;
}
