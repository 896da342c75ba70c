/* The annotations of a snapshot: spans, steps and phases, each with the number of the trace's entries that precede it, so
 * that the order of all events can be told. */
#ifndef MT_CLI_EXPORT_ANNOTATIONS_H
#define MT_CLI_EXPORT_ANNOTATIONS_H

#include "trace/export/plain_writer.h"
#include "trace/query/walk.h"

/* Writes the list. The run is told a second time, from its beginning, so that none of its marks is held meanwhile. Of spans
 * the writer keeps values from the number first_kept on. */
mt_status mt_export_annotations(struct mt_plain_writer *writer, struct mt_walk *walk, uint32_t first_kept);

#endif
