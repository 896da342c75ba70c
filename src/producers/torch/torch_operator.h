/* The operator of PyTorch that a thread is in, as its RecordFunction tells: operators nest, and the innermost that does
 * more than take memory names a block.
 *
 *   aten::linear ▶ aten::addmm ▶ aten::empty      a block of aten::addmm
 *
 * In backward the class of autograd's node names it: there PyTorch would make names for an observer that take longer than
 * many operators. So the observer pauses.
 *
 * Threads: any, each about itself. */
#pragma once

#include "producers/torch/torch_label.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begin and end an operator; `call` is any pointer that tells one from another. The name must live until the end. */
void mt_torch_operator_begin(const void *call, const char *name);
void mt_torch_operator_end(const void *call);

/* Sets the functions that pause and resume the observer, which runs; NULL: there is none. */
struct mt_torch_observer {
    void (*pause)(void), (*resume)(void);
};
void mt_torch_operator_observe(const struct mt_torch_observer *observer);

/* Is told of a phase that begins. */
void mt_torch_operator_phase(mt_phase phase);

/* Returns the thread's label for a request of memory: as mt_torch_label_here, with its operator, by its number in
 * `names`. */
struct mt_torch_label mt_torch_operator_label(struct mt_torch_names *names);

#ifdef __cplusplus
}
#endif
