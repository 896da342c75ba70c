#include "trace/export/export_annotations.h"

#include "answer/row.h"
#include "trace/query/trace.h"

#include <inttypes.h>

/* A list under way. */
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

static void close_annotation(struct mt_plain_writer *writer)
{
    mt_plain_close_dict(writer);
    mt_plain_line(writer);
}

static void annotate_span(const struct annotations *annotations, const struct mt_walk_event *event)
{
    bool begins = event->kind == MT_EVENT_SPAN_BEGIN;
    open_annotation(annotations, annotations->names->spans[event->span].path, begins ? "START" : "END",
                    mt_event_kind_name(event->kind));
    mt_export_span_names(annotations->names, "spans", event->span);
    close_annotation(annotations->writer);
}

static void annotate_step(const struct annotations *annotations, const struct mt_walk_event *event)
{
    char name[MT_BYTES_TEXT];
    bool begins = event->kind == MT_EVENT_STEP_BEGIN;
    open_annotation(annotations, mt_format_step((int64_t)event->value, name), begins ? "START" : "END",
                    mt_event_kind_name(event->kind));
    mt_plain_add_number(annotations->writer, "step", event->value);
    close_annotation(annotations->writer);
}

static void end_phase(struct annotations *annotations)
{
    if (annotations->phase == NULL)
        return;
    open_annotation(annotations, annotations->phase, "END", "phase_end");
    close_annotation(annotations->writer);
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
    close_annotation(annotations->writer);
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

mt_status mt_export_annotations(struct mt_export_names *names, uint64_t start_us)
{
    struct mt_plain_writer *writer = names->writer;
    struct annotations annotations = {.names = names, .writer = writer, .start_us = start_us};
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    mt_plain_open_list(writer);
    mt_plain_line(writer);
    mt_walk_rewind(names->walk);
    while (status == MT_OK && (status = mt_walk_next(names->walk, &event, &more)) == MT_OK && more) {
        status = annotate(&annotations, &event);
        MT_THEN(status, mt_output_file_go_on(writer->file));
    }
    end_phase(&annotations);
    mt_plain_close_list(writer);
    mt_plain_line(writer);
    return status;
}
