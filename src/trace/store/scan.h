/* Reads a run's stored events and reconstructs the original events. */
#pragma once

#include "base/event.h"
#include "trace/store/connection.h"

/* The functions to call: first `label` for every label, then `event` for every event of the run. The sequence of an
 * event is its number in the run; its label is a number without a category in the upper bits. A free has the place of
 * its alloc. Texts are borrowed for the call. */
struct mt_scan_visitor {
    void *context;
    void (*label)(void *context, uint32_t number, const char *category, mt_role role, mt_phase phase, mt_span_id span);
    void (*event)(void *context, const struct mt_event *event);
};

struct mt_scan;

/* Creates the reader of a run, at its beginning. Borrows the visitor. The caller destroys it. */
struct mt_scan *mt_scan_create(int64_t run, const struct mt_scan_visitor *visitor);
void mt_scan_destroy(struct mt_scan *scan); /* may be NULL */

/* Reads the labels and events that were stored since the last call, in a transaction of the caller if the run is being
 * written. The connection may differ from the last one. Fails as mt_scan_run; nothing can be read after that. */
mt_status mt_scan_more(struct mt_scan *scan, struct mt_database *database);

/* Reads the whole run. Fails with MT_BAD_TRACE if this program would not write such a row, or if the events of a batch
 * differ from the stored ones. */
mt_status mt_scan_run(struct mt_database *database, int64_t run, const struct mt_scan_visitor *visitor);

/* Reads the whole run into a new summary of it. Fails as mt_scan_run. */
struct mt_summary;
mt_status mt_scan_summary(struct mt_database *database, int64_t run, struct mt_summary *summary);
