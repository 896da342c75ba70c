/* libmemtrace_torch.so: labels for the memory of a PyTorch program. It watches PyTorch's own allocator, or it provides
 * the memory itself through PyTorch's pluggable allocator interface, whose functions are the first group below. The
 * package in python/memtrace calls the other functions through ctypes. Other programs can do the same.
 *
 * Categories and phases are numbers, from memtrace_torch_category and memtrace_torch_phase_number. Functions that
 * return int return 0, or memtrace's exit code for the failure; memtrace_torch_last_error gives the reason.
 *
 * Threads: any. CUDA does not work in a forked child, and neither does this library: allocating throws, and all other
 * functions do nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for PyTorch; streams are cudaStream_t ---- */

/* Returns a block for work of `stream`; NULL for size 0. If the card has no more memory, throws c10::OutOfMemoryError,
 * which Python sees as torch.OutOfMemoryError. Throws std::runtime_error for all other failures. */
void *memtrace_torch_alloc(ssize_t size, int device, void *stream);

/* Frees a block. Later work of the stream that it was allocated for may reuse it at once. A pointer that was not
 * allocated here is counted and ignored. */
void memtrace_torch_free(void *ptr, ssize_t size, int device, void *stream);

void memtrace_torch_init(int device_count);

/* Releases the cached memory of all cards, for torch.cuda.empty_cache. */
void memtrace_torch_reset(void);

/* Limits the reserved memory of a card to a fraction of its capacity. */
void memtrace_torch_memory_fraction(double fraction, int device);

/* Returns `ptr`, and sets *size to the bytes of its block; 0 if no block begins there. */
void *memtrace_torch_base_alloc(void *ptr, size_t *size);

/* Records that work of a stream also uses the block at `ptr`. */
void memtrace_torch_record_stream(void *ptr, void *stream);

/* Records that an operator read or wrote the block of our allocator at `address`. Ignores other addresses. */
void memtrace_torch_use(int device, uint64_t address, int is_write);

/* Records that an operator of the calling thread copies the block at `from` into the one at `to`, both of our
 * allocator. A parameter that autocast copies has the role weight cast there. */
void memtrace_torch_copied(int device, uint64_t to, uint64_t from);

/* Stops recording uses on all cards, since kernels outside known operators may use any block. */
void memtrace_torch_lose_uses(void);

/* ---- settings, and the end ---- */

/* Configures the allocator and the traces, before the first allocation. `alloc` has the syntax of memtrace's --alloc
 * ("": the default). `trace_path` is the trace of the first card in use; card N after it inserts -cudaN before the
 * extension. NULL: nothing is stored. `program` is the name of the run. Copies all strings. Fails once a card is in
 * use. */
int memtrace_torch_configure(const char *alloc, const char *trace_path, const char *program);

/* The requests and frees of a simulated card since the program began, as numbers that allow two intervals to be
 * compared. All arithmetic is modulo 2^64.
 *
 *   requests = sum over i < request_count of (bytes[i] + 1) * FACTOR^(request_count - 1 - i)
 *
 * So the requests between two readings a and b have the number b.requests - a.requests * FACTOR^(b.request_count -
 * a.request_count), which depends on their order. `frees` is a sum over the freed blocks and does not depend on their
 * order, since some programs free in the order of addresses. Both stay 0 on a real card. */
#define MEMTRACE_TORCH_HISTORY_FACTOR UINT64_C(6364136223846793005)
struct memtrace_torch_past {
    uint64_t requests, request_count, frees;
};
void memtrace_torch_history(struct memtrace_torch_past *out);

/* Replaces every card of this process by a simulated one ("sim:h100"), before the first allocation. Copies the string.
 * Fails with MT_NO_DEVICE (4) if there is no such device. */
int memtrace_torch_simulate(const char *device);

/* The tensor that a block is for. `dtype` is the number of a c10::ScalarType. */
enum { MEMTRACE_TORCH_DIMS = 16 };
struct memtrace_torch_shape {
    int32_t dtype, dims;
    int64_t sizes[MEMTRACE_TORCH_DIMS];
};

/* Allocates a block like memtrace_torch_alloc, for a tensor of the given shape (NULL: unknown), from a private pool (0:
 * the default pool). Returns a status instead of throwing. */
int memtrace_torch_take(int64_t bytes, int device, uint64_t stream, uint32_t pool,
                        const struct memtrace_torch_shape *shape, uint64_t *out_address);

