/* A trace of torch.profiler, as Kineto and TensorBoard's plug-in write it (*.pt.trace.json), as the rows of a memory
 * snapshot.
 *
 *   {"traceEvents": [{"ph": "i", "name": "[memory]", "args": {"Addr": …, "Bytes": ±…}},  ▶ alloc, free_completed
 *                    {"ph": "i", "name": "[OutOfMemory]", "args": {"Bytes": …}},          ▶ oom
 *                    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": …, "dur": …}, ▶ frames of events inside
 *                    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3"}]}    ▶ annotations
 *
 * A trace has [memory] events if it was made with profile_memory=True. Their bytes are rounded block sizes. A trace has
 * no segments. Memory that is live during the whole trace shows only in the totals: it becomes one block.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/torch_snapshot.h"

/* The function of the only frame of the block for memory whose allocation and free are not in the trace. */
#define MT_UNSEEN_MEMORY "memory from before the trace"

/* True if the value has the list of a trace, whatever the list contains. */
bool mt_torch_profile_is_one(const struct mt_value *root);

/* Reads the rows of a GPU, or of the CPU. MT_IMPORT_ANY_DEVICE means the GPU with most events or, if there is none, the
 * CPU. `store` gets the frames; rows refer to it and to the values. Fails with MT_BAD_TRACE and the place if a value
 * has the wrong kind or the trace has no memory event, and with MT_USAGE if there is no such device. Release it in any
 * case. */
mt_status mt_torch_profile_read(const struct mt_value *root, int64_t device, struct mt_value_store *store,
                                struct mt_torch_snapshot *out);

/* Returns the GPU's memory in bytes according to the trace; 0 if unknown. */
uint64_t mt_torch_profile_capacity(const struct mt_value *root, int64_t device);
