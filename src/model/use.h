/* How ops use blocks: who notes what an op reads and writes, so that the trace knows each block's last use.
 *
 *   op ──operands──▶ storage.use ──when the storage goes──▶ mt_alloc_use
 *
 * A view counts for the storage behind it. The notes are taken where ops check their operands, so they are the same on
 * every device, whether it computes or not.
 *
 * Threads: the one that runs the model. */
#ifndef MT_MODEL_USE_H
#define MT_MODEL_USE_H

#include "model/runtime.h"

/* An op read these operands, then wrote its output. One that the op adds to is among the operands, too. */
void mt_use_note(struct mt_runtime *rt, const struct mt_tensor *output, const struct mt_tensor *const *operands,
                 int count);

/* What is not an op: the host. */
void mt_use_read(struct mt_runtime *rt, const struct mt_tensor *tensor);
void mt_use_write(struct mt_runtime *rt, const struct mt_tensor *tensor);

/* What a kernel takes for itself: it wrote and read it. NULL is allowed. */
void mt_use_scratch(struct mt_runtime *rt, const struct mt_tensor *scratch);

/* The op that was noted last made `output` as a copy of `input`. Keeps that of which it is a copy in another precision,
 * if this was the first that `output` was used for. */
void mt_use_copy(const struct mt_tensor *output, const struct mt_tensor *input);

#endif