/* ---- private pools of a simulated card: memory that serves no other requests (torch_private_pool.h) ----
 *
 * A pool is known by PyTorch's pair of numbers. Functions that return its users return -1 if there is no such pool. */

enum { MEMTRACE_TORCH_UNSPLIT = 1, MEMTRACE_TORCH_LENT = 2 };

/* Adds a user to a pool and sets *out_number to the pool's number on the card, from 1. Creates the pool if needed.
 * `kind` is a sum of flags: segments of the pool are never split; its free blocks serve requests that would otherwise
 * be refused. The flags are added to the pool's earlier ones. */
int memtrace_torch_pool_use(int device, uint64_t first, uint64_t second, int kind, uint32_t *out_number);

/* Removes a user and returns the number left. Idle segments of a pool without users are released with other cached
 * memory. */
int memtrace_torch_pool_leave(int device, uint64_t first, uint64_t second);

/* Returns the number of users. */
int memtrace_torch_pool_users(int device, uint64_t first, uint64_t second);

/* Releases the idle segments of a pool without users. */
void memtrace_torch_pool_empty(int device, uint64_t first, uint64_t second);

/* Begin and end a capture on a card, as mt_alloc_capture_begin. */
void memtrace_torch_capture_begin(int device);
void memtrace_torch_capture_end(int device);

/* A piece of a segment of a simulated card: a block, or free memory. */
struct memtrace_torch_piece {
    uint64_t segment, address, bytes;
    uint64_t requested;             /* 0: it is free */
    uint64_t stream, first, second; /* PyTorch's; both numbers of the pool are 0 where it is not private */
    int32_t is_small, is_expandable, is_waiting, unused;
};

/* Writes the first `most` pieces, in order of segments and addresses, and returns how many there are. */
int memtrace_torch_pieces(int device, struct memtrace_torch_piece *out, int most);

/* Allocates the block that begins at an address, out of free memory. Returns MT_USAGE (2) if no free block has that
 * size. */
int memtrace_torch_take_at(int device, uint64_t address, uint64_t bytes);

/* Sends the trace of each card to `memtrace record`, if the environment says that it started this process. */
void memtrace_torch_answer(void);

/* Ends all traces with an outcome: done (0), failed (1) or out of memory (5). Blocks stay allocated. */
int memtrace_torch_close(int outcome);

/* Returns the reason why the calling thread's last call failed. */
const char *memtrace_torch_last_error(void);

/* ---- PyTorch's own allocator, watched ---- */

/* The parts of PyTorch's ABI that the watcher uses, read from PyTorch's headers (python/memtrace/recording/abi.py):
 * indices into the table of virtual functions of CUDAAllocator, offsets in bytes of TraceEntry's fields, and numbers of
 * its actions. */
struct memtrace_torch_abi {
    uint32_t name_slot, attach_slot;
    uint32_t action_offset, device_offset, address_offset, stream_offset, bytes_offset;
    uint32_t pool_offset; /* of a private pool's pair of numbers; 0: this PyTorch's entries have none */
    int32_t alloc, free_requested, segment_alloc, segment_free, segment_map, segment_unmap, oom;
};

/* Prepares to watch, once the process has loaded PyTorch and before CUDA begins. `trace_path` is the trace of the first
 * card in use; further cards insert -cudaN before the extension. NULL: the path that memtrace record has set in the
 * environment. Copies all strings. Fails, without changing anything, if this PyTorch does not match the ABI. */
int memtrace_torch_watch(const struct memtrace_torch_abi *abi, const char *trace_path, const char *name);

/* True from memtrace_torch_watch until the traces are closed. */
int memtrace_torch_is_watching(void);

/* Names a card for the trace, before its first block. */
void memtrace_torch_card(int device, const char *name, uint64_t capacity);

/* Attaches the watcher once CUDA has begun. Fails if the allocator is not PyTorch's own. */
int memtrace_torch_attach(void);

/* Records memory that PyTorch had reserved before the watcher was attached. */
void memtrace_torch_found_segment(int device, uint64_t address, uint64_t bytes, uint64_t stream, int is_expandable);
void memtrace_torch_found_block(int device, uint64_t address, uint64_t requested, uint64_t allocated, uint64_t stream);

/* Record memory that a CUDA function allocated or freed. Memory that PyTorch's allocator then reports as its own is not
 * counted here; the rest is stored as memory outside the allocator. `holder` is the file of the calling library or, if
 * unknown, the function; it is copied. */
void memtrace_torch_outside_take(int device, uint64_t address, uint64_t bytes, const char *holder);
void memtrace_torch_outside_give(uint64_t address);

