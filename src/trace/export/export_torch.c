/* A run as a memory snapshot of PyTorch, for memory_viz and for scripts that read such snapshots.
 *
 *  device_traces         the events of memory up to the moment, a free as two entries (requested, completed)  segments
 * the memory at that moment, tiled by blocks  memtrace              the run, and the events of memory after the moment
 * external_annotations  spans, steps and phases, each with the number of entries before it
 *
 * Viewers go backwards from the segments along the entries before them. So the moment is one at which a program would
 * take a snapshot: the end, but before a run frees all of its blocks.
 *
 * docs/export.md describes every member, for readers. */
#include "answer/row.h"
#include "base/order.h"
#include "trace/export/export.h"
#include "trace/export/export_names.h"
#include "trace/export/export_segments.h"
#include "trace/query/trace.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state of an export. Invariants: `growing` ascends; has_unknown is true once an entry of category "unknown" is
 * written (without one, memory_viz ignores all categories); no event after `moment` is written before the segments. */
struct torch_export {
    const struct mt_export_run *from;
    struct mt_plain_writer writer;
    struct mt_walk *walk;
    struct mt_export_names names;
    int64_t moment; /* position of the last event before the segments; -1: before the first event */
    uint64_t start_us;
    uint32_t *growing;
    size_t growing_count;
    struct mt_export_segments segments;
    bool has_unknown;
};

/* Opens an entry with the members of all entries. */
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
    mt_plain_add_number(writer, "time_us", export->start_us + event->time_ns / 1000);
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
        mt_plain_add_word(&export->writer, "category", export->names.labels[event->label].category);
    mt_export_frames(&export->names, event);
    mt_export_metadata(&export->names, event->label);
    close_entry(&export->writer);
}

/* Writes the new label of a block, like PyTorch's entries with new metadata. It has no stack. */
static void write_relabel(struct torch_export *export, const struct mt_walk_event *event)
{
    assert(event->kind == MT_EVENT_RELABEL && event->stack == 0);
    open_entry(export, "annotate", event, event->value);
    mt_export_frames(&export->names, event);
    mt_export_metadata(&export->names, event->label);
    close_entry(&export->writer);
}

/* Repeats the block's frames and label with its free: viewers that go back in time look for them there. */
static void write_free(struct torch_export *export, const struct mt_walk_event *event)
{
    open_entry(export, "free_requested", event, event->value);
    mt_export_frames(&export->names, event);
    mt_export_metadata(&export->names, event->label);
    close_entry(&export->writer);
    open_entry(export, "free_completed", event, event->value);
    mt_export_no_frames(&export->writer);
    close_entry(&export->writer);
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
    mt_export_no_frames(&export->writer);
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
    mt_export_frames(&export->names, event);
    mt_export_metadata(&export->names, event->label);
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
    case MT_EVENT_RELABEL:
        write_relabel(export, event);
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

/* Writes the entries of the events from here up to a position. The walk must not skip the event at that position. */
static mt_status write_until(struct torch_export *export, int64_t position)
{
    struct mt_walk_event event = {.n = -1};
    bool more = true;
    mt_status status = MT_OK;
    while (event.n < position && (status = mt_walk_next(export->walk, &event, &more)) == MT_OK && more) {
        write_entry(export, &event);
        MT_TRY(mt_output_file_go_on(export->writer.file));
    }
    return status;
}

static mt_status write_device_traces(struct torch_export *export)
{
    mt_plain_key(&export->writer, "device_traces");
    mt_plain_open_list(&export->writer);
    mt_plain_open_list(&export->writer);
    mt_plain_line(&export->writer);
    mt_status status = write_until(export, export->moment);
    mt_plain_close_list(&export->writer);
    mt_plain_close_list(&export->writer);
    mt_plain_line(&export->writer);
    return status;
}

/* Writes a block of a segment. A free one has no `alloc`. */
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
        mt_export_frames(&export->names, alloc);
        mt_export_metadata(&export->names, alloc->label);
    } else {
        mt_export_no_frames(writer);
    }
    mt_plain_close_dict(writer);
}

/* PyTorch's small blocks are in segments of up to 2 MiB. */
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
    mt_export_no_frames(writer);
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

/* The state of the annotations: spans, steps and phases. Each has the number of the trace's entries before it, which
 * gives the order of all events. */
