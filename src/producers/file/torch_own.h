/* Labels of a snapshot that memtrace exported. It carries labels, spans, steps and phases (docs/export.md), so
 * nothing is guessed, and the run is restored up to fractions of microseconds.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_replay.h"

struct mt_torch_own;

/* Borrows its arguments. start_us is the moment at which the run began, on the clock of the snapshot. */
struct mt_torch_own *mt_torch_own_create(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                                         int64_t start_us, const struct mt_sink *sink, struct mt_foreign *foreign);
void mt_torch_own_destroy(struct mt_torch_own *own); /* may be NULL */

/* Returns the labeler for mt_torch_replay. */
struct mt_torch_labeler mt_torch_own_labeler(struct mt_torch_own *own);

/* Emits the annotations after the last event. Call it after the replay. */
void mt_torch_own_end(struct mt_torch_own *own);