/* ---- labels: some 15 ns a call, and 150 ns more if a trace stores the call ---- */

/* Returns the number of the span with this name and class in a parent span (0: the root). Equal spans have one
 * number. */
uint32_t memtrace_torch_span(uint32_t parent, const char *name, const char *kind);

/* Returns the number of a category, built-in or new. Returns the number of "Other" if there are 64 already. */
int memtrace_torch_category(const char *name);

/* The same, for a category whose blocks have the role workspace. */
int memtrace_torch_workspace_category(const char *name);

/* Returns the name of a category; NULL for a number without one. */
const char *memtrace_torch_category_name(int category);

/* Returns the number of "init", "forward", "loss", "backward" or "optimizer"; -1 for another word. */
int memtrace_torch_phase_number(const char *name);

/* Begins a span for the thread's allocations and returns the depth that the end function needs. If an exception skips
 * the end of a call, the enclosing call's end ends it too. */
uint32_t memtrace_torch_span_begin(uint32_t span, int category);
void memtrace_torch_span_end(uint32_t depth);

/* Return the thread's innermost span, and its category. */
uint32_t memtrace_torch_span_now(void);
int memtrace_torch_category_now(void);

/* Sets the program's phase, and the category of allocations in it that no span covers. */
void memtrace_torch_phase(int phase, int category);

/* Begins a step, and ends the current one if there is one. Returns its number, from 0. */
int64_t memtrace_torch_step_begin(void);
void memtrace_torch_step_end(void);

/* Gives the role "kept" to blocks that seemed temporary but were live through the two model calls before this one. */
void memtrace_torch_keep(void);

/* Gives the block at `ptr` another span and category, and a shape if it has none (NULL: unknown). MT_USAGE (2) if no block
 * begins there. */
int memtrace_torch_relabel(const void *ptr, uint32_t span, int category, const struct memtrace_torch_shape *shape);

/* Gives the block at `ptr`, if there is one, the role kept and a span of that name ("EMA of Net"). Blocks of our
 * allocator with the same label, such as the same copy after the next step, get the role and the span when
 * memtrace_torch_keep finds them. */
void memtrace_torch_copy_of_weights(const void *ptr, const char *name);

/* Gives the block at an address of a card the role key-value cache, and later blocks that the same op allocates in the
 * same module with one longer dimension. */
void memtrace_torch_cache(int device, uint64_t address);

/* Stores a number for the current step ("loss") in all traces. */
void memtrace_torch_measure(const char *name, double value);

/* Stores a caveat in all traces: a fact that makes the figures of the run incomplete or uncertain. It replaces an
 * earlier caveat with the same kind, name and place, so a total can be sent again. Kinds are "shortened", "not_run",
 * "unknown", "estimated", "assumed", "growth", "weights", "choice", "eager", "other_card", "not_updated",
 * "not_detached" and "zeroed" (trace/store/caveat.h); another kind is ignored. Negative numbers, NAN, a NULL file and
 * line 0 mean "unknown". */
void memtrace_torch_caveat(const char *kind, const char *name, const char *file, int line, int64_t count, int64_t total,
                           int64_t bytes, double value);

/* Stores a setting of the program in all traces. Copies both texts. */
void memtrace_torch_set(const char *name, const char *value);

/* Stores the arguments of the program in all traces, in the setting "arguments": `words` are `bytes` long, each but the
 * last followed by '\0'. Secrets become "***" (run/shown_words.h). */
void memtrace_torch_arguments(const char *words, uint64_t bytes);

/* Begins a program phase in all traces: "load", "train", "validate", "generate", "inference" or "save"; for serving
 * engines also
 * "profile", "capture" and "serve". It lasts until the next one begins. Ignores other words. */
void memtrace_torch_program_phase(const char *name);

/* Stores a holder of the live block that begins at an address of a card (trace/store/holder.h): "variable",
 * "attribute", "closure", "traceback", "exception", "cycle", "gradient cycle", "graph", "chain",
 * "gradient chain", "view" or "copy". `loop_file` and `loop_line` locate the loop in which the holder grows. Copies the strings; a NULL file and line 0 mean "unknown". */
void memtrace_torch_holder(int device, uint64_t address, const char *kind, const char *name, const char *owner,
                           const char *file, int line, uint64_t held_bytes, const char *loop_file, int loop_line);

/* Returns the live bytes of all cards that are traced, as requested: unlike blocks, they don't vary between iterations
 * that make the same requests. */
