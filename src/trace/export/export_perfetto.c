/* A run as a trace in Chrome's JSON, which Perfetto opens.
 *
 *   counters     allocated bytes, of all and of each category; reserved bytes
 *   allocations  async pairs b and e by the block's id, named after its category
 *   threads      steps, phases, spans: nested slices B and E; kernels: slices X, a thread for each stream
 *   refusals     instants
 *
 * Times are microseconds from the start of the run. */
#include "answer/kernel_text.h"
#include "base/interner.h"
#include "base/memory.h"
#include "trace/export/export.h"
#include "trace/export/export_names.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { THE_PROCESS = 1, THREAD_STEPS = 1, THREAD_PHASES, THREAD_SPANS, FIRST_KERNEL_THREAD };
enum { NUMBER_TEXT = 24 };

/* Open spans, the innermost last. */
struct open_spans {
    uint32_t *spans;
    size_t count;
};

/* A thread of kernels that run one after another. A stream whose kernels overlap has several. */
struct kernel_lane {
    uint32_t stream;
    uint64_t end_ns; /* of its last kernel */
};

/* The state of an export. Invariants: category_of[label] is the number of its category; category_bytes, by that number,
 * sum to allocated_bytes. */
struct perfetto_export {
    struct mt_plain_writer writer;
    struct mt_walk *walk;
    const struct mt_label_row *labels;
    const struct mt_span_row *spans;
    size_t label_count, span_count;
    size_t *category_of;
    uint64_t *category_bytes;
    uint64_t allocated_bytes, reserved_bytes, last_ns;
    struct open_spans open;
    const char *phase; /* the current one; NULL: none */
    int64_t step;      /* the current one; -1: none */
    struct kernel_lane *lanes;
    size_t lane_count;
};

static uint32_t kept_details(uint32_t label)
{
    return label;
}

/* Opens an event with the members of all events except names. */
static void open_event(struct perfetto_export *export, const char *phase, const char *name, uint64_t time_ns)
{
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_open_dict(writer);
    mt_plain_add_text(writer, "ph", phase);
    mt_plain_add_text(writer, "name", name);
    mt_plain_add_number(writer, "pid", THE_PROCESS);
    mt_plain_key(writer, "ts");
    mt_plain_microseconds(writer, time_ns);
}

static void close_event(struct mt_plain_writer *writer)
{
    mt_plain_close_dict(writer);
    mt_plain_line(writer);
}

static void open_args(struct mt_plain_writer *writer)
{
    mt_plain_key(writer, "args");
    mt_plain_open_dict(writer);
}

/* Opens metadata of a thread, and its arguments. */
static void open_metadata(struct mt_plain_writer *writer, const char *what, uint64_t thread)
{
    mt_plain_open_dict(writer);
    mt_plain_add_text(writer, "ph", "M");
    mt_plain_add_text(writer, "name", what);
    mt_plain_add_number(writer, "pid", THE_PROCESS);
    mt_plain_add_number(writer, "tid", thread);
    open_args(writer);
}

/* Closes the arguments and the event. */
static void close_args(struct mt_plain_writer *writer)
{
    mt_plain_close_dict(writer);
    close_event(writer);
}

static void write_name(struct mt_plain_writer *writer, const char *what, uint64_t thread, const char *name)
{
    open_metadata(writer, what, thread);
    mt_plain_add_text(writer, "name", name);
    close_args(writer);
}

static void write_thread(struct mt_plain_writer *writer, uint64_t thread, const char *name)
{
    write_name(writer, "thread_name", thread, name);
    open_metadata(writer, "thread_sort_index", thread);
    mt_plain_add_number(writer, "sort_index", thread);
    close_args(writer);
}

static void write_names(struct perfetto_export *export, const struct mt_run *run)
{
    struct mt_text title = {0};
    mt_text_add(&title, "memtrace run %" PRId64, run->id);
    if (run->name != NULL)
        mt_text_add(&title, " (%s)", run->name);
    mt_text_add(&title, ", %s", run->device);
    write_name(&export->writer, "process_name", THREAD_STEPS, mt_text_get(&title));
    mt_text_release(&title);
    write_thread(&export->writer, THREAD_STEPS, "steps");
    write_thread(&export->writer, THREAD_PHASES, "phases");
    write_thread(&export->writer, THREAD_SPANS, "spans");
}

/* Writes a sample of a counter. It has one value, since viewers expect the values of a counter's first sample in all
 * others. */
static void write_counter(struct perfetto_export *export, const char *name, uint64_t time_ns, uint64_t bytes)
{
    open_event(export, "C", name, time_ns);
    open_args(&export->writer);
    mt_plain_add_number(&export->writer, "bytes", bytes);
    close_args(&export->writer);
}

