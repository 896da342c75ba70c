/* Exports that are tables: blocks, events, peaks.
 *
 * An `id` is the position of an event in its run, from 0, the same in every table. A block has the id of its
 * allocation. */
#include "trace/export/export.h"

#include "answer/answer.h"
#include "trace/query/blocks.h"

#include <stdlib.h>

/* Events of the run: first <= id <= last. */
struct window {
    int64_t first, last;
};

static mt_status find_window(const struct mt_export_run *from, int64_t step, struct window *out)
{
    const struct mt_run *run = from->run;
    *out = (struct window){run->first_event, run->first_event + run->event_count - 1};
    if (step == MT_ALL_STEPS)
        return MT_OK;
    return mt_trace_step_events(from->trace, run, step, &out->first, &out->last);
}

/* A block with its label. */
struct block_row {
    int64_t id, free_id; /* free_id -1: it was never freed */
    int64_t alloc_ns, free_ns;
    uint64_t requested_bytes, block_bytes, offset;
    int64_t segment, stream;
    const char *category, *role, *role_source, *op, *phase, *dtype, *shape, *span;
    int64_t layer; /* -1: of none */
};

#define ROW struct block_row
static const struct mt_field block_fields[] = {
    MT_INTEGER(ROW, id, "id", NULL, "the position of its allocation among the run's events, from 0"),
    MT_INTEGER(ROW, alloc_ns, "alloc_ns", NULL, "since the run began, by the device's clock"),
    MT_KNOWN(ROW, free_id, "free_id", NULL, "the position of its free; null: never freed"),
    MT_KNOWN(ROW, free_ns, "free_ns", NULL, NULL),
    MT_BYTES(ROW, requested_bytes, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, block_bytes, "block_bytes", NULL, "rounding included"),
    MT_INTEGER(ROW, segment, "segment", NULL, "its birth number"),
    MT_BYTES(ROW, offset, "offset", NULL, "in the segment"),
    MT_INTEGER(ROW, stream, "stream", NULL, NULL),
    MT_TEXT(ROW, category, "category", NULL, NULL),
    MT_TEXT(ROW, role, "role", NULL, NULL),
    MT_NAME(ROW, role_source, "role_source", NULL, "declared, observed or inferred"),
    MT_TEXT(ROW, op, "op", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, dtype, "dtype", NULL, NULL),
    MT_TEXT(ROW, shape, "shape", NULL, NULL),
    MT_KNOWN(ROW, layer, "layer", NULL, "null: of none"),
    MT_TEXT(ROW, span, "span", NULL, NULL),
    MT_FIELDS_END,
};
#undef ROW
const struct mt_row_type mt_export_block_type = MT_ROW_TYPE(struct block_row, block_fields);

static struct block_row block_row_of(const struct mt_block_row *block, const struct mt_label_row *label, int64_t first)
{
    bool is_freed = block->free_event != 0;
    return (struct block_row){
        .id = block->alloc_event - first,
        .alloc_ns = (int64_t)block->alloc_ns,
        .free_id = is_freed ? block->free_event - first : -1,
        .free_ns = is_freed ? (int64_t)block->free_ns : -1,
        .requested_bytes = block->requested_bytes,
        .block_bytes = block->block_bytes,
        .segment = block->segment,
        .offset = block->offset,
        .stream = block->stream,
        .category = label->category,
        .role = label->role,
        .role_source = label->role_source,
        .op = label->op,
        .phase = label->phase,
        .dtype = label->dtype,
        .shape = label->shape,
        .layer = label->layer,
        .span = label->span,
    };
}

static mt_status write_blocks(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                              int64_t step)
{
    struct mt_label_row *labels = NULL;
    struct mt_block_row *blocks = NULL;
    size_t label_count, count = 0;
    struct window window;
    struct mt_row_stream rows;
    mt_status status = find_window(from, step, &window);
    MT_THEN(status, mt_trace_blocks(from->trace, from->run, window.first, window.last, &blocks, &count));
    MT_THEN(status, mt_trace_labels(from->trace, from->run, &labels, &label_count));
    if (status == MT_OK) {
        mt_row_stream_begin(&rows, file, form, &mt_export_block_type, mt_answer_begin("export_blocks", from->run));
        for (size_t i = 0; i < count && status == MT_OK; i++) {
            struct block_row row = block_row_of(&blocks[i], &labels[blocks[i].label], from->run->first_event);
            status = mt_row_stream_add(&rows, &row);
        }
        mt_row_stream_end(&rows);
    }
    free(labels);
    free(blocks);
    return status;
}

#define ROW struct mt_event_row
static const struct mt_field event_fields[] = {
    MT_INTEGER(ROW, n, "n", NULL, "from 0, in this answer"),
    MT_TEXT(ROW, action, "action", NULL, "`alloc` or `free`"),
    MT_INTEGER(ROW, id, "id", NULL, "of the block's allocation; -1: not known"),
    MT_COUNT(ROW, time_ns, "time_ns", NULL, NULL),
    MT_STREAM(ROW, stream, "stream", NULL, NULL),
    MT_BYTES(ROW, bytes, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, block_bytes, "block_bytes", NULL, NULL),
    MT_TEXT(ROW, category, "category", NULL, NULL),
    MT_TEXT(ROW, role, "role", NULL, NULL),
    MT_TEXT(ROW, op, "op", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, "in which the block was allocated"),
    MT_TEXT(ROW, span, "span", NULL, NULL),
    MT_FIELDS_END,
};
#undef ROW
const struct mt_row_type mt_export_event_type = MT_ROW_TYPE(struct mt_event_row, event_fields);