struct annotations {
    struct mt_export_names *names;  /* borrowed */
    struct mt_plain_writer *writer; /* of `names` */
    uint64_t start_us;              /* of the run */
    uint64_t entries;               /* of the trace so far */
    uint64_t last_ns;
    const char *phase; /* the current one; NULL: none */
};

static void open_annotation(const struct annotations *annotations, const char *name, const char *stage,
                            const char *kind)
{
    struct mt_plain_writer *writer = annotations->writer;
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "device", 0);
    mt_plain_add_number(writer, "time_us", annotations->start_us + annotations->last_ns / 1000);
    mt_plain_add_word(writer, "name", name);
    mt_plain_add_word(writer, "stage", stage);
    mt_plain_add_word(writer, "kind", kind);
    mt_plain_add_number(writer, "entries", annotations->entries);
}

static void annotate_span(const struct annotations *annotations, const struct mt_walk_event *event)
{
    bool begins = event->kind == MT_EVENT_SPAN_BEGIN;
    open_annotation(annotations, annotations->names->spans[event->span].path, begins ? "START" : "END",
                    mt_event_kind_name(event->kind));
    mt_export_span_names(annotations->names, "spans", event->span);
    close_entry(annotations->writer);
}

static void annotate_step(const struct annotations *annotations, const struct mt_walk_event *event)
{
    char name[MT_BYTES_TEXT];
    bool begins = event->kind == MT_EVENT_STEP_BEGIN;
    open_annotation(annotations, mt_format_step((int64_t)event->value, name), begins ? "START" : "END",
                    mt_event_kind_name(event->kind));
    mt_plain_add_number(annotations->writer, "step", event->value);
    close_entry(annotations->writer);
}

static void end_phase(struct annotations *annotations)
{
    if (annotations->phase == NULL)
        return;
    open_annotation(annotations, annotations->phase, "END", "phase_end");
    close_entry(annotations->writer);
    annotations->phase = NULL;
}

static mt_status annotate_phase(struct annotations *annotations, const struct mt_walk_event *event)
{
    if (event->value >= MT_PHASE_COUNT)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: it begins phase %" PRIu64 ", of %d", event->value,
                       MT_PHASE_COUNT);
    end_phase(annotations);
    annotations->phase = mt_phase_name((mt_phase)event->value);
    open_annotation(annotations, annotations->phase, "START", mt_event_kind_name(event->kind));
    close_entry(annotations->writer);
    return MT_OK;
}

static mt_status annotate(struct annotations *annotations, const struct mt_walk_event *event)
{
    annotations->last_ns = event->time_ns;
    switch (event->kind) {
    case MT_EVENT_SPAN_BEGIN:
    case MT_EVENT_SPAN_END:
        annotate_span(annotations, event);
        return MT_OK;
    case MT_EVENT_STEP_BEGIN:
    case MT_EVENT_STEP_END:
        annotate_step(annotations, event);
        return MT_OK;
    case MT_EVENT_PHASE:
        return annotate_phase(annotations, event);
    case MT_EVENT_FREE:
        annotations->entries += 2;
        return MT_OK;
    default:
        annotations->entries++;
        return MT_OK;
    }
}

/* Walks the run again from its beginning, so that no annotations are held in memory while its events are written. */
static mt_status write_annotations(struct torch_export *export)
{
    struct mt_plain_writer *writer = &export->writer;
    struct annotations annotations = {.names = &export->names, .writer = writer, .start_us = export->start_us};
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    mt_plain_key(writer, "external_annotations");
    mt_plain_open_list(writer);
    mt_plain_line(writer);
    mt_walk_rewind(export->walk);
    while (status == MT_OK && (status = mt_walk_next(export->walk, &event, &more)) == MT_OK && more) {
        status = annotate(&annotations, &event);
        MT_THEN(status, mt_output_file_go_on(writer->file));
    }
    end_phase(&annotations);
    mt_plain_close_list(writer);
    mt_plain_line(writer);
    return status;
}

