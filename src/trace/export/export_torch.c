/* A run as a memory snapshot of PyTorch, for memory_viz and for scripts that read such snapshots.
 *
 *  device_traces         every event of memory, a free as two entries (requested, completed)
 *  segments              the memory at the end of the run, tiled by blocks
 *  external_annotations  spans, steps and phases, each with the number of entries before it
 *  memtrace              the run
 *
 * docs/export.md describes every member, for readers. */
#include "answer/escape.h"
#include "answer/row.h"
#include "base/order.h"
#include "trace/export/export.h"
#include "trace/export/export_annotations.h"
#include "trace/export/export_segments.h"
#include "trace/export/plain_writer.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <stdlib.h>

/* An export under way. Invariants: `growing` ascends; has_unknown is true once an entry of category "unknown" is
 * written, without which memory_viz ignores all categories. */
struct torch_export {
    const struct mt_export_run *from;
    struct mt_plain_writer writer;
    struct mt_walk *walk;
    const struct mt_label_row *labels;
    const struct mt_span_row *spans;
    size_t label_count;
    uint32_t *growing;
    size_t growing_count;
    struct mt_export_segments segments;
    bool has_unknown;
};

/* Numbers of kept values: two for each label, then one for each span. */
static uint32_t kept_metadata(uint32_t label)
{
    return 2 * label;
}

static uint32_t kept_frames(uint32_t label)
{
    return 2 * label + 1;
}

static uint32_t first_kept_span(const struct torch_export *export)
{
    return 2 * (uint32_t) export->label_count;
}

static void add_frame(struct mt_plain_writer *writer, const char *name, const char *filename)
{
    mt_plain_open_dict(writer);
    mt_plain_add_word(writer, "name", name);
    mt_plain_add_word(writer, "filename", filename);
    mt_plain_add_number(writer, "line", 0);
    mt_plain_close_dict(writer);
}

/* Adds the op, then the spans, innermost first. */
static void add_frame_list(struct torch_export *export, uint32_t label, uint32_t span)
{
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_open_list(writer);
    add_frame(writer, export->labels[label].op, export->labels[label].category);
    for (; span != 0; span = export->spans[span].parent)
        add_frame(writer, export->spans[span].name, export->spans[span].path);
    mt_plain_close_list(writer);
}

/* Adds the frames of a request. Those of a label are kept, unless the request came from another span. */
static void add_frames(struct torch_export *export, uint32_t label, uint32_t span)
{
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_key(writer, "frames");
    bool is_labels = span == mt_walk_label_span(export->walk, label);
    if (is_labels && mt_plain_recall(writer, kept_frames(label)))
        return;
    if (is_labels)
        mt_plain_keep_begin(writer, kept_frames(label));
    add_frame_list(export, label, span);
    if (is_labels)
        mt_plain_keep_end(writer, kept_frames(label));
}

static void add_no_frames(struct mt_plain_writer *writer)
{
    mt_plain_key(writer, "frames");
    mt_plain_open_list(writer);
    mt_plain_close_list(writer);
}

static void add_metadata(struct torch_export *export, uint32_t number)
{
    assert(number < export->label_count);
    struct mt_plain_writer *writer = &export->writer;
    const struct mt_label_row *label = &export->labels[number];
    mt_plain_key(writer, "user_metadata");
    if (mt_plain_recall(writer, kept_metadata(number)))
        return;
    mt_plain_keep_begin(writer, kept_metadata(number));
    mt_plain_open_dict(writer);
    mt_plain_add_word(writer, "category", label->category);
    mt_plain_add_word(writer, "role", label->role);
    mt_plain_add_word(writer, "role_source", label->role_source);
    mt_plain_add_word(writer, "op", label->op);
    mt_plain_add_word(writer, "phase", label->phase);
    mt_plain_add_word(writer, "span", label->span);
    if (label->layer >= 0)
        mt_plain_add_number(writer, "layer", (uint64_t)label->layer);
    mt_plain_add_word(writer, "dtype", label->dtype);
    mt_plain_add_word(writer, "shape", label->shape);
    mt_plain_close_dict(writer);
    mt_plain_keep_end(writer, kept_metadata(number));
}

/* Opens an entry with the members that all have. */
static void open_entry(struct torch_export *export, const char *action, const struct mt_walk_event *event,
                       uint64_t size)
{
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_open_dict(writer);
    mt_plain_add_word(writer, "action", action);
    if (event->kind == MT_EVENT_OOM) {
        uint64_t capacity = export->from->run->capacity_bytes, reserved = export->segments.mapped_bytes;
        mt_plain_add_number(writer, "device_free", capacity > reserved ? capacity - reserved : 0);
    } else {
        mt_plain_add_number(writer, "addr", event->address);
    }
    mt_plain_add_number(writer, "size", size);
    mt_plain_add_number(writer, "stream", event->stream);
    mt_plain_add_number(writer, "time_us", event->time_ns / 1000);
}

