/* Notes of how ops use blocks, so that the trace knows each block's last use.
 *
 *   op ──operands──▶ storage.use ──when the storage goes──▶ mt_alloc_use
 *
 * A view counts for the storage behind it. The notes are taken where ops check their operands, so they are the same on
 * every device, also on one that computes nothing.
 *
 * Threads: the one that runs the model. */
#pragma once

#include "producers/model/tensor.h"

/* Notes that an op read these operands, then wrote its output. An output that the op adds to is among the operands,
 * too. An operand may be NULL. */
void mt_use_note(struct mt_runtime *rt, const struct mt_tensor *output, const struct mt_tensor *const *operands,
                 int count);

/* Notes one read or one write: of the host, or of a further output of an op. NULL is allowed. */
void mt_use_read(struct mt_runtime *rt, const struct mt_tensor *tensor);
void mt_use_write(struct mt_runtime *rt, const struct mt_tensor *tensor);

/* Notes that a kernel wrote and read its scratch memory. NULL is allowed. */
void mt_use_scratch(struct mt_runtime *rt, const struct mt_tensor *scratch);

/* Notes that the op that was noted last made `output` as a copy of `input`. Keeps the source of a copy in another
 * precision, if nothing else used `output` before. */
void mt_use_copy(const struct mt_tensor *output, const struct mt_tensor *input);