/* Writes a sample of the counter of the label's category. */
static void write_category(struct perfetto_export *export, uint32_t label, uint64_t time_ns)
{
    struct mt_text name = {0};
    mt_text_add(&name, "allocated %s", export->labels[label].category);
    write_counter(export, mt_text_get(&name), time_ns, export->category_bytes[export->category_of[label]]);
    mt_text_release(&name);
}

/* Writes samples of the label's category, and of all. */
static void write_allocated(struct perfetto_export *export, const struct mt_walk_event *event)
{
    write_category(export, event->label, event->time_ns);
    write_counter(export, "allocated", event->time_ns, export->allocated_bytes);
}

static void write_reserved(struct perfetto_export *export, const struct mt_walk_event *event)
{
    if (event->kind == MT_EVENT_SEGMENT_MAP)
        export->reserved_bytes += event->block_bytes;
    else
        export->reserved_bytes -=
            event->block_bytes < export->reserved_bytes ? event->block_bytes : export->reserved_bytes;
    write_counter(export, "reserved", event->time_ns, export->reserved_bytes);
}

/* Adds the label without its category, as a kept value. */
static void add_details(struct perfetto_export *export, uint32_t number)
{
    assert(number < export->label_count);
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_key(writer, "label");
    if (mt_plain_recall(writer, kept_details(number)))
        return;
    mt_plain_keep_begin(writer, kept_details(number));
    mt_plain_open_dict(writer);
    mt_export_label(writer, &export->labels[number]);
    mt_plain_close_dict(writer);
    mt_plain_keep_end(writer, kept_details(number));
}

static void open_block_event(struct perfetto_export *export, const char *phase, uint64_t time_ns,
                             const struct mt_walk_event *block)
{
    char id[NUMBER_TEXT];
    snprintf(id, sizeof id, "%" PRId64, block->id); /* identifiers are texts in this format */
    open_event(export, phase, export->labels[block->label].category, time_ns);
    mt_plain_add_text(&export->writer, "cat", "allocation");
    mt_plain_add_text(&export->writer, "id", id);
}

/* Begins a block's slice, named by its category. */
static void begin_slice(struct perfetto_export *export, const struct mt_walk_event *event)
{
    struct mt_plain_writer *writer = &export->writer;
    open_block_event(export, "b", event->time_ns, event);
    open_args(writer);
    mt_plain_add_number(writer, "requested_bytes", event->value);
    mt_plain_add_number(writer, "block_bytes", event->block_bytes);
    mt_plain_add_number(writer, "segment", event->segment);
    mt_plain_add_number(writer, "offset", event->offset);
    mt_plain_add_number(writer, "stream", event->stream);
    add_details(export, event->label);
    close_args(writer);
}

static void write_begin(struct perfetto_export *export, const struct mt_walk_event *event)
{
    export->category_bytes[export->category_of[event->label]] += event->block_bytes;
    export->allocated_bytes += event->block_bytes;
    write_allocated(export, event);
    begin_slice(export, event);
}

/* Ends the slice of the old label and begins one with the new label. */
static void write_relabel(struct perfetto_export *export, const struct mt_walk_event *event)
{
    struct mt_walk_event before = *event;
    before.label = event->old_label;
    assert(export->category_bytes[export->category_of[before.label]] >= event->block_bytes);
    export->category_bytes[export->category_of[before.label]] -= event->block_bytes;
    export->category_bytes[export->category_of[event->label]] += event->block_bytes;
    open_block_event(export, "e", event->time_ns, &before);
    close_event(&export->writer);
    write_category(export, event->old_label, event->time_ns);
    write_category(export, event->label, event->time_ns);
    begin_slice(export, event);
}

static void write_end(struct perfetto_export *export, const struct mt_walk_event *event)
{
    assert(export->category_bytes[export->category_of[event->label]] >= event->block_bytes);
    export->category_bytes[export->category_of[event->label]] -= event->block_bytes;
    export->allocated_bytes -= event->block_bytes;
    open_block_event(export, "e", event->time_ns, event);
    close_event(&export->writer);
    write_allocated(export, event);
}

static void write_refusal(struct perfetto_export *export, const struct mt_walk_event *event)
{
    struct mt_plain_writer *writer = &export->writer;
    open_event(export, "i", "out of memory", event->time_ns);
    mt_plain_add_number(writer, "tid", THREAD_SPANS);
    mt_plain_add_text(writer, "s", "g");
    open_args(writer);
    mt_plain_add_number(writer, "requested_bytes", event->value);
    mt_plain_add_number(writer, "reserved_bytes", export->reserved_bytes);
    mt_plain_add_text(writer, "category", export->labels[event->label].category);
    add_details(export, event->label);
    close_args(writer);
}

