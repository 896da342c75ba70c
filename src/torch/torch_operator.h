/* The operator of PyTorch that a thread is in, as its RecordFunction tells: operators nest, and the innermost that does
 * more than take memory names a block.
 *
 *   aten::linear ▶ aten::addmm ▶ aten::empty      a block of aten::addmm
 *
 * Threads: any, each about itself. */
#ifndef MT_TORCH_TORCH_OPERATOR_H
#define MT_TORCH_TORCH_OPERATOR_H

#include "torch/torch_label.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begin and end an operator; `call` is any pointer that tells one from another. The name must live until the end. */
void mt_torch_operator_begin(const void *call, const char *name);
void mt_torch_operator_end(const void *call);

/* Returns the thread's label for a request of memory: as mt_torch_label_here, with its operator, by its number in
 * `names`. */
struct mt_torch_label mt_torch_operator_label(struct mt_torch_names *names);

#ifdef __cplusplus
}
#endif

#endif