static void close_entry(struct mt_plain_writer *writer)
{
    mt_plain_close_dict(writer);
    mt_plain_line(writer);
}

static void write_alloc(struct torch_export *export, const struct mt_walk_event *event)
{
    open_entry(export, "alloc", event, event->value);
    mt_plain_add_number(&export->writer, "block_bytes", event->block_bytes);
    if (export->has_unknown)
        mt_plain_add_word(&export->writer, "category", export->labels[event->label].category);
    add_frames(export, event->label, event->span);
    add_metadata(export, event->label);
    close_entry(&export->writer);
}

static void write_free(struct torch_export *export, const struct mt_walk_event *event)
{
    static const char *const actions[] = {"free_requested", "free_completed"};
    for (int i = 0; i < 2; i++) {
        open_entry(export, actions[i], event, event->value);
        add_no_frames(&export->writer);
        close_entry(&export->writer);
    }
}

static int compare_numbers(const void *left, const void *right)
{
    return MT_COMPARE(*(const uint32_t *)left, *(const uint32_t *)right);
}

static bool is_growing(const struct torch_export *export, uint32_t segment)
{
    return export->growing_count > 0 &&
           bsearch(&segment, export->growing, export->growing_count, sizeof segment, compare_numbers) != NULL;
}

static void write_segment_event(struct torch_export *export, const struct mt_walk_event *event)
{
    assert(event->kind == MT_EVENT_SEGMENT_MAP || event->kind == MT_EVENT_SEGMENT_UNMAP);
    bool begins = event->kind == MT_EVENT_SEGMENT_MAP, grows = is_growing(export, event->segment);
    const char *action = begins ? (grows ? "segment_map" : "segment_alloc") : grows ? "segment_unmap" : "segment_free";
    open_entry(export, action, event, event->block_bytes);
    mt_plain_add_word(&export->writer, "category", "unknown");
    mt_plain_add_number(&export->writer, "segment", event->segment);
    mt_plain_add_number(&export->writer, "offset", event->offset);
    add_no_frames(&export->writer);
    close_entry(&export->writer);
    export->has_unknown = true;
    if (begins)
        mt_export_segments_map(&export->segments, event);
    else
        mt_export_segments_unmap(&export->segments, event);
}

static void write_oom(struct torch_export *export, const struct mt_walk_event *event)
{
    open_entry(export, "oom", event, event->value);
    add_frames(export, event->label, event->span);
    add_metadata(export, event->label);
    close_entry(&export->writer);
}

static void write_entry(struct torch_export *export, const struct mt_walk_event *event)
{
    switch (event->kind) {
    case MT_EVENT_ALLOC:
        write_alloc(export, event);
        break;
    case MT_EVENT_FREE:
        write_free(export, event);
        break;
    case MT_EVENT_SEGMENT_MAP:
    case MT_EVENT_SEGMENT_UNMAP:
        write_segment_event(export, event);
        break;
    case MT_EVENT_OOM:
        write_oom(export, event);
        break;
    default:
        break;
    }
}

/* Calls `visit` with every event of the run that the walk has not passed yet. */
static mt_status walk_on(struct torch_export *export,
                         void (*visit)(struct torch_export *, const struct mt_walk_event *))
{
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    while (status == MT_OK && (status = mt_walk_next(export->walk, &event, &more)) == MT_OK && more) {
        visit(export, &event);
        status = mt_output_file_go_on(export->writer.file);
    }
    return status;
}

static mt_status write_device_traces(struct torch_export *export)
{
    mt_plain_key(&export->writer, "device_traces");
    mt_plain_open_list(&export->writer);
    mt_plain_open_list(&export->writer);
    mt_plain_line(&export->writer);
    mt_status status = walk_on(export, write_entry);
    mt_plain_close_list(&export->writer);
    mt_plain_close_list(&export->writer);
    mt_plain_line(&export->writer);
    return status;
}

/* Writes a block of a segment. One that is not live has no `alloc`. */
static void write_block(struct torch_export *export, const struct mt_export_tile *tile)
{
    struct mt_plain_writer *writer = &export->writer;
    const struct mt_walk_event *alloc = tile->alloc;
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "address", tile->address);
    mt_plain_add_number(writer, "size", tile->bytes);
    mt_plain_add_number(writer, "requested_size", alloc != NULL ? alloc->value : 0);
    mt_plain_add_word(writer, "state", alloc != NULL ? "active_allocated" : "inactive");
    if (alloc != NULL) {
        add_frames(export, alloc->label, alloc->span);
        add_metadata(export, alloc->label);
    } else {
        add_no_frames(writer);
    }
    mt_plain_close_dict(writer);
}

/* PyTorch's small blocks lie in segments of up to 2 MiB. */
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)