static void write_slice(struct perfetto_export *export, const char *phase, uint64_t thread, const char *name,
                        uint64_t time_ns)
{
    open_event(export, phase, name, time_ns);
    mt_plain_add_number(&export->writer, "tid", thread);
    close_event(&export->writer);
}

static void begin_span(struct perfetto_export *export, uint32_t span, uint64_t time_ns)
{
    assert(span < export->span_count);
    struct open_spans *open = &export->open;
    open->spans = mt_host_room(open->spans, open->count, sizeof *open->spans);
    open->spans[open->count++] = span;
    write_slice(export, "B", THREAD_SPANS, export->spans[span].path, time_ns);
}

static void end_innermost_span(struct perfetto_export *export, uint64_t time_ns)
{
    assert(export->open.count > 0);
    uint32_t span = export->open.spans[--export->open.count];
    write_slice(export, "E", THREAD_SPANS, export->spans[span].path, time_ns);
}

/* Ends a span and those inside it, since slices nest. Ignores a span that has not begun. */
static void end_span(struct perfetto_export *export, uint32_t span, uint64_t time_ns)
{
    size_t depth = export->open.count;
    while (depth > 0 && export->open.spans[depth - 1] != span)
        depth--;
    if (depth == 0)
        return;
    while (export->open.count >= depth)
        end_innermost_span(export, time_ns);
}

static void end_step(struct perfetto_export *export, uint64_t time_ns)
{
    char name[MT_BYTES_TEXT];
    if (export->step < 0)
        return;
    write_slice(export, "E", THREAD_STEPS, mt_format_step(export->step, name), time_ns);
    export->step = -1;
}

static void begin_step(struct perfetto_export *export, const struct mt_walk_event *event)
{
    char name[MT_BYTES_TEXT];
    end_step(export, event->time_ns);
    export->step = (int64_t)event->value;
    write_slice(export, "B", THREAD_STEPS, mt_format_step(export->step, name), event->time_ns);
}

static void end_phase(struct perfetto_export *export, uint64_t time_ns)
{
    if (export->phase != NULL)
        write_slice(export, "E", THREAD_PHASES, export->phase, time_ns);
    export->phase = NULL;
}

static mt_status begin_phase(struct perfetto_export *export, const struct mt_walk_event *event)
{
    if (event->value >= MT_PHASE_COUNT)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: it begins phase %" PRIu64 ", of %d", event->value,
                       MT_PHASE_COUNT);
    end_phase(export, event->time_ns);
    export->phase = mt_phase_name((mt_phase)event->value);
    write_slice(export, "B", THREAD_PHASES, export->phase, event->time_ns);
    return MT_OK;
}

static mt_status write_event(struct perfetto_export *export, const struct mt_walk_event *event)
{
    export->last_ns = event->time_ns > export->last_ns ? event->time_ns : export->last_ns;
    switch (event->kind) {
    case MT_EVENT_SEGMENT_MAP:
    case MT_EVENT_SEGMENT_UNMAP:
        write_reserved(export, event);
        return MT_OK;
    case MT_EVENT_ALLOC:
        write_begin(export, event);
        return MT_OK;
    case MT_EVENT_FREE:
        write_end(export, event);
        return MT_OK;
    case MT_EVENT_RELABEL:
        write_relabel(export, event);
        return MT_OK;
    case MT_EVENT_OOM:
        write_refusal(export, event);
        return MT_OK;
    case MT_EVENT_SPAN_BEGIN:
        begin_span(export, event->span, event->time_ns);
        return MT_OK;
    case MT_EVENT_SPAN_END:
        end_span(export, event->span, event->time_ns);
        return MT_OK;
    case MT_EVENT_STEP_BEGIN:
        begin_step(export, event);
        return MT_OK;
    case MT_EVENT_STEP_END:
        end_step(export, event->time_ns);
        return MT_OK;
    case MT_EVENT_PHASE:
        return begin_phase(export, event);
    default:
        return MT_OK;
    }
}

/* Ends all open slices at the end of the run. */
static void end_all(struct perfetto_export *export)
{
    size_t count;
    struct mt_walk_event *live = mt_walk_live(export->walk, &count);
    while (export->open.count > 0)
        end_innermost_span(export, export->last_ns);
    end_phase(export, export->last_ns);
    end_step(export, export->last_ns);
    for (size_t i = 0; i < count; i++) {
        open_block_event(export, "e", export->last_ns, &live[i]);
        open_args(&export->writer);
        mt_plain_key(&export->writer, "freed");
        mt_plain_truth(&export->writer, false);
        close_args(&export->writer);
    }
    free(live);
}

