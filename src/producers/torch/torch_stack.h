/* The call stack of an allocation: the calling thread's stack. In a thread of autograd, the stack of the thread that
 * waits in torch.autograd.backward comes first.
 *
 *   main thread        main.py:7 ▶ train.py:41 ▶ backward, kept ─┐
 *   autograd's thread                                            └▶ (a node) ▶ hook.py:3, if it runs Python
 *
 * Threads: any. */
#pragma once

#include "base/sink.h"
#include "producers/torch/torch_frames.h"

/* Finds the stack of the calling thread's request. Valid until mt_torch_stack_leave. Its depth is 0 if stacks are not
 * recorded. */
void mt_torch_stack_enter(struct mt_torch_stack *out);
void mt_torch_stack_leave(const struct mt_torch_stack *stack);

/* Keep the calling thread's stack for autograd's threads, and drop it before its frames return. */
void mt_torch_stack_keep(void);
void mt_torch_stack_drop(void);

/* Returns the number of a stack in a sink. Leaves out memtrace's own frames. */
mt_stack_id mt_torch_stack_store(const struct mt_torch_stack *stack, const struct mt_sink *sink);

/* Begins anew, for tests. */
void mt_torch_stack_forget(void);
