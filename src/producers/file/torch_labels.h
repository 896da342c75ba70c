/* Labels, spans, phases and steps of a snapshot, from the call stacks of its requests.
 *
 *   frames ─▶ call stack ─▶ rules ──────▶ phase ─▶ course: phases, steps ─▶ lives: the role that a block seems to have
 *                └─ backward: forward tape ─▶ the operator it undoes ─┐          │
 *                            rules ───────────────────────────────────┴──────────┴▶ category, role, op ─▶ label, span
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/rules.h"
#include "producers/file/torch_replay.h"

struct mt_torch_labels;

/* Borrows its arguments. */
struct mt_torch_labels *mt_torch_labels_create(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                                               const struct mt_sink *sink, struct mt_foreign *foreign);
void mt_torch_labels_destroy(struct mt_torch_labels *labels); /* may be NULL */

/* Returns the labeler for mt_torch_replay. */
struct mt_torch_labeler mt_torch_labels_labeler(struct mt_torch_labels *labels);

/* Ends the last step. Call it after the replay. */
void mt_torch_labels_end(struct mt_torch_labels *labels);

/* Fills in the report's coverage, the call stacks with the most bytes without a category, largest first, the number of
 * blocks from before the first event whose allocation an earlier recording saw, and the times of steps. The report owns
 * these. */
void mt_torch_labels_report(struct mt_torch_labels *labels, struct mt_import_report *out);
