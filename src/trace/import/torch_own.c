#include "trace/import/torch_own.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "trace/import/import_spans.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: annotations [0, replayed) were emitted; `spans` has the span of each list seen so far, since a file
 * refers to one list often. */
struct mt_torch_own {
    const struct mt_torch_snapshot *snapshot;
    struct mt_bounded_names names;
    struct mt_sink sink; /* of `names` */
    struct mt_foreign *foreign;
    const struct mt_value *annotations;
    uint32_t replayed;
    struct mt_number_map spans; /* by the address of the list's items */
};

static int64_t get_integer(const struct mt_value *dict, const char *name, int64_t otherwise)
{
    int64_t value = otherwise;
    mt_value_integer(mt_value_find(dict, name), &value);
    return value;
}

/* Gives streams the numbers that they have in the file. */
static void number_streams(struct mt_torch_own *own)
{
    for (size_t i = 0; i < own->snapshot->event_count; i++) {
        uint64_t stream = own->snapshot->events[i].stream;
        if (stream <= UINT16_MAX)
            mt_foreign_number_stream(own->foreign, stream, (mt_stream)stream);
    }
}

struct mt_torch_own *mt_torch_own_create(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                                         const struct mt_sink *sink, struct mt_foreign *foreign)
{
    struct mt_torch_own *own = mt_host_alloc(sizeof *own);
    own->snapshot = snapshot;
    mt_bounded_names_create(&own->names, sink);
    own->sink = mt_bounded_names_sink(&own->names);
    own->foreign = foreign;
    own->annotations = mt_value_find(root, "external_annotations");
    mt_number_map_create(&own->spans);
    number_streams(own);
    return own;
}

void mt_torch_own_destroy(struct mt_torch_own *own)
{
    if (own == NULL)
        return;
    mt_number_map_release(&own->spans);
    mt_bounded_names_release(&own->names);
    free(own);
}

#define NAME(name, text, ...) text,
static const char *const phase_names[] = {MT_PHASES(NAME)};
static const char *const dtype_names[] = {MT_DTYPES(NAME)};
static const char *const role_source_names[] = {MT_ROLE_SOURCES(NAME)};
#undef NAME

/* Returns the number of a word among names; `other` for a word that is not among them. */
static int find_name(const char *word, const char *const *names, int count, int other)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    return other;
}

