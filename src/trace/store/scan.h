/* Reads a run's stored events back, as the events that they were. */
#ifndef MT_TRACE_SCAN_H
#define MT_TRACE_SCAN_H

#include "base/event.h"
#include "trace/store/database.h"

/* Told, in this order: every label, then every event of the run (its sequence is its number in the run, its label a number
 * without a category above it). Texts are borrowed for the call. Addresses are
 * what they were where the segment is known, and always the same for an alloc and its free. */
struct mt_scan_visitor {
    void *context;
    void (*label)(void *context, uint32_t number, const char *category, mt_phase phase, mt_span_id span);
    void (*event)(void *context, const struct mt_event *event);
};

/* MT_BAD_TRACE if the rows are none that this program writes. */
mt_status mt_scan_run(struct mt_database *database, int64_t run, const struct mt_scan_visitor *visitor);

#endif
