/* Spans from call stacks and from paths, and a sink that bounds the memory of their paths.
 *
 * A span's path has the names of all spans around it. So a file that nests spans deeply, or refers to one list of names
 * again and again, makes far more bytes of paths than it has itself. A span that would bring all paths beyond
 * MT_MOST_PATH_BYTES becomes the span around it.
 *
 *   labels, spans ──names──▶ mt_bounded_names ──▶ sink ◀──events── mt_foreign
 *
 * Threads: one at a time. */
#pragma once

#include "base/number_map.h"
#include "base/sink.h"
#include "producers/file/call_stack.h"

#define MT_MOST_PATH_BYTES (UINT64_C(64) << 20)

/* Invariants: `path_bytes` has every span that was interned; left_bytes is MT_MOST_PATH_BYTES less the sum of their
 * paths, or 0. */
struct mt_bounded_names {
    struct mt_sink behind;
    uint64_t left_bytes;
    struct mt_number_map path_bytes; /* by span */
};

/* Borrows the sink's context. Release the names after the last use of their sink. */
void mt_bounded_names_create(struct mt_bounded_names *names, const struct mt_sink *sink);
void mt_bounded_names_release(struct mt_bounded_names *names);

/* Returns a sink that interns, and takes no events. Borrows `names`. */
struct mt_sink mt_bounded_names_sink(struct mt_bounded_names *names);

/* Returns the span of a call stack: its functions of Python, outermost first, from the first call of a module on,
 * without PyTorch's and Python's own. Libraries' functions count within modules alone. A function has its line, and its
 * file where that changes:
 *
 *   model/forward:612.forward:519.layers/forward:50
 *
 * Returns 0 if no function counts. */
mt_span_id mt_span_of_stack(const struct mt_sink *sink, const struct mt_call_stack *stack);

/* Returns the span of a path, whose names are separated by dots; 0 for "". */
mt_span_id mt_span_of_path(const struct mt_sink *sink, const char *path);
