/* Snapshots that memtrace export made: they carry labels, spans, steps and phases (docs/export.md), so nothing has to be
 * guessed, and the run is what it was but for the fractions of microseconds.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_OWN_H
#define MT_TRACE_IMPORT_TORCH_OWN_H

#include "trace/import/torch_replay.h"

struct mt_torch_own;

/* Borrows all of it. */
struct mt_torch_own *mt_torch_own_create(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                                         const struct mt_sink *sink, struct mt_foreign *foreign);
void mt_torch_own_destroy(struct mt_torch_own *own); /* may be NULL */

/* What mt_torch_replay asks. */
struct mt_torch_labeler mt_torch_own_labeler(struct mt_torch_own *own);

/* Tells what came after the last event: after the replay. */
void mt_torch_own_end(struct mt_torch_own *own);

#endif
