/* The functions of the dry-run library that python/memtrace/dry calls through ctypes. Storages are addresses of a
 * c10::StorageImpl. Called with Python's lock held. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes this process have `count` cards. Once, after PyTorch's libraries were loaded and before its first tensor. */
void memtrace_dry_begin(int count);

/* Call it once torch is imported, before the first call on a card. */
void memtrace_dry_imported(void);

/* Starts recording the uses of blocks by operators. Once. */
void memtrace_dry_follow_uses(void);

/* Records that a kernel outside any operator may read and write a tensor. `tensor` is the address of a
 * c10::TensorImpl. */
void memtrace_dry_used(void *tensor);

/* Sets the current device, and returns the one before; -1 changes nothing. */
int memtrace_dry_device(int device);

/* Sets this thread's stream of a device, and returns the one before; -1 changes nothing. */
int64_t memtrace_dry_stream(int device, int64_t stream);

/* Returns the number of a new stream. */
int64_t memtrace_dry_new_stream(void);

/* Makes an operator ("aten::add.Tensor") use the kernel of every operator, if it has a kernel for CUDA and would
 * otherwise be decomposed. One with a kernel of our own keeps it. Returns 0; 1 if this PyTorch does not know the
 * operator. */
int memtrace_dry_operator(const char *name);

/* Makes an operator ("aten::_to_sparse") use PyTorch's function for both the host and cards. Returns 0; 1 if this
 * PyTorch does not know the operator. */
int memtrace_dry_shared(const char *name);

/* The same for sparse and nested tensors. If there is no such function, the operator is refused, unless it has a kernel
 * of our own. */
int memtrace_dry_sparse(const char *name, int is_shared);
int memtrace_dry_nested(const char *name, int is_shared);

/* Returns the values of a storage; NULL if it has none or is not on a card. Unlike a copy to the host, does not report
 * values that were not computed. */
const void *memtrace_dry_values(const void *storage);

/* Marks the values of a tensor on a card unknown, since a kernel that did not run may have written it. `tensor` is the
 * address of a c10::TensorImpl. Does nothing for a tensor on the host or without a storage. */
void memtrace_dry_written(void *tensor);

/* Returns 1 if the values of a tensor are known, 0 if not. `tensor` is the address of a c10::TensorImpl. */
int memtrace_dry_is_known(void *tensor);

/* ---- private pools and captures of CUDA graphs (dry_capture.h); a pool is PyTorch's pair of numbers ---- */

/* The allocations that come from a pool: all of the card, only the current stream's, or only this thread's. */
enum { MEMTRACE_DRY_OF_ALL, MEMTRACE_DRY_OF_STREAM, MEMTRACE_DRY_OF_THREAD, MEMTRACE_DRY_OF_CAPTURE };

/* Begin and end serving allocations of a card from a pool. The first adds a user to the pool, and the second removes
 * it. Return 0; 1 if allocations come from the pool already, or do not. */
int memtrace_dry_route_begin(int device, uint64_t first, uint64_t second, int whose);
int memtrace_dry_route_end(int device, uint64_t first, uint64_t second);

/* Begins a capture of the current stream, whose allocations come from a pool until memtrace_dry_route_end, and sets
 * *out_graph to the number of the graph. Returns 0; 1 if the stream is captured, or another capture uses the pool. */
int memtrace_dry_capture_begin(uint64_t first, uint64_t second, uint64_t *out_graph);

/* Frees what a graph holds of the card's generator. */
void memtrace_dry_forget_graph(uint64_t graph);

/* Ends the capture that began on the current stream. Returns 0 or the error: it began on another stream, or a call was
 * refused. */
enum { MEMTRACE_DRY_OTHER_STREAM = 1, MEMTRACE_DRY_BROKEN = 2 };
int memtrace_dry_capture_end(void);

/* Returns 1 if the current stream is captured. */
int memtrace_dry_is_capturing(void);

/* Waits for the current device. Returns 1 if that is refused because a stream is captured. */
int memtrace_dry_synchronize(void);

/* Frees the workspaces of matrix products. */
void memtrace_dry_clear_workspaces(void);

/* Returns 1 if a storage owns a block of a card. */
int memtrace_dry_owns(const void *storage);

/* The first makes a storage forget its block, which stays allocated, and keep the address. The second gives a storage
 * without a block the block of `bytes` that was allocated at its address. For CUDA graph trees, which restore a pool's
 * blocks. */
void memtrace_dry_disown(void *storage);
void memtrace_dry_adopt(void *storage, uint64_t bytes);

/* Make a tensor (the address of a c10::TensorImpl) and a storage raise an error when their data is accessed. */
void memtrace_dry_forbid_tensor(void *tensor, const char *words);
void memtrace_dry_forbid_storage(void *storage, const char *words);

/* Makes libraries that were loaded since the last call skip launches of kernels (dry_launches.cpp). The first call
 * finds PyTorch's libraries and leaves them unchanged. */
void memtrace_dry_skip_launches(void);

/* Notes the launch of a kernel, which may write any tensor of the current card. */
void memtrace_dry_launch(void);

/* Records that the CUDA kernel of another library's operator ("library::name.overload") is a Python function, which
 * runs. */
void memtrace_dry_python_kernel(const char *name);

/* Makes the thread's next call of another library's operator take its results from the fake kernel instead of the
 * function. */
void memtrace_dry_skip_body(void);

/* Returns 1 if this thread computes shapes for a call of another library's operator. The second returns the assumed
 * size of a result whose size depends on values: at most `most`, unless that is negative. */
int memtrace_dry_makes_shapes(void);
int64_t memtrace_dry_dynamic_size(int64_t most);

/* Changes the size of a storage. */
int memtrace_dry_resize(void *storage, uint64_t bytes);

/* Delays writing an nn.Parameter, and the tensor that it was made from, until they are read, if they are a weight on
 * the host (dry_weights.cpp). Both are addresses of a c10::TensorImpl. */
void memtrace_dry_weight(void *parameter, void *data);

/* Removes the values of a storage on the host. It then reads as zeros, which count as assumed. */
void memtrace_dry_unknown(void *storage);

/* Returns 1 if a storage was not written yet. Its memory must not be read. */
int memtrace_dry_is_late(const void *storage);

/* Gives a new storage the content of one of the same size that was not written yet. */
void memtrace_dry_copy_late(void *to, const void *from);

/* Writes a storage, before other code reads its memory. Returns 1 if the host has too little memory. */
int memtrace_dry_settle(void *storage);

/* The same, before values are read. Records an assumption if they were not computed. */
int memtrace_dry_read(void *storage);

/* Record that memory of the host is pinned in place, and that it is no longer pinned. */
void memtrace_dry_pin(const void *data, uint64_t bytes);
void memtrace_dry_unpin(const void *data);

/* Sets the assumption for values that are not computed: a number, and for masks the fraction of true elements. `note`
 * is called at each use. */
void memtrace_dry_assume(double number, double masks, void (*note)(const char *name, double value));

/* Makes torch.Generator return the default generators of cards while it is on. For torch.cuda.default_generators. */
void memtrace_dry_gives_default(int is_on);

/* Replaces a process group's backend for one device type ("cuda" or "cpu") with one that moves no data. `folder` is for
 * messages between ranks. `ranks` are the group's ranks in the whole program. The last call for NCCL makes it the
 * group's default. If the group has its own device, NCCL's communicator begins at once. */
void memtrace_dry_group(const char *name, const char *folder, const char *device, const char *backend,
                        const int *ranks);

#ifdef __cplusplus
}
#endif
