#include "producers/file/torch_own.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "producers/file/import_spans.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: annotations [0, replayed) were emitted; `spans` and `stacks` have the number of each list seen so far,
 * since a file often refers to the same list. */
struct mt_torch_own {
    const struct mt_torch_snapshot *snapshot;
    struct mt_bounded_names names;
    struct mt_sink sink;   /* of `names` */
    struct mt_sink stored; /* of the run */
    int64_t start_us;      /* the moment at which the run began, on the clock of the snapshot */
    struct mt_foreign *foreign;
    const struct mt_value *annotations;
    uint32_t replayed;
    struct mt_number_map spans, stacks; /* by the address of the list's items */
};

static int64_t get_integer(const struct mt_value *dict, const char *name, int64_t otherwise)
{
    int64_t value = otherwise;
    mt_value_integer(mt_value_find(dict, name), &value);
    return value;
}

/* Gives streams their numbers in the file. */
static void number_streams(struct mt_torch_own *own)
{
    for (size_t i = 0; i < own->snapshot->event_count; i++) {
        uint64_t stream = own->snapshot->events[i].stream;
        if (stream <= UINT16_MAX)
            mt_foreign_number_stream(own->foreign, stream, (mt_stream)stream);
    }
}

struct mt_torch_own *mt_torch_own_create(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                                         int64_t start_us, const struct mt_sink *sink, struct mt_foreign *foreign)
{
    struct mt_torch_own *own = mt_host_alloc(sizeof *own);
    own->snapshot = snapshot;
    mt_bounded_names_create(&own->names, sink);
    own->sink = mt_bounded_names_sink(&own->names);
    own->stored = *sink;
    own->start_us = start_us;
    own->foreign = foreign;
    own->annotations = mt_value_find(root, "external_annotations");
    mt_number_map_create(&own->spans);
    mt_number_map_create(&own->stacks);
    number_streams(own);
    return own;
}

void mt_torch_own_destroy(struct mt_torch_own *own)
{
    if (own == NULL)
        return;
    mt_number_map_release(&own->spans);
    mt_number_map_release(&own->stacks);
    mt_bounded_names_release(&own->names);
    free(own);
}

#define NAME(name, text, ...) text,
static const char *const phase_names[] = {MT_PHASES(NAME)};
static const char *const dtype_names[] = {MT_DTYPES(NAME)};
static const char *const role_source_names[] = {MT_ROLE_SOURCES(NAME)};
#undef NAME

/* Returns the number of a word in a list of names; `other` for other words. */
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

/* Returns the span of a list. `join` makes it once. */
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

/* Returns the span of a request. If its frames are a call stack, it has a list of names, too. */
static mt_span_id span_of_request(struct mt_torch_own *own, const struct mt_value *request,
                                  const struct mt_value *frames)
{
    const struct mt_value *names = mt_value_find(request, "spans");
    return names->kind == MT_VALUE_LIST ? span_of(own, names, join_names) : span_of(own, frames, join_frames);
}

/* Joins frames, innermost first, to a call stack. */
static mt_stack_id join_stack(struct mt_torch_own *own, const struct mt_value *frames)
{
    mt_stack_id stack = 0;
    for (uint32_t i = mt_value_count(frames); i > 0; i--) {
        const struct mt_value *frame = mt_value_at(frames, i - 1);
        int64_t line = get_integer(frame, "line", 0);
        stack = mt_sink_stack(&own->stored, stack,
                              &(struct mt_frame){.function = mt_value_text(mt_value_find(frame, "name")),
                                                 .file = mt_value_text(mt_value_find(frame, "filename")),
                                                 .line = line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0});
    }
    return stack;
}

/* Returns the time since the run began, like events. */
static uint64_t time_of(const struct mt_torch_own *own, const struct mt_value *annotation)
{
    int64_t time_us;
    if (__builtin_sub_overflow(get_integer(annotation, "time_us", 0), own->start_us, &time_us))
        return 0;
    return time_us > 0 && time_us < INT64_MAX / 1000 ? (uint64_t)time_us * 1000 : 0;
}

