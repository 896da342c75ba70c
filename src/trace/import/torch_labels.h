/* What the blocks of a PyTorch snapshot are for: labels, spans, phases and steps, out of the frames of those who asked.
 *
 *   frames ─▶ call stack ─▶ rules ────────────▶ phase, category, role, op ─┐
 *                └─ backward: forward tape ───▶ what it undoes ────────────┴▶ label, span
 *   lifetimes ────────────▶ outlives its phase? ─▶ role saved, or temporary
 *
 * A step begins where rules say so, and where forward follows the optimizer. Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_LABELS_H
#define MT_TRACE_IMPORT_TORCH_LABELS_H

#include "base/text.h"
#include "trace/import/rules.h"
#include "trace/import/torch_replay.h"

struct mt_torch_labels;

/* Borrows all of it. */
struct mt_torch_labels *mt_torch_labels_create(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                                               const struct mt_sink *sink, struct mt_foreign *foreign);
void mt_torch_labels_destroy(struct mt_torch_labels *labels); /* may be NULL */

/* What mt_torch_replay asks. */
struct mt_torch_reader mt_torch_labels_reader(struct mt_torch_labels *labels);

/* Ends the last step: after the replay. */
void mt_torch_labels_end(struct mt_torch_labels *labels);

/* How much got a category. Invariant: other <= all. */
struct mt_torch_coverage {
    uint64_t all_bytes, other_bytes; /* requested, over the whole recording */
    uint64_t all_blocks, other_blocks;
    uint64_t before_recorded; /* blocks of before that say who asked: their beginning was recorded, and is lost */
};
struct mt_torch_coverage mt_torch_labels_coverage(const struct mt_torch_labels *labels);

/* Somebody whose blocks no rule covers. */
struct mt_torch_uncovered {
    const char *who; /* "forward (model.py:12), operator mul_Tensor"; the labels' */
    uint64_t bytes, blocks;
};

/* The `limit` with most bytes, most first; returns how many. */
size_t mt_torch_labels_uncovered(struct mt_torch_labels *labels, size_t limit, struct mt_torch_uncovered *out);

#endif
