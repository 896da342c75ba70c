/* The summary of a run, derived from its events in one pass: the live set, peaks and their composition, counts per
 * category, the largest allocations, steps, segments and checkpoints.
 *
 * The same code serves the writer while it stores events, recovery after a kill, and a reader of a run that is still
 * being written. So a trace has the same content however its run ended.
 *
 *   events, labels ──add──▶ summary ──store_progress──▶ segment, step, checkpoint, and of finished steps:
 *                                   │                   summary_peak, …_peak_category, …_category   (continuously)
 *                                   └─store_totals────▶ summary_*, the rest                         (at the end)
 *
 * Cost: about 100 ns per event. Memory: the live set, a row per step and segment, rows that are not stored yet, and the
 * table of allocations. That table is bounded: at 2 * MT_SUMMARY_ALLOCATIONS different (label, size) pairs the smallest
 * sizes are dropped. The MT_SUMMARY_ALLOCATIONS largest pairs and pairs of equal size remain; they are exact.
 *
 * Threads: one at a time. */
#pragma once

#include "base/event.h"
#include "trace/store/connection.h"

struct mt_summary;

/* Creates the summary of a run whose first event has the id `first_event`. */
struct mt_summary *mt_summary_create(int64_t first_event);
void mt_summary_destroy(struct mt_summary *summary); /* may be NULL */

/* Adds the label with a number, before the first event that uses it. Categories are identified by their names: the
 * upper bits of label ids are ignored, since no table contains them. */
void mt_summary_add_label(struct mt_summary *summary, uint32_t number, const char *category, mt_role role,
                          mt_phase phase);

/* Adds the run's next event; its sequence is ignored. Returns the id of the alloc of the block that a free
 * ends or a relabel changes; 0 if there is none, and for other kinds. */
int64_t mt_summary_add(struct mt_summary *summary, const struct mt_event *event);

/* Returns the id of the alloc of the live block that begins at an address; 0 if there is none. Searches every
 * segment. */
int64_t mt_summary_find(const struct mt_summary *summary, mt_addr address);

/* Returns the number of events so far. */
int64_t mt_summary_events(const struct mt_summary *summary);

/* Returns the size from which summary_allocation is complete: run.complete_from_bytes. */
uint64_t mt_summary_complete_from_bytes(const struct mt_summary *summary);

/* Return what is live now: bytes by measure, borrowed; allocated bytes of a category, by its number in this summary,
 * with its name; and of a role. For an unused number, the category is Other, without bytes. */
const uint64_t *mt_summary_now(const struct mt_summary *summary);
const char *mt_summary_category(const struct mt_summary *summary, uint32_t category);
uint64_t mt_summary_category_bytes(const struct mt_summary *summary, uint32_t category);
uint64_t mt_summary_role_bytes(const struct mt_summary *summary, mt_role role);

/* Discards the rows that mt_summary_store_progress would write, for a summary that is never stored. */
void mt_summary_forget_progress(struct mt_summary *summary);

/* Writes the segments, steps and checkpoints that are new or changed since the last call, and the totals of ended
 * steps. Replaces existing rows. `prefix` is put before the tables' names: "", or the prefix of temporary tables. */
mt_status mt_summary_store_progress(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                    const char *prefix);

/* Writes the remaining rows of the summary tables, as above. */
mt_status mt_summary_store_totals(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                  const char *prefix);