uint64_t memtrace_torch_live(void);

/* Returns the bytes that a forked child has freed. These frees do not affect the parent or its traces. */
uint64_t memtrace_torch_freed_in_child(void);

/* Stores in all traces why the run ended: "program", "settled", "unsettled", "steps", "time limit", "signal", "error",
 * "out of memory", "growth", "values" or "caught". The last reason counts; another word is ignored. */
void memtrace_torch_ended_by(const char *why);

/* ---- hooks that run in C, called with Python's lock held ---- */

typedef struct _object PyObject;

/* Finds Python in this process, for the functions below. `function` is a Python function that nothing follows yet: its
 * entry shows how Python runs functions. Fails if Python lacks a function that the hooks need. */
int memtrace_torch_python(PyObject *function);

/* Takes torch._C._dynamo.eval_frame.set_eval_frame, which switches torch.compile off while functions of the watcher
 * run. */
void memtrace_torch_compiler(PyObject *switch_compiler);

/* Begin and end running torch.nn.Module.__call__ (`call`) in the span of the module, its first argument. The function
 * object does not change. on_new(module) is called for a module without a span, unless on_new is None.
 * on_outermost(module) is called before a module that no other module calls, and on_outermost(None) after it.
 * SystemExit and KeyboardInterrupt raised in on_outermost end the program; other exceptions of both functions are
 * ignored. The first fails if `call` is not a function written in Python. The functions of the last watcher are used;
 * each begin needs one end. */
int memtrace_torch_modules_begin(PyObject *call, PyObject *on_new, PyObject *on_outermost);
void memtrace_torch_modules_end(PyObject *call);

/* Begin and end following runs of autograd's engine, whose method is `engine_run`. on_backward(its arguments by name)
 * is called before a run, and on_backward(None) after it. Exceptions are handled as for on_outermost. The first fails
 * if `engine_run` is not a method with the expected layout. */
int memtrace_torch_backward_begin(PyObject *engine_run, PyObject *on_backward);
void memtrace_torch_backward_end(PyObject *engine_run);

/* Calls on_range(name) when a step of an optimizer ("Optimizer.step#NAME.step") or of torch.profiler ("ProfilerStep#N")
 * begins, and on_range(None) when an optimizer's step ends. Exceptions are handled as for on_outermost. */
void memtrace_torch_ranges_watch(PyObject *on_range);

/* Returns a new function that labels a parameter's gradient. */
PyObject *memtrace_torch_gradient_hook(uint32_t span, int category);

/* Set and remove the span and category of a module, by the address of its Python object. */
void memtrace_torch_module(uint64_t module, uint32_t span, int category);
void memtrace_torch_module_end(uint64_t module);

/* True (1) if a module that has a place was called since it got the place. Calls in compiled code do not count. */
int memtrace_torch_module_is_called(uint64_t module);

/* Labels backward by the sequence numbers of autograd's nodes, from now on and for nodes that this thread creates.
 * `number_at` and `thread_at` are the offsets of a node's number and of its thread's number; `thread` is this thread's
 * number. Fails for an unknown version of PyTorch. */
int memtrace_torch_graph(uint32_t number_at, uint32_t thread_at, uint64_t thread);

/* Sets the modules of the lines of generated code: "LINE\tROOT\tPATH\tKIND\tCATEGORY\n" for lines from LINE on, in
 * order. PATH is relative to the module whose span the code runs in, or to ROOT if it runs in no span. `code` is the
 * address of a code object, which must stay alive. Copies the string. Takes effect after memtrace_torch_stacks. */
void memtrace_torch_generated(uint64_t code, const char *origins);

/* ---- call stacks and operator names for blocks of a watched allocator ---- */

/* Prepares to read the call stacks of this process's Python 3.`minor`. Fails if its memory layout is unknown. */
int memtrace_torch_stacks(int minor);

/* Returns the calling thread's stack, innermost frame first: "FUNCTION\tFILE\tLINE\n" each. Valid until the next call,
 * with Python's lock held. To be compared with Python's answers before stacks are recorded. */
const char *memtrace_torch_stack_text(void);

/* Begin and end recording stacks, without the frames of files whose path begins with `package`. The first call sets
 * it. */
void memtrace_torch_stacks_begin(const char *package);
void memtrace_torch_stacks_end(void);

/* Returns the operator that the calling thread allocates for; NULL if unknown. Valid as long as the library is
 * loaded. */
const char *memtrace_torch_operator_now(void);