/* Emits an annotation. Steps get new numbers, in their order. */
static void replay_annotation(struct mt_torch_own *own, const struct mt_value *annotation)
{
    const char *kind = mt_value_text(mt_value_find(annotation, "kind"));
    uint64_t time_ns = time_of(own, annotation);
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

/* Returns the label of an entry. Its span is the request's, unless the entry names another. */
static mt_label_id intern_label(struct mt_torch_own *own, const struct mt_value *entry, mt_span_id span)
{
    const struct mt_value *said = mt_value_find(entry, "user_metadata"), *names = mt_value_find(entry, "label_spans");
    struct mt_label label = {
        .category = mt_sink_category(&own->sink, mt_value_text(mt_value_find(said, "category"))),
        .phase = (mt_phase)find_name(mt_value_text(mt_value_find(said, "phase")), phase_names, MT_PHASE_COUNT, 0),
        .dtype = (mt_dtype)find_name(mt_value_text(mt_value_find(said, "dtype")), dtype_names, MT_DTYPE_COUNT, 0),
        .role_source = (mt_role_source)find_name(mt_value_text(mt_value_find(said, "role_source")), role_source_names,
                                                 MT_ROLE_SOURCE_COUNT, MT_ROLE_SOURCE_INFERRED),
        .op = mt_value_text(mt_value_find(said, "op")),
        .span = names->kind == MT_VALUE_LIST ? span_of(own, names, join_names) : span,
        .layer = (int)get_integer(said, "layer", -1)};
    if (!mt_role_find(mt_value_text(mt_value_find(said, "role")), &label.role))
        label.role = MT_ROLE_OTHER;
    read_shape(mt_value_text(mt_value_find(said, "shape")), &label);
    return own->sink.intern_label(own->sink.context, &label);
}

/* Gives a live block the label of an entry, as PyTorch's entries of that kind change a block's metadata. */
static void relabel(struct mt_torch_own *own, const struct mt_value *entry, uint64_t time_ns)
{
    int64_t address = get_integer(entry, "addr", 0);
    mt_span_id span = span_of_request(own, entry, mt_value_find(entry, "frames"));
    mt_label_id label = intern_label(own, entry, span);
    if (address > 0)
        mt_foreign_relabel(own->foreign, time_ns, (mt_addr)address, label, span);
}

static void note_moment(void *context, const struct mt_torch_event *event, uint64_t time_ns)
{
    struct mt_torch_own *own = context;
    replay_until(own, event - own->snapshot->events);
    if (event->action == MT_TORCH_ANNOTATE)
        relabel(own, event->event, time_ns);
}

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    struct mt_torch_own *own = context;
    static const struct mt_value nothing;
    const struct mt_value *entry = request->event != NULL ? request->event->event : &nothing;
    *out_span = span_of_request(own, entry, request->frames);
    *out_label = intern_label(own, entry, *out_span);
}

static mt_stack_id give_stack(void *context, const struct mt_torch_request *request)
{
    struct mt_torch_own *own = context;
    const struct mt_value *frames = request->frames;
    uint64_t stack;
    if (request->event == NULL || mt_value_find(request->event->event, "spans")->kind != MT_VALUE_LIST ||
        frames->kind != MT_VALUE_LIST)
        return 0;
    if (!mt_number_map_get(&own->stacks, (uint64_t)(uintptr_t)frames->items, &stack)) {
        stack = join_stack(own, frames);
        mt_number_map_put(&own->stacks, (uint64_t)(uintptr_t)frames->items, stack);
    }
    return (mt_stack_id)stack;
}

struct mt_torch_labeler mt_torch_own_labeler(struct mt_torch_own *own)
{
    return (struct mt_torch_labeler){
        .context = own, .start_us = own->start_us, .moment = note_moment, .label = give_label, .stack = give_stack};
}

void mt_torch_own_end(struct mt_torch_own *own)
{
    replay_until(own, INT64_MAX);
}
