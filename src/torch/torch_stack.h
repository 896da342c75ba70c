/* The call stack of a request for memory: that of the calling thread or, in a thread of autograd's that runs no Python, of
 * the thread that waits in torch.autograd.backward.
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_STACK_H
#define MT_TORCH_TORCH_STACK_H

#include "base/sink.h"
#include "torch/torch_frames.h"

/* Returns the calling thread's stack, walked into *own; or the one that was kept for all others, which nobody changes until
 * mt_torch_stack_leave. Its depth is 0 where stacks are not recorded. */
const struct mt_torch_stack *mt_torch_stack_enter(struct mt_torch_stack *own);
void mt_torch_stack_leave(const struct mt_torch_stack *stack, const struct mt_torch_stack *own);

/* Keep the calling thread's stack for others, and drop it before its frames return. */
void mt_torch_stack_keep(void);
void mt_torch_stack_drop(void);

/* Returns the number of a stack in a sink. Leaves out frames of memtrace's own. */
mt_stack_id mt_torch_stack_store(const struct mt_torch_stack *stack, const struct mt_sink *sink);

/* Begins anew, for tests. */
void mt_torch_stack_forget(void);

#endif