/* Notes that the card has a kernel for the operator ("aten::relu"), whose blocks are then not named after operators that
 * the kernel calls. Copies the name. */
void memtrace_torch_kernel(const char *name);

/* Begin and end recording the operators that allocate memory. The first fails for an unknown version of PyTorch. */
int memtrace_torch_operators(void);
void memtrace_torch_operators_end(void);

/* Begin and end following the ranges of the program; `kind` is their number among PyTorch's kinds of observed
 * functions. The first fails for an unknown version of PyTorch. */
int memtrace_torch_ranges(uint32_t kind);
void memtrace_torch_ranges_end(void);

/* Starts recording which blocks are allocated with gradients disabled. Backward does not need them. Fails for an
 * unknown version of PyTorch. */
int memtrace_torch_grad_mode(void);

/* ---- a process that ends in native code ---- */

/* Remember, and return, the function of the driver's stand-in that failed last; NULL if none did. `call` is static. */
void memtrace_torch_driver_failed(const char *call);
const char *memtrace_torch_driver_failure(void);

/* Starts reporting if native code ends the process, by a signal such as SIGSEGV or by exit. The report names the
 * function, its library, the lines of Python that called it (after memtrace_torch_stacks), and the last failed call of
 * the driver. It goes to memtrace dry-run; without dry-run, nothing is reported. The signal then has its usual effect.
 * Once per process. */
void memtrace_torch_follow_end(void);

/* The interpreter calls this when it ends, so that a later exit is not reported. */
void memtrace_torch_ending(void);

/* ---- statistics ---- */

/* Bytes of one card, in one category or in all; `allocated` is `requested`, rounded up to blocks. */
struct memtrace_torch_figures {
    uint64_t requested, allocated, blocks;
    uint64_t peak_requested, peak_allocated;
    uint64_t allocations; /* since the start */

    /* of the whole card; unknown_frees of all cards */
    uint64_t reserved, peak_reserved, capacity, segments, largest_free, refusals, unknown_frees;
};

enum { MEMTRACE_TORCH_ALL = -1 };

/* Gets the figures of a category, or of MEMTRACE_TORCH_ALL. All are 0 for a card that is not in use. MT_USAGE (2) for a
 * number without a category. */
int memtrace_torch_statistics(int device, int category, struct memtrace_torch_figures *out);

/* A simulated card as the program sees it. */
struct memtrace_torch_description {
    char name[64];
    uint64_t total_bytes, context_bytes; /* as the driver tells; of that, what a process holds beside its allocator */
    uint64_t others_bytes;               /* and what other processes hold */
    uint64_t l2_bytes, block_shared_bytes, multiprocessor_shared_bytes; /* as in device/card.h */
    int32_t capability, multiprocessors, threads_per_multiprocessor;
};

/* Describes a device by its spelling ("sim:h100"); NULL means the device of memtrace_torch_simulate. Fails with
 * MT_NO_DEVICE (4) if there is none. */
int memtrace_torch_describe(const char *device, struct memtrace_torch_description *out);

/* Returns the estimated bytes of a simulated card that the process holds outside the allocator. */
uint64_t memtrace_torch_held(int device);

/* Events for which NCCL allocates memory: creating a communicator, its first collective, its first message to or from a
 * peer. */
enum { MEMTRACE_TORCH_COMMUNICATOR, MEMTRACE_TORCH_RING, MEMTRACE_TORCH_PEER };

/* Adds NCCL's memory for an event to a simulated card; `ranks` is the size of the communicator. Does nothing if that
 * memory is unknown for the card. */
void memtrace_torch_communicate(int device, int what, int ranks);

/* True if NCCL's memory on the simulated card is known. */
int memtrace_torch_knows_nccl(void);

/* Records that a library holds `bytes` of a simulated card outside the allocator, in memory that the driver may move to
 * the host. Replaces the holder's earlier number. Copies `holder`. */
void memtrace_torch_movable(int device, const char *holder, uint64_t bytes);

enum { MEMTRACE_TORCH_COUNTERS = 83 };

/* Gets the counters of torch.cuda.memory_stats: current, peak and total of each kind (blocks, segments, split blocks,
 * oversize blocks and segments; bytes requested, allocated, reserved and split) for small, large and both pools; then
 * the retries and the refused requests. All are 0 for a card that is not in use. */
int memtrace_torch_counters(int device, uint64_t out[MEMTRACE_TORCH_COUNTERS]);

/* Sets all peaks of a card to the current bytes. */
void memtrace_torch_reset_peaks(int device);

#ifdef __cplusplus
}
#endif
