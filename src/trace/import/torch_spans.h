/* Spans out of frames: the functions of Python that led to a block, outermost first, from the first module that was called
 * on. Frames of libraries are left out. A function is called by its name and the line where it was, and by its file where
 * that changes:
 *
 *   model/forward:612.forward:519.layers/forward:50 */
#ifndef MT_TRACE_IMPORT_TORCH_SPANS_H
#define MT_TRACE_IMPORT_TORCH_SPANS_H

#include "base/sink.h"
#include "trace/import/call_stack.h"

/* 0 where there is no frame of Python that counts. */
mt_span_id mt_torch_span_of_stack(const struct mt_sink *sink, const struct mt_call_stack *stack);

/* The span of a path: its names are split by dots. */
mt_span_id mt_torch_span_of_path(const struct mt_sink *sink, const char *path);

#endif
