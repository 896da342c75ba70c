/* A trace of torch.profiler, as Kineto and TensorBoard's plug-in write it (*.pt.trace.json), as the rows of a memory snapshot.
 *
 *   {"traceEvents": [{"ph": "i", "name": "[memory]", "args": {"Addr": …, "Bytes": ±…}},  ▶ alloc, free_completed
 *                    {"ph": "i", "name": "[OutOfMemory]", "args": {"Bytes": …}},          ▶ oom
 *                    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": …, "dur": …}, ▶ frames of those within
 *                    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3"}]}    ▶ annotations
 *
 * A trace has [memory] events if it was made with profile_memory=True. Their bytes are those of blocks, rounded. It has no
 * segments. Memory that was live before and after the trace shows only in the totals: it becomes one block.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* The function of the one frame of the block for memory that the trace saw neither taken nor freed. */
#define MT_UNSEEN_MEMORY "memory from before the trace"

/* True if the value has the list of a trace, whatever is in it. */
bool mt_torch_profile_is_one(const struct mt_value *root);

/* Reads the rows of a GPU, or of the CPU. MT_IMPORT_ANY_DEVICE means the GPU with most events or, if there is none, the CPU. `store` gets the
 * frames; rows refer to it and to the values. Fails with MT_BAD_TRACE and the place if a value is of the wrong kind, or if the
 * trace has no event of memory, and with MT_USAGE if there is no such device. Release it in any case. */
mt_status mt_torch_profile_read(const struct mt_value *root, int64_t device, struct mt_value_store *store,
                                struct mt_torch_snapshot *out);

/* Returns the bytes that the GPU has, by the trace; 0 if it does not say. */
uint64_t mt_torch_profile_capacity(const struct mt_value *root, int64_t device);
