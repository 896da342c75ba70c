#include "trace/export/export_annotations.h"

#include "answer/row.h"
#include "base/memory.h"
#include "trace/query/trace.h"

#include <inttypes.h>
#include <stdlib.h>

/* A list under way. */
struct annotations {
    struct mt_plain_writer *writer;  /* borrowed */
    const struct mt_span_row *spans; /* borrowed */
    uint32_t first_kept;
    uint64_t entries; /* of the trace so far */
    uint64_t last_ns;
    const char *phase; /* the current one; NULL: none */
};

static void open_annotation(const struct annotations *annotations, const char *name, const char *stage,
                            const char *kind)
{
    struct mt_plain_writer *writer = annotations->writer;
    mt_plain_open_dict(writer);
    mt_plain_add_number(writer, "device", 0);
    mt_plain_add_number(writer, "time_us", annotations->last_ns / 1000);
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

/* Adds the names of a span and of the spans around it, outermost first. */
static void add_chain(const struct annotations *annotations, uint32_t span)
{
    struct mt_plain_writer *writer = annotations->writer;
    mt_plain_key(writer, "spans");
    if (mt_plain_recall(writer, annotations->first_kept + span))
        return;
    uint32_t depth = 0;
    for (uint32_t at = span; at != 0; at = annotations->spans[at].parent)
        depth++;
    uint32_t *chain = mt_host_alloc((depth + 1) * sizeof *chain);
    for (uint32_t at = span, i = depth; at != 0; at = annotations->spans[at].parent)
        chain[--i] = at;
    mt_plain_keep_begin(writer, annotations->first_kept + span);
    mt_plain_open_list(writer);
    for (uint32_t i = 0; i < depth; i++)
        mt_plain_word(writer, annotations->spans[chain[i]].name);
    mt_plain_close_list(writer);
    mt_plain_keep_end(writer, annotations->first_kept + span);
    free(chain);
}

static void annotate_span(const struct annotations *annotations, const struct mt_walk_event *event)
{
    bool begins = event->kind == MT_EVENT_SPAN_BEGIN;
    open_annotation(annotations, annotations->spans[event->span].path, begins ? "START" : "END",
                    mt_event_kind_name(event->kind));
    add_chain(annotations, event->span);
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
    case MT_EVENT_RELABEL: /* has no entry */
        return MT_OK;
    default:
        annotations->entries++;
        return MT_OK;
    }
}

mt_status mt_export_annotations(struct mt_plain_writer *writer, struct mt_walk *walk, uint32_t first_kept)
{
    size_t span_count;
    struct annotations annotations = {
        .writer = writer, .spans = mt_walk_spans(walk, &span_count), .first_kept = first_kept};
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    mt_plain_open_list(writer);
    mt_plain_line(writer);
    mt_walk_rewind(walk);
    while (status == MT_OK && (status = mt_walk_next(walk, &event, &more)) == MT_OK && more) {
        status = annotate(&annotations, &event);
        if (status == MT_OK)
            status = mt_output_file_go_on(writer->file);
    }
    end_phase(&annotations);
    mt_plain_close_list(writer);
    mt_plain_line(writer);
    return status;
}
