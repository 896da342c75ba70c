/* What can be said of a run from its events alone, derived in one pass: the live set, peaks and what they were made of,
 * counts per category, the largest allocations, steps, segments and checkpoints.
 *
 * One code, three users: the writer while it stores events, recovery after a kill, and a reader of a run that is still
 * being written. So a trace says the same however its run ended.
 *
 *   events, labels ──add──▶ summary ──store_progress──▶ segment, step, checkpoint, and of steps that are over:
 *                                   │                   summary_peak, …_peak_category, …_category   (as they come)
 *                                   └─store_totals────▶ summary_*, the rest                         (at the end)
 *
 * Cost: about 100 ns an event. Memory: the live set, a row per step and segment, what is not stored yet, and the table of
 * allocations, which is bounded: at 2 * MT_SUMMARY_ALLOCATIONS different (label, size) pairs the smallest sizes are
 * dropped, all but the MT_SUMMARY_ALLOCATIONS largest pairs and those of equal size. What is left is exact.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_SUMMARY_H
#define MT_TRACE_SUMMARY_H

#include "base/event.h"
#include "trace/store/database.h"

enum { MT_SUMMARY_ALLOCATIONS = 1 << 16 };

/* The step number of what precedes the first step, and of the run as a whole, in the tables. */
enum { MT_STEP_BEFORE = -1, MT_STEP_WHOLE_RUN = -2 };

struct mt_summary;

/* Of a run whose first event has the id `first_event`. */
struct mt_summary *mt_summary_create(int64_t first_event);
void mt_summary_destroy(struct mt_summary *summary); /* may be NULL */

/* A label of this number, before the first event that names it. Categories go by their names: the upper bits of label ids
 * are not looked at, since no table holds them. */
void mt_summary_add_label(struct mt_summary *summary, uint32_t number, const char *category, mt_phase phase);

/* The run's next event (its sequence is not looked at). Returns, of a free, the id of the alloc event that it ends; 0 if
 * there is none and of other kinds. */
int64_t mt_summary_add(struct mt_summary *summary, const struct mt_event *event);

/* Events so far. */
int64_t mt_summary_events(const struct mt_summary *summary);

/* The size from which on summary_allocation is complete: run.complete_from_bytes. */
uint64_t mt_summary_complete_from_bytes(const struct mt_summary *summary);

/* Writes the segments, steps and checkpoints that came or changed since the last call, and the totals of the steps that
 * ended, replacing rows that are there. */
mt_status mt_summary_store_progress(struct mt_summary *summary, struct mt_database *database, int64_t run);

/* Writes the rows of the summary tables that are not written yet, replacing those that are there. `prefix` is put before
 * the tables' names: "", or what a reader calls its temporary ones. */
mt_status mt_summary_store_totals(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                  const char *prefix);

#endif