/* Reads "4,256,2560". */
static void read_shape(const char *text, struct mt_label *label)
{
    assert(label->dims == 0);
    while (*text != '\0' && label->dims < MT_LABEL_MAX_DIMS) {
        char *end;
        label->shape[label->dims++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
}

static mt_span_id intern_span(struct mt_torch_own *own, mt_span_id parent, const struct mt_value *name)
{
    return own->sink.intern_span(own->sink.context, parent, mt_value_text(name));
}

/* Joins a list of names, outermost first. */
static mt_span_id join_names(struct mt_torch_own *own, const struct mt_value *names)
{
    mt_span_id span = 0;
    for (uint32_t i = 0; i < mt_value_count(names); i++)
        span = intern_span(own, span, mt_value_at(names, i));
    return span;
}

/* Joins the names of frames, innermost first, without the first frame, which is the op. */
static mt_span_id join_frames(struct mt_torch_own *own, const struct mt_value *frames)
{
    mt_span_id span = 0;
    for (uint32_t i = mt_value_count(frames); i > 1; i--)
        span = intern_span(own, span, mt_value_find(mt_value_at(frames, i - 1), "name"));
    return span;
}

/* Returns the span of a list, which `join` makes once. */
static mt_span_id span_of(struct mt_torch_own *own, const struct mt_value *list,
                          mt_span_id (*join)(struct mt_torch_own *, const struct mt_value *))
{
    uint64_t span;
    if (list->kind != MT_VALUE_LIST)
        return 0;
    if (!mt_number_map_get(&own->spans, (uint64_t)(uintptr_t)list->items, &span)) {
        span = join(own, list);
        mt_number_map_put(&own->spans, (uint64_t)(uintptr_t)list->items, span);
    }
    return (mt_span_id)span;
}

/* Returns the time since the run began, as events have it. */
static uint64_t time_of(const struct mt_value *annotation)
{
    int64_t time_us = get_integer(annotation, "time_us", 0);
    return time_us > 0 && time_us < INT64_MAX / 1000 ? (uint64_t)time_us * 1000 : 0;
}

/* Emits an annotation. Steps get new numbers, in their order. */
static void replay_annotation(struct mt_torch_own *own, const struct mt_value *annotation)
{
    const char *kind = mt_value_text(mt_value_find(annotation, "kind"));
    uint64_t time_ns = time_of(annotation);
    if (strcmp(kind, "span_begin") == 0)
        mt_foreign_span_begin(own->foreign, time_ns, span_of(own, mt_value_find(annotation, "spans"), join_names));
    else if (strcmp(kind, "span_end") == 0)
        mt_foreign_span_end(own->foreign, time_ns, span_of(own, mt_value_find(annotation, "spans"), join_names));
    else if (strcmp(kind, "step_begin") == 0)
        mt_foreign_step_begin(own->foreign, time_ns);
    else if (strcmp(kind, "step_end") == 0)
        mt_foreign_step_end(own->foreign, time_ns);
    else if (strcmp(kind, "phase") == 0)
        mt_foreign_phase(
            own->foreign, time_ns,
            (mt_phase)find_name(mt_value_text(mt_value_find(annotation, "name")), phase_names, MT_PHASE_COUNT, 0));
}

/* Emits the annotations that come before entry `entries` of the trace. */
static void replay_until(struct mt_torch_own *own, int64_t entries)
{
    assert(own->replayed <= mt_value_count(own->annotations));
    for (; own->replayed < mt_value_count(own->annotations); own->replayed++) {
        const struct mt_value *annotation = mt_value_at(own->annotations, own->replayed);
        if (get_integer(annotation, "entries", 0) > entries)
            return;
        replay_annotation(own, annotation);
    }
}

static void note_moment(void *context, const struct mt_torch_event *event, uint64_t time_ns)
{
    struct mt_torch_own *own = context;
    (void)time_ns;
    replay_until(own, event - own->snapshot->events);
}

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    struct mt_torch_own *own = context;
    static const struct mt_value nothing;
    const struct mt_value *said =
        request->event != NULL ? mt_value_find(request->event->event, "user_metadata") : &nothing;
    struct mt_label label = {
        .category = mt_sink_category(&own->sink, mt_value_text(mt_value_find(said, "category"))),
        .phase = (mt_phase)find_name(mt_value_text(mt_value_find(said, "phase")), phase_names, MT_PHASE_COUNT, 0),
        .dtype = (mt_dtype)find_name(mt_value_text(mt_value_find(said, "dtype")), dtype_names, MT_DTYPE_COUNT, 0),
        .role_source = (mt_role_source)find_name(mt_value_text(mt_value_find(said, "role_source")), role_source_names,
                                                 MT_ROLE_SOURCE_COUNT, MT_ROLE_SOURCE_INFERRED),
        .op = mt_value_text(mt_value_find(said, "op")),
        .layer = (int)get_integer(said, "layer", -1)};
    if (!mt_role_find(mt_value_text(mt_value_find(said, "role")), &label.role))
        label.role = MT_ROLE_OTHER;
    read_shape(mt_value_text(mt_value_find(said, "shape")), &label);
    *out_span = span_of(own, request->frames, join_frames);
    label.span = *out_span;
    *out_label = own->sink.intern_label(own->sink.context, &label);
}

struct mt_torch_labeler mt_torch_own_labeler(struct mt_torch_own *own)
{
    return (struct mt_torch_labeler){.context = own, .moment = note_moment, .label = give_label};
}

void mt_torch_own_end(struct mt_torch_own *own)
{
    replay_until(own, INT64_MAX);
}
