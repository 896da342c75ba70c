/* Records how ops use blocks, so that the trace knows each block's last use.
 *
 *   op ──operands──▶ storage.use ──when the storage is freed──▶ mt_alloc_use
 *
 * A view counts for its storage. Uses are recorded where ops check their operands, so they are the same on
 * every device, even on one that computes nothing.
 *
 * Threads: the one that runs the model. */
#pragma once

#include "producers/model/tensor.h"

/* Records that an op read these operands, then wrote its output. An output that the op adds to is among the operands,
 * too. An operand may be NULL. */
void mt_use_note(struct mt_runtime *rt, const struct mt_tensor *output, const struct mt_tensor *const *operands,
                 int count);

/* Record one read or one write: by the host, or of a further output of an op. NULL is allowed. */
void mt_use_read(struct mt_runtime *rt, const struct mt_tensor *tensor);
void mt_use_write(struct mt_runtime *rt, const struct mt_tensor *tensor);

/* Records that a kernel wrote and read its scratch memory. NULL is allowed. */
void mt_use_scratch(struct mt_runtime *rt, const struct mt_tensor *scratch);

/* Records that the last recorded op made `output` as a copy of `input`. Keeps the source of a copy in another
 * precision, if nothing else used `output` before. */
void mt_use_copy(const struct mt_tensor *output, const struct mt_tensor *input);
