/* The members of a snapshot with the purpose of a block and the code that requested it. Repeated values are written
 * once, and then recalled. */
#pragma once

#include "trace/export/plain_writer.h"
#include "trace/query/walk.h"

/* The names of a run, by number. All are borrowed. */
struct mt_export_names {
    struct mt_plain_writer *writer;
    struct mt_walk *walk;
    const struct mt_label_row *labels;
    const struct mt_span_row *spans;
    const struct mt_stack_row *stacks;
    size_t label_count, span_count, stack_count;
};

/* Keeps values of the writer under the numbers from 0 on. Other code must not use these numbers. */
void mt_export_names_begin(struct mt_export_names *out, struct mt_plain_writer *writer, struct mt_walk *walk);

/* Adds a list: the names of a span and of the spans around it, outermost first. */
void mt_export_span_names(struct mt_export_names *names, const char *key, uint32_t span);

/* Adds the frames of a request: its call stack or, if unknown, the op and the spans. Also adds `spans` for a request
 * with a stack, and `label_spans` if the label has another span. */
void mt_export_frames(struct mt_export_names *names, const struct mt_walk_event *request);
void mt_export_no_frames(struct mt_plain_writer *writer);

/* Adds the members of a label, except its category. */
void mt_export_label(struct mt_plain_writer *writer, const struct mt_label_row *label);

/* Adds `user_metadata`, the label. */
void mt_export_metadata(struct mt_export_names *names, uint32_t label);