/* The state of an export of events. `rows` begin once it is known that there are events. */
struct event_export {
    const struct mt_export_run *from;
    struct mt_output_file *file;
    mt_row_form form;
    struct mt_row_stream rows;
};

static mt_status begin_events(void *context)
{
    struct event_export *events = context;
    mt_row_stream_begin(&events->rows, events->file, events->form, &mt_export_event_type,
                        mt_answer_begin("export_events", events->from->run));
    return MT_OK;
}

static mt_status write_event(void *context, const struct mt_event_row *event)
{
    return mt_row_stream_add(&((struct event_export *)context)->rows, event);
}

static mt_status write_events(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                              int64_t step)
{
    struct event_export events = {.from = from, .file = file, .form = form};
    struct mt_event_visitor visitor = {&events, begin_events, write_event};
    mt_status status = mt_trace_events(from->trace, from->run, step, &visitor);
    if (status == MT_OK)
        mt_row_stream_end(&events.rows);
    return status;
}

/* The share of a category in a peak; for reserved bytes, also the memory outside blocks. The `bytes` of a peak's
 * rows sum to it. */
struct peak_row {
    const char *scope;
    int64_t step;
    const char *measure;
    uint64_t peak_bytes;
    int64_t id;
    uint64_t time_ns;
    const char *phase, *span, *category;
    uint64_t bytes, blocks;
};

#define ROW struct peak_row
static const struct mt_field peak_fields[] = {
    MT_TEXT(ROW, scope, "scope", NULL, "`run`, `init` or `step`"),
    MT_STEP(ROW, step, "step", NULL, NULL),
    MT_TEXT(ROW, measure, "measure", NULL, "`allocated`, `requested` or `reserved`"),
    MT_BYTES(ROW, peak_bytes, "peak_bytes", NULL, NULL),
    MT_INTEGER(ROW, id, "id", NULL, "the event that reached it"),
    MT_COUNT(ROW, time_ns, "time_ns", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, span, "span", NULL, NULL),
    MT_TEXT(ROW, category, "category", NULL, "`(cached)`: what no block held"),
    MT_BYTES(ROW, bytes, "bytes", NULL, "the category's part of `peak_bytes`"),
    MT_COUNT(ROW, blocks, "blocks", NULL, NULL),
    MT_FIELDS_END,
};
#undef ROW
const struct mt_row_type mt_export_peak_type = MT_ROW_TYPE(struct peak_row, peak_fields);

static mt_status write_peak(struct mt_row_stream *rows, struct peak_row row, bool is_requested,
                            const struct mt_peak_row *peak)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < peak->share_count && status == MT_OK; i++) {
        const struct mt_peak_share *share = &peak->shares[i];
        row.category = share->name;
        row.bytes = is_requested ? share->requested_bytes : share->allocated_bytes;
        row.blocks = share->blocks;
        status = mt_row_stream_add(rows, &row);
    }
    if (status != MT_OK || peak->cached_bytes == 0)
        return status;
    row.category = "(cached)";
    row.bytes = is_requested ? 0 : peak->cached_bytes;
    row.blocks = 0;
    return mt_row_stream_add(rows, &row);
}

static mt_status write_peaks_of(const struct mt_export_run *from, int64_t step, struct mt_row_stream *rows)
{
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        struct mt_peak_row peak;
        status = mt_trace_step_peak(from->trace, from->run, step, (mt_measure)measure, &peak);
        const struct peak_row row = {
            .scope = step == MT_ALL_STEPS ? "run"
                     : step < 0           ? "init"
                                          : "step",
            .step = step,
            .measure = mt_measure_name((mt_measure)measure),
            .peak_bytes = peak.bytes,
            .id = peak.event - from->run->first_event,
            .time_ns = peak.time_ns,
            .phase = peak.phase,
            .span = peak.span,
        };
        MT_THEN(status, write_peak(rows, row, measure == MT_MEASURE_REQUESTED, &peak));
        mt_peak_row_release(&peak);
    }
    return status;
}

static mt_status write_all_peaks(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                                 int64_t step)
{
    struct mt_row_stream rows;
    mt_status status = mt_run_check_step(from->run, step);
    if (status != MT_OK)
        return status;
    mt_row_stream_begin(&rows, file, form, &mt_export_peak_type, mt_answer_begin("export_peaks", from->run));
    int64_t last = step == MT_ALL_STEPS ? from->run->steps - 1 : step;
    for (int64_t scope = step; scope <= last && status == MT_OK; scope++)
        status = write_peaks_of(from, scope, &rows);
    mt_row_stream_end(&rows);
    return status;
}

mt_status mt_export_tables(const struct mt_export_request *request, struct mt_output_file *file)
{
    const mt_row_form form = request->format == MT_EXPORT_JSON ? MT_ROWS_JSON : MT_ROWS_CSV;
    if (request->table == MT_EXPORT_BLOCKS)
        return write_blocks(&request->from, file, form, request->step);
    if (request->table == MT_EXPORT_EVENTS)
        return write_events(&request->from, file, form, request->step);
    return write_all_peaks(&request->from, file, form, request->step);
}