static mt_status write_events(struct perfetto_export *export)
{
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    while (status == MT_OK && (status = mt_walk_next(export->walk, &event, &more)) == MT_OK && more) {
        status = write_event(export, &event);
        MT_THEN(status, mt_output_file_go_on(export->writer.file));
    }
    if (status == MT_OK)
        end_all(export);
    return status;
}

/* Returns the first thread of the stream without a running kernel at that moment. */
static size_t find_lane(struct perfetto_export *export, const struct mt_launch_row *launch)
{
    struct mt_text name = {0};
    size_t lanes = 0;
    for (size_t i = 0; i < export->lane_count; i++) {
        lanes += export->lanes[i].stream == launch->stream;
        if (export->lanes[i].stream == launch->stream && export->lanes[i].end_ns <= launch->start_ns)
            return i;
    }
    export->lanes = mt_host_resize(export->lanes, export->lane_count + 1, sizeof *export->lanes);
    export->lanes[export->lane_count] = (struct kernel_lane){.stream = launch->stream};
    mt_text_add(&name, "kernels of stream %" PRIu32, launch->stream);
    if (lanes > 0)
        mt_text_add(&name, " (%zu)", lanes + 1);
    write_thread(&export->writer, FIRST_KERNEL_THREAD + export->lane_count, mt_text_get(&name));
    mt_text_release(&name);
    return export->lane_count++;
}

static mt_status write_kernel(void *context, const struct mt_launch_row *launch)
{
    struct perfetto_export *export = context;
    struct mt_plain_writer *writer = &export->writer;
    struct mt_text name = {0};
    size_t lane = find_lane(export, launch);
    export->lanes[lane].end_ns = launch->start_ns + launch->duration_ns;
    mt_kernel_text_add(&name, launch->name);
    open_event(export, "X", mt_text_get(&name), launch->start_ns);
    mt_text_release(&name);
    mt_plain_key(writer, "dur");
    mt_plain_microseconds(writer, launch->duration_ns);
    mt_plain_add_number(writer, "tid", FIRST_KERNEL_THREAD + lane);
    mt_plain_add_text(writer, "cat", "kernel");
    open_args(writer);
    mt_plain_add_text(writer, "function", launch->name);
    if (launch->label != 0) {
        mt_plain_add_text(writer, "category", export->labels[launch->label].category);
        add_details(export, launch->label);
    }
    close_args(writer);
    return mt_output_file_go_on(writer->file);
}

/* Numbers categories from 1 in the order of labels, so there are at most as many as labels. */
static void number_categories(struct perfetto_export *export)
{
    struct mt_name_set *names = mt_name_set_create();
    export->category_of = mt_host_alloc(export->label_count * sizeof *export->category_of);
    export->category_bytes = mt_host_alloc((export->label_count + 1) * sizeof *export->category_bytes);
    for (size_t i = 0; i < export->label_count; i++)
        export->category_of[i] = mt_name_set_number(names, export->labels[i].category, NULL);
    mt_name_set_destroy(names);
}

static mt_status write_document(struct perfetto_export *export, const struct mt_export_run *from)
{
    struct mt_plain_writer *writer = &export->writer;
    mt_plain_open_dict(writer);
    mt_plain_add_text(writer, "displayTimeUnit", "ns");
    mt_plain_key(writer, "traceEvents");
    mt_plain_open_list(writer);
    mt_plain_line(writer);
    write_names(export, from->run);
    mt_status status = write_events(export);
    MT_THEN(status, mt_trace_launches_visit(from->trace, from->run, write_kernel, export));
    mt_plain_close_list(writer);
    mt_plain_close_dict(writer);
    return status;
}

mt_status mt_export_perfetto(const struct mt_export_request *request, struct mt_output_file *file)
{
    const struct mt_export_run *from = &request->from;
    struct perfetto_export export = {.step = -1};
    MT_TRY(mt_walk_begin(from->trace, from->run, &export.walk));
    export.labels = mt_walk_labels(export.walk, &export.label_count);
    export.spans = mt_walk_spans(export.walk, &export.span_count);
    number_categories(&export);
    mt_plain_begin(&export.writer, file, MT_PLAIN_JSON);
    mt_status status = write_document(&export, from);
    status = mt_status_keep(status, mt_plain_end(&export.writer));
    mt_walk_end(export.walk);
    free(export.category_of);
    free(export.category_bytes);
    free(export.open.spans);
    free(export.lanes);
    return status;
}
