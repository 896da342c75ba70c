/* The annotations of a snapshot: spans, steps and phases. Each has the number of the trace's entries before it,
 * which gives the order of all events. */
#ifndef MT_TRACE_EXPORT_EXPORT_ANNOTATIONS_H
#define MT_TRACE_EXPORT_EXPORT_ANNOTATIONS_H

#include "trace/export/export_names.h"

/* Writes the list. Walks the run again from its beginning, so that no annotations are held in memory while its
 * events are written. Times begin with start_us. */
mt_status mt_export_annotations(struct mt_export_names *names, uint64_t start_us);

#endif