/* Writes the settings of the allocator that PyTorch has, too, and all settings of ours. */
static void write_allocator(struct torch_export *export, const struct mt_setting_row *settings, size_t count)
{
    struct mt_plain_writer *writer = &export->writer;
    const char *expandable = mt_setting_find(settings, count, "expandable_segments");
    bool is_expandable = expandable[0] != '\0' ? strcmp(expandable, "on") == 0 : export->growing_count > 0;
    mt_plain_key(writer, "allocator_settings");
    mt_plain_open_dict(writer);
    mt_plain_add_text(writer, "PYTORCH_CUDA_ALLOC_CONF", mt_setting_find(settings, count, "pytorch_alloc_conf"));
    mt_plain_key(writer, "expandable_segments");
    mt_plain_truth(writer, is_expandable);
    mt_plain_add_text(writer, "alloc", mt_setting_find(settings, count, "alloc"));
    mt_plain_close_dict(writer);
}

static void write_settings(struct mt_plain_writer *writer, const struct mt_setting_row *settings, size_t count)
{
    mt_plain_key(writer, "settings");
    mt_plain_open_dict(writer);
    for (size_t i = 0; i < count; i++)
        mt_plain_add_text(writer, settings[i].name, settings[i].value);
    mt_plain_close_dict(writer);
}

/* Writes the entries of the events after the moment. */
static mt_status write_after(struct torch_export *export)
{
    mt_plain_key(&export->writer, "after");
    mt_plain_open_list(&export->writer);
    mt_plain_line(&export->writer);
    mt_status status = write_until(export, INT64_MAX);
    mt_plain_close_list(&export->writer);
    return status;
}

static mt_status write_run(struct torch_export *export)
{
    struct mt_plain_writer *writer = &export->writer;
    const struct mt_run *run = export->from->run;
    struct mt_setting_row *settings;
    size_t count;
    MT_TRY(mt_trace_settings(export->from->trace, run, &settings, &count));
    write_allocator(export, settings, count);
    mt_plain_key(writer, "memtrace");
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "run", (uint64_t)run->id);
    mt_plain_add_text(writer, "name", run->name != NULL ? run->name : "");
    mt_plain_add_text(writer, "state", run->state);
    mt_plain_add_text(writer, "started_at", run->started_at);
    mt_plain_add_number(writer, "start_us", export->start_us);
    mt_plain_add_text(writer, "device", run->device);
    mt_plain_add_number(writer, "capacity_bytes", run->capacity_bytes);
    write_settings(writer, settings, count);
    free(settings);
    mt_status status = write_after(export);
    mt_plain_close_dict(writer);
    mt_plain_line(writer);
    return status;
}

static mt_status write_document(struct torch_export *export)
{
    mt_plain_open_dict(&export->writer);
    mt_status status = write_device_traces(export);
    MT_THEN(status, write_segments(export));
    MT_THEN(status, write_run(export));
    MT_THEN(status, write_annotations(export));
    mt_plain_close_dict(&export->writer);
    return status;
}

static mt_status find_moment(const struct mt_export_run *from, mt_stack_moment moment, int64_t *out_event)
{
    struct mt_peak_row peak;
    if (moment == MT_STACKS_WHOLE_RUN)
        return mt_trace_last_state(from->trace, from->run, out_event);
    mt_status status = mt_trace_peak(from->trace, from->run, MT_MEASURE_ALLOCATED, &peak);
    *out_event = peak.event;
    mt_peak_row_release(&peak);
    return status;
}

/* Reads everything that is needed before the first event. */
static mt_status begin(struct torch_export *export, mt_stack_moment moment)
{
    const struct mt_export_run *from = export->from;
    int64_t event;
    MT_TRY(mt_trace_growing_segments(from->trace, from->run, &export->growing, &export->growing_count));
    MT_TRY(find_moment(from, moment, &event));
    export->moment = event - from->run->first_event;
    export->start_us = mt_run_start_us(from->run);
    MT_TRY(mt_walk_begin(from->trace, from->run, &export->walk));
    mt_export_names_begin(&export->names, &export->writer, export->walk);
    return MT_OK;
}

mt_status mt_export_torch(const struct mt_export_request *request, struct mt_output_file *file)
{
    struct torch_export export = {.from = &request->from};
    const mt_plain_form form = request->format == MT_EXPORT_PICKLE ? MT_PLAIN_PICKLE : MT_PLAIN_JSON;
    mt_status status = begin(&export, request->moment);
    if (status == MT_OK) {
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
