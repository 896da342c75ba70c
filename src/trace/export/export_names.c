#include "trace/export/export_names.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

void mt_export_names_begin(struct mt_export_names *out, struct mt_plain_writer *writer, struct mt_walk *walk)
{
    *out = (struct mt_export_names){.writer = writer, .walk = walk};
    out->labels = mt_walk_labels(walk, &out->label_count);
    out->spans = mt_walk_spans(walk, &out->span_count);
    out->stacks = mt_walk_stacks(walk, &out->stack_count);
}

/* Numbers of kept values: two for each label, then one for each span, then one for each stack. */
static uint32_t kept_metadata(uint32_t label)
{
    return 2 * label;
}

static uint32_t kept_frames(uint32_t label)
{
    return 2 * label + 1;
}

static uint32_t kept_span(const struct mt_export_names *names, uint32_t span)
{
    return 2 * (uint32_t)names->label_count + span;
}

static uint32_t kept_stack(const struct mt_export_names *names, uint32_t stack)
{
    return kept_span(names, (uint32_t)names->span_count) + stack;
}

void mt_export_span_names(struct mt_export_names *names, const char *key, uint32_t span)
{
    assert(span < names->span_count);
    struct mt_plain_writer *writer = names->writer;
    const struct mt_span_row *spans = names->spans;
    mt_plain_key(writer, key);
    if (mt_plain_recall(writer, kept_span(names, span)))
        return;
    uint32_t depth = 0;
    for (uint32_t at = span; at != 0; at = spans[at].parent)
        depth++;
    uint32_t *chain = mt_host_alloc((depth + 1) * sizeof *chain);
    for (uint32_t at = span, i = depth; at != 0; at = spans[at].parent)
        chain[--i] = at;
    mt_plain_keep_begin(writer, kept_span(names, span));
    mt_plain_open_list(writer);
    for (uint32_t i = 0; i < depth; i++)
        mt_plain_word(writer, spans[chain[i]].name);
    mt_plain_close_list(writer);
    mt_plain_keep_end(writer, kept_span(names, span));
    free(chain);
}

static void add_frame(struct mt_plain_writer *writer, const char *name, const char *filename, uint64_t line)
{
    mt_plain_open_dict(writer);
    mt_plain_add_word(writer, "name", name);
    mt_plain_add_word(writer, "filename", filename);
    mt_plain_add_number(writer, "line", line);
    mt_plain_close_dict(writer);
}

/* Adds the op, then the spans, innermost first. */
static void add_frame_list(struct mt_export_names *names, uint32_t label, uint32_t span)
{
    struct mt_plain_writer *writer = names->writer;
    mt_plain_open_list(writer);
    add_frame(writer, names->labels[label].op, names->labels[label].category, 0);
    for (; span != 0; span = names->spans[span].parent)
        add_frame(writer, names->spans[span].name, names->spans[span].path, 0);
    mt_plain_close_list(writer);
}

/* Adds the frames of a call stack. They do not contain the spans, so these are added as a separate list. */
static void add_stack(struct mt_export_names *names, uint32_t stack, uint32_t span)
{
    assert(stack < names->stack_count);
    struct mt_plain_writer *writer = names->writer;
    mt_plain_key(writer, "frames");
    if (!mt_plain_recall(writer, kept_stack(names, stack))) {
        mt_plain_keep_begin(writer, kept_stack(names, stack));
        mt_plain_open_list(writer);
        for (uint32_t at = stack; at != 0; at = names->stacks[at].parent)
            add_frame(writer, names->stacks[at].function, names->stacks[at].file, names->stacks[at].line);
        mt_plain_close_list(writer);
        mt_plain_keep_end(writer, kept_stack(names, stack));
    }
    mt_export_span_names(names, "spans", span);
}

/* Adds the frames of a request without a stack. A label's frames are kept, unless the request came from another
 * span. */
static void add_spans(struct mt_export_names *names, uint32_t label, uint32_t span)
{
    struct mt_plain_writer *writer = names->writer;
    mt_plain_key(writer, "frames");
    bool is_labels = span == mt_walk_label_span(names->walk, label);
    if (is_labels && mt_plain_recall(writer, kept_frames(label)))
        return;
    if (is_labels)
        mt_plain_keep_begin(writer, kept_frames(label));
    add_frame_list(names, label, span);
    if (is_labels)
        mt_plain_keep_end(writer, kept_frames(label));
}

void mt_export_frames(struct mt_export_names *names, const struct mt_walk_event *request)
{
    uint32_t span = mt_walk_label_span(names->walk, request->label);
    if (span != request->span)
        mt_export_span_names(names, "label_spans", span);
    if (request->stack != 0)
        add_stack(names, request->stack, request->span);
    else
        add_spans(names, request->label, request->span);
}

void mt_export_no_frames(struct mt_plain_writer *writer)
{
    mt_plain_key(writer, "frames");
    mt_plain_open_list(writer);
    mt_plain_close_list(writer);
}

void mt_export_label(struct mt_plain_writer *writer, const struct mt_label_row *label)
{
    mt_plain_add_word(writer, "role", label->role);
    mt_plain_add_word(writer, "role_source", label->role_source);
    mt_plain_add_word(writer, "op", label->op);
    mt_plain_add_word(writer, "phase", label->phase);
    mt_plain_add_word(writer, "span", label->span);
    if (label->layer >= 0)
        mt_plain_add_number(writer, "layer", (uint64_t)label->layer);
    mt_plain_add_word(writer, "dtype", label->dtype);
    mt_plain_add_word(writer, "shape", label->shape);
}

void mt_export_metadata(struct mt_export_names *names, uint32_t number)
{
    assert(number < names->label_count);
    struct mt_plain_writer *writer = names->writer;
    const struct mt_label_row *label = &names->labels[number];
    mt_plain_key(writer, "user_metadata");
    if (mt_plain_recall(writer, kept_metadata(number)))
        return;
    mt_plain_keep_begin(writer, kept_metadata(number));
    mt_plain_open_dict(writer);
    mt_plain_add_word(writer, "category", label->category);
    mt_export_label(writer, label);
    mt_plain_close_dict(writer);
    mt_plain_keep_end(writer, kept_metadata(number));
}
