/* The operator that a thread runs, reported by PyTorch's RecordFunction. Operators nest; a block is named after the
 * outermost one that has a kernel of its own for the card, as in a dry run, which calls nothing inside of a kernel.
 * Without one, it is the innermost one that does more than allocate.
 *
 *   aten::linear ▶ aten::relu ▶ aten::clamp_min ▶ aten::empty      a block of aten::relu
 *   aten::reshape ▶ aten::clone ▶ aten::empty_like                 a block of aten::clone
 *
 * In backward, a block is named after the class of autograd's node, and the observer is paused: there PyTorch would
 * build names for it, which takes longer than many operators.
 *
 * Threads: any; each has its own operators. */
#pragma once

#include "producers/torch/torch_label.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begin and end an operator; `call` is any pointer that identifies the call. The name must live until the end. */
void mt_torch_operator_begin(const void *call, const char *name);
void mt_torch_operator_end(const void *call);

/* Functions that pause and resume the observer, which runs at first; NULL: there is no observer. */
struct mt_torch_observer {
    void (*pause)(void), (*resume)(void);
};
void mt_torch_operator_observe(const struct mt_torch_observer *observer);

/* Called when a phase begins. Pauses the observer in backward. */
void mt_torch_operator_phase(mt_phase phase);

/* True if the thread converts a tensor to another dtype inside of another operator, as autocast does with the arguments
 * of a matrix product. False in backward, where the observer is paused. */
bool mt_torch_operator_is_inner_cast(void);

/* True if a block of this many bytes is a workspace of a matrix product, which then has no other purpose. `label` is the
 * thread's label for it. Call it for each block, in order. */
bool mt_torch_operator_gets_workspace(struct mt_torch_names *names, const struct mt_torch_label *label, uint64_t bytes);

/* Returns the thread's label for a request of memory: mt_torch_label_here, plus its operator's number in
 * `names`. */
struct mt_torch_label mt_torch_operator_label(struct mt_torch_names *names);

#ifdef __cplusplus
}
#endif
