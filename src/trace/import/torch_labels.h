/* Labels, spans, phases and steps of a snapshot, from the call stacks of its requests.
 *
 *   frames ─▶ call stack ─▶ rules ──────────────▶ phase, category, role, op ─┐
 *                └─ backward: forward tape ─────▶ the operator it undoes ────┴▶ label, span
 *   lifetimes ────────────▶ outlives its phase? ─▶ role saved, or temporary
 *
 * A step begins where rules say so, and where forward follows the optimizer. Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_LABELS_H
#define MT_TRACE_IMPORT_TORCH_LABELS_H

#include "trace/import/rules.h"
#include "trace/import/torch_replay.h"

struct mt_torch_labels;

/* Borrows its arguments. */
struct mt_torch_labels *mt_torch_labels_create(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                                               const struct mt_sink *sink, struct mt_foreign *foreign);
void mt_torch_labels_destroy(struct mt_torch_labels *labels); /* may be NULL */

/* Returns the labeler for mt_torch_replay. */
struct mt_torch_labeler mt_torch_labels_labeler(struct mt_torch_labels *labels);

/* Ends the last step. Call it after the replay. */
void mt_torch_labels_end(struct mt_torch_labels *labels);

/* Return how many blocks got a category, and how many of those that were live before the first event have a call stack: an
 * earlier recording saw them taken. */
struct mt_import_coverage mt_torch_labels_coverage(const struct mt_torch_labels *labels);
uint64_t mt_torch_labels_recorded_before(const struct mt_torch_labels *labels);

/* A call stack whose blocks got no category. */
struct mt_torch_uncovered {
    const char *who; /* "function=forward file=model.py line=12 operator=mul_Tensor"; the labels' */
    uint64_t bytes, blocks;
};

/* Sets out[] to the `limit` call stacks with most bytes, largest first. Returns their number, which may be smaller. */
size_t mt_torch_labels_uncovered(struct mt_torch_labels *labels, size_t limit, struct mt_torch_uncovered *out);

#endif
