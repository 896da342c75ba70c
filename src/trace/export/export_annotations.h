/* The annotations of a snapshot: spans, steps and phases. Each has the number of the trace's entries before it,
 * which gives the order of all events. */
#ifndef MT_TRACE_EXPORT_EXPORT_ANNOTATIONS_H
#define MT_TRACE_EXPORT_EXPORT_ANNOTATIONS_H

#include "trace/export/plain_writer.h"
#include "trace/query/walk.h"

/* Writes the list. Walks the run again from its beginning, so that no annotations are held in memory while its
 * events are written. The writer keeps values of spans from the number first_kept on. */
mt_status mt_export_annotations(struct mt_plain_writer *writer, struct mt_walk *walk, uint32_t first_kept);

#endif