static void open_segment(struct torch_export *export, const struct mt_export_piece *piece)
{
    struct mt_plain_writer *writer = &export->writer;
    uint64_t bytes = piece->range.end - piece->range.begin;
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "device", 0);
    mt_plain_add_number(writer, "address", piece->range.begin);
    mt_plain_add_number(writer, "total_size", bytes);
    mt_plain_add_number(writer, "allocated_size", piece->allocated_bytes);
    mt_plain_add_number(writer, "active_size", piece->allocated_bytes);
    mt_plain_add_number(writer, "requested_size", piece->requested_bytes);
    mt_plain_add_number(writer, "stream", piece->stream);
    mt_plain_add_word(writer, "segment_type", bytes > SMALL_SEGMENT_BYTES ? "large" : "small");
    mt_plain_key(writer, "segment_pool_id");
    mt_plain_open_list(writer);
    mt_plain_number(writer, 0);
    mt_plain_number(writer, 0);
    mt_plain_close_list(writer);
    mt_plain_key(writer, "is_expandable");
    mt_plain_truth(writer, is_growing(export, piece->segment));
    mt_plain_add_number(writer, "segment", piece->segment);
    add_no_frames(writer);
    mt_plain_key(writer, "blocks");
    mt_plain_open_list(writer);
}

static void close_segment(struct mt_plain_writer *writer)
{
    mt_plain_close_list(writer);
    close_entry(writer);
}

static mt_status write_segments(struct torch_export *export)
{
    struct mt_export_piece *piece = NULL;
    struct mt_export_tile tile;
    size_t count;
    struct mt_walk_event *live = mt_walk_live(export->walk, &count);
    mt_status status = mt_export_segments_place(&export->segments, live, count);
    mt_plain_key(&export->writer, "segments");
    mt_plain_open_list(&export->writer);
    mt_plain_line(&export->writer);
    while (status == MT_OK && (piece = mt_export_segments_next(&export->segments, piece)) != NULL) {
        open_segment(export, piece);
        for (tile = mt_export_tile_begin(piece); mt_export_tile_next(&export->segments, piece, &tile);)
            write_block(export, &tile);
        close_segment(&export->writer);
        status = mt_output_file_go_on(export->writer.file);
    }
    mt_plain_close_list(&export->writer);
    mt_plain_line(&export->writer);
    free(live);
    return status;
}

static mt_status write_annotations(struct torch_export *export)
{
    mt_plain_key(&export->writer, "external_annotations");
    return mt_export_annotations(&export->writer, export->walk, first_kept_span(export));
}

static mt_status write_run(struct torch_export *export)
{
    struct mt_plain_writer *writer = &export->writer;
    const struct mt_run *run = export->from->run;
    struct mt_setting_row *settings;
    size_t count;
    MT_TRY(mt_trace_settings(export->from->trace, run, &settings, &count));
    mt_plain_key(writer, "allocator_settings");
    mt_plain_open_dict(writer);
    mt_plain_add_text(writer, "alloc", mt_setting_find(settings, count, "alloc"));
    mt_plain_close_dict(writer);
    mt_plain_key(writer, "memtrace");
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "run", (uint64_t)run->id);
    mt_plain_add_text(writer, "name", run->name != NULL ? run->name : "");
    mt_plain_add_text(writer, "state", run->state);
    mt_plain_add_text(writer, "started_at", run->started_at);
    mt_plain_add_text(writer, "device", run->device);
    mt_plain_add_number(writer, "capacity_bytes", run->capacity_bytes);
    mt_plain_key(writer, "settings");
    mt_plain_open_dict(writer);
    for (size_t i = 0; i < count; i++)
        mt_plain_add_text(writer, settings[i].name, settings[i].value);
    mt_plain_close_dict(writer);
    mt_plain_close_dict(writer);
    free(settings);
    return MT_OK;
}

static mt_status write_document(struct torch_export *export)
{
    mt_plain_open_dict(&export->writer);
    mt_status status = write_device_traces(export);
    if (status == MT_OK)
        status = write_segments(export);
    if (status == MT_OK)
        status = write_annotations(export);
    if (status == MT_OK)
        status = write_run(export);
    mt_plain_close_dict(&export->writer);
    return status;
}

mt_status mt_export_torch(const struct mt_export_run *from, struct mt_output_file *file, mt_plain_form form)
{
    struct torch_export export = {.from = from};
    size_t span_count;
    mt_status status = mt_trace_growing_segments(from->trace, from->run, &export.growing, &export.growing_count);
    if (status == MT_OK)
        status = mt_walk_begin(from->trace, from->run, &export.walk);
    if (status == MT_OK) {
        export.labels = mt_walk_labels(export.walk, &export.label_count);
        export.spans = mt_walk_spans(export.walk, &span_count);
        mt_export_segments_create(&export.segments);
        mt_plain_begin(&export.writer, file, form);
        status = write_document(&export);
        status = mt_status_keep(status, mt_plain_end(&export.writer));
        mt_export_segments_release(&export.segments);
    }
    mt_walk_end(export.walk);
    free(export.growing);
    return status;
}
