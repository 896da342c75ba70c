/* libmemtrace_torch.so: labels for the memory of a PyTorch program. The memory is that of PyTorch's own allocator, which
 * is watched; or memtrace's allocator provides it through PyTorch's pluggable interface, whose functions are the first group.
 * The package in python/memtrace calls the rest through ctypes, and so can other programs.
 *
 * Categories and phases are numbers, from memtrace_torch_category and memtrace_torch_phase_number. Functions that
 * return int return 0, or memtrace's exit code for the failure; memtrace_torch_last_error gives the reason.
 *
 * Threads: any. In a child of fork CUDA does not work, and neither does this: taking memory throws, and all else does
 * nothing. */
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

/* Gives back a block. Later work of the stream that it was taken for may reuse it at once. A block that was not taken
 * here is counted and left alone. */
void memtrace_torch_free(void *ptr, ssize_t size, int device, void *stream);

void memtrace_torch_init(int device_count);

/* Releases the cached memory of all cards, for torch.cuda.empty_cache. */
void memtrace_torch_reset(void);

/* Limits what may be reserved on a card to a fraction of its memory. */
void memtrace_torch_memory_fraction(double fraction, int device);

/* Returns `ptr`, and sets *size to the bytes of its block; 0 if none begins there. */
void *memtrace_torch_base_alloc(void *ptr, size_t *size);

/* Notes that work of a stream uses the block at `ptr`, too. */
void memtrace_torch_record_stream(void *ptr, void *stream);

/* Notes that an operator read or wrote the block at `address` of our allocator; nothing for another address. */
void memtrace_torch_use(int device, uint64_t address, int is_write);

/* Stops noting uses on all cards: kernels that operators did not name may use any block. */
void memtrace_torch_lose_uses(void);

/* ---- settings, and the end ---- */

/* Sets the allocator and the traces, before the first allocation. `alloc` is as for --alloc of memtrace ("": the
 * default). `trace_path` is that of the first card in use; a further card N has -cudaN before the ending. NULL: nothing is stored.
 * `program` is the name of the run. Copies all texts. Fails once a card is in use. */
int memtrace_torch_configure(const char *alloc, const char *trace_path, const char *program);

/* The requests and frees of a simulated card since the program began, as numbers by which two intervals are compared.
 * All arithmetic is modulo 2^64.
 *
 *   requests = sum over i < request_count of (bytes[i] + 1) * FACTOR^(request_count - 1 - i)
 *
 * So the requests between two readings a and b have the number b.requests - a.requests * FACTOR^(b.request_count -
 * a.request_count), which depends on their order. `frees` is a sum over the freed blocks, which does not: some programs free
 * in the order of addresses. Both stay 0 on a card that is not simulated. */
#define MEMTRACE_TORCH_HISTORY_FACTOR UINT64_C(6364136223846793005)
struct memtrace_torch_past {
    uint64_t requests, request_count, frees;
};
void memtrace_torch_history(struct memtrace_torch_past *out);

/* Has every card of this process be a simulated one ("sim:h100"), before the first allocation. Copies the text. Fails
 * with MT_NO_DEVICE (4) if there is no such device. */
int memtrace_torch_simulate(const char *device);

/* The tensor that a block is for. `dtype` is the number of a c10::ScalarType. */
enum { MEMTRACE_TORCH_DIMS = 16 };
struct memtrace_torch_shape {
    int32_t dtype, dims;
    int64_t sizes[MEMTRACE_TORCH_DIMS];
};

/* Takes a block as memtrace_torch_alloc does, for a tensor of that shape (NULL: not known), from a private pool (0: none);
 * returns a status in the place of throwing. */
int memtrace_torch_take(int64_t bytes, int device, uint64_t stream, uint32_t pool,
                        const struct memtrace_torch_shape *shape, uint64_t *out_address);

/* ---- private pools of a simulated card: memory that serves no other requests (torch_private_pool.h) ----
 *
 * A pool is known by PyTorch's pair of numbers. Functions that return its users return -1 if there is no such pool. */

enum { MEMTRACE_TORCH_UNSPLIT = 1, MEMTRACE_TORCH_LENT = 2 };

/* Adds a user of a pool, which is made if there is none, and sets *out_number to its number on the card, from 1. `kind` has the sum
 * of what is said of the pool: its segments are not split; its free blocks serve requests that would be refused. It is added to
 * what was said before. */
int memtrace_torch_pool_use(int device, uint64_t first, uint64_t second, int kind, uint32_t *out_number);

/* Removes a user and returns how many are left. Without one, the pool's idle segments are released with other cached memory. */
int memtrace_torch_pool_leave(int device, uint64_t first, uint64_t second);

/* Returns the users. */
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

/* Takes the block that begins at an address, of free memory. Returns MT_USAGE (2) if there is none of that size. */
int memtrace_torch_take_at(int device, uint64_t address, uint64_t bytes);

/* Has each card's trace answered to memtrace record, which asks in the environment. */
void memtrace_torch_answer(void);

/* Ends all traces, as done (0), failed (1) or out of memory (5). Blocks stay allocated. */
int memtrace_torch_close(int outcome);

/* Returns the reason why the calling thread's last call failed. */
const char *memtrace_torch_last_error(void);

/* ---- PyTorch's own allocator, watched ---- */

/* The parts of PyTorch's ABI that the watcher meets, as its headers have them (python/memtrace/recording/abi.py): indices into the
 * table of virtual functions of CUDAAllocator, offsets in bytes of TraceEntry's fields, and numbers of its actions. */
struct memtrace_torch_abi {
    uint32_t name_slot, attach_slot;
    uint32_t action_offset, device_offset, address_offset, stream_offset, bytes_offset;
    uint32_t pool_offset; /* of a private pool's pair of numbers; 0: this PyTorch's entries have none */
    int32_t alloc, free_requested, segment_alloc, segment_free, segment_map, segment_unmap, oom;
};

/* Prepares to watch, before CUDA begins and once the process has loaded PyTorch. `trace_path` is the trace of the first
 * card in use, and of further ones with -cudaN before the ending; NULL: as memtrace record asks in the environment. Copies
 * all. Fails if this PyTorch is not what the ABI says; then nothing is changed. */
int memtrace_torch_watch(const struct memtrace_torch_abi *abi, const char *trace_path, const char *name);

/* True from then on, until the traces are closed. */
int memtrace_torch_is_watching(void);

/* Names a card for the trace, before its first block. */
void memtrace_torch_card(int device, const char *name, uint64_t capacity);

/* Attaches the watcher once CUDA has begun. Fails if the allocator is not PyTorch's own. */
int memtrace_torch_attach(void);

/* Note memory that PyTorch had before that. */
void memtrace_torch_found_segment(int device, uint64_t address, uint64_t bytes, uint64_t stream, int is_expandable);
void memtrace_torch_found_block(int device, uint64_t address, uint64_t requested, uint64_t allocated, uint64_t stream);

/* Note memory that a function of CUDA gave, and that it is given back. What PyTorch's allocator then says is its own does
 * not count here; the rest is stored as memory outside of it. `holder` is the file of the library that called, or else the
 * function; it is copied. */
void memtrace_torch_outside_take(int device, uint64_t address, uint64_t bytes, const char *holder);
void memtrace_torch_outside_give(uint64_t address);

/* ---- labels: some 15 ns a call, and 150 ns more where a trace stores marks of it ---- */

/* Returns the number of the span with this name and class in another span (0: the root), the same for equal ones. */
uint32_t memtrace_torch_span(uint32_t parent, const char *name, const char *kind);

/* Returns the number of a category, one of memtrace's or a new name; the number of "Other" if there are 64 already. */
int memtrace_torch_category(const char *name);

/* The same, for a category whose blocks have the role workspace. */
int memtrace_torch_workspace_category(const char *name);

/* Returns the name of a category; NULL for a number without one. */
const char *memtrace_torch_category_name(int category);

/* Returns the number of "init", "forward", "loss", "backward" or "optimizer"; -1 for another word. */
int memtrace_torch_phase_number(const char *name);

/* Begins a span for the thread's allocations; returns the depth that the end takes. A call that an exception left
 * without its end is ended with the call around it. */
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

/* Makes blocks kept that seemed to be temporary and were live through the two calls of a model before this one. */
void memtrace_torch_keep(void);

/* Gives the block at `ptr` another span and category. MT_USAGE (2) if no block begins there. */
int memtrace_torch_relabel(const void *ptr, uint32_t span, int category);

/* Stores a number for the current step ("loss") in all traces. */
void memtrace_torch_measure(const char *name, double value);

/* Stores a caveat in all traces: a fact that makes the figures of the run less than complete or less than certain. It
 * replaces an earlier one with the same kind, name and place, so a total can be sent again. Kinds are "shortened",
 * "not_run", "unknown", "estimated", "assumed", "growth", "weights", "choice", "eager" and "other_card" (trace/store/caveat.h);
 * another kind is ignored. Numbers below 0, NAN, a file of NULL and line 0 mean that nothing is known. */
void memtrace_torch_caveat(const char *kind, const char *name, const char *file, int line, int64_t count, int64_t total,
                           int64_t bytes, double value);

/* Stores a setting of the program in all traces. Copies both texts. */
void memtrace_torch_set(const char *name, const char *value);

/* Stores the arguments of the program in all traces, in the setting "arguments": `words` are `bytes` long, each but the last
 * followed by '\0'. Secrets become "***" (run/shown_words.h). */
void memtrace_torch_arguments(const char *words, uint64_t bytes);

/* Begins another phase of the program in all traces: "load", "train", "validate", "generate" or "save" (of serving engines also
 * "profile", "capture", "serve"). It lasts until the next one begins. Another word is ignored. */
void memtrace_torch_program_phase(const char *name);

/* Stores a holder of the live block that begins at an address of a card (trace/store/holder.h): "variable", "attribute",
 * "closure", "traceback", "cycle", "gradient cycle", "graph", "chain", "view" or "copy". `loop_file` and `loop_line` are of the loop in
 * which it grows. Copies the texts; a file of NULL and line 0 mean that nothing is known. */
void memtrace_torch_holder(int device, uint64_t address, const char *kind, const char *name, const char *owner,
                           const char *file, int line, uint64_t held_bytes, const char *loop_file, int loop_line);

/* Returns the allocated bytes of all cards that are traced. */
uint64_t memtrace_torch_live(void);

/* Returns the bytes that a forked child has freed, which change nothing in the parent and its traces. */
uint64_t memtrace_torch_freed_in_child(void);

/* Stores in all traces why the run ended: "program", "settled", "steps", "time limit", "signal", "error", "out of memory",
 * "growth", "values" or "caught". The last reason counts; another word is ignored. */
void memtrace_torch_ended_by(const char *why);

/* ---- hooks for Python that are not Python; called with its lock held ---- */

typedef struct _object PyObject;

/* Finds Python in this process, for what follows. `function` is one that is written in Python and that nothing follows: it shows how
 * Python runs functions. Fails if Python lacks a function that the hooks need. */
int memtrace_torch_python(PyObject *function);

/* Takes torch._C._dynamo.eval_frame.set_eval_frame, with which torch.compile is switched off while functions of the watcher run. */
void memtrace_torch_compiler(PyObject *switch_compiler);

/* Begin and end running torch.nn.Module.__call__, the function `call`, in the span of the module, its first argument. The function
 * stays as it is for whoever looks at it. on_new(module) is called for a module without a span, unless on_new is None;
 * on_outermost(module) before a module that is not called by another, and on_outermost(None) after it. SystemExit and
 * KeyboardInterrupt in the latter end the program; other exceptions of both are ignored. The first fails if `call` is not a
 * function written in Python. The functions of the last watcher count; each end belongs to a beginning. */
int memtrace_torch_modules_begin(PyObject *call, PyObject *on_new, PyObject *on_outermost);
void memtrace_torch_modules_end(PyObject *call);

/* Begin and end following runs of autograd's engine, whose method is `engine_run`: on_backward(its arguments by name) is called before
 * one, and on_backward(None) after it. Exceptions as for on_outermost. The first fails if it is not a method as known. */
int memtrace_torch_backward_begin(PyObject *engine_run, PyObject *on_backward);
void memtrace_torch_backward_end(PyObject *engine_run);

/* Has on_range(name) called when a step of an optimizer ("Optimizer.step#NAME.step") or of torch.profiler ("ProfilerStep#N") begins,
 * and on_range(None) when the optimizer's ends. Exceptions as for on_outermost. */
void memtrace_torch_ranges_watch(PyObject *on_range);

/* Returns a new function that labels a parameter's gradient. */
PyObject *memtrace_torch_gradient_hook(uint32_t span, int category);

/* Give a module, by its address in Python, a place, and take it away. */
void memtrace_torch_module(uint64_t module, uint32_t span, int category);
void memtrace_torch_module_end(uint64_t module);

/* Labels backward by the numbers of autograd's nodes, from now on and for those that this thread makes: `number_at` and
 * `thread_at` are the places of a node's number and of its thread's, `thread` is this thread's. Fails for another PyTorch
 * than those that are known. */
int memtrace_torch_graph(uint32_t number_at, uint32_t thread_at, uint64_t thread);

/* Tells which modules the lines of generated code belong to: "LINE\tROOT\tPATH\tKIND\tCATEGORY\n" for lines from LINE on, in order.
 * PATH is a module's within the module whose span the code runs in, or within ROOT where it runs in none. `code` is the address of a
 * code object, which must stay. Copies the text. Counts after memtrace_torch_stacks. */
void memtrace_torch_generated(uint64_t code, const char *origins);

/* ---- call stacks, and names of operators, of what a watched allocator hands out ---- */

/* Finds the call stacks of Python 3.`minor`, this process's. Fails if its memory is not laid out as known. */
int memtrace_torch_stacks(int minor);

/* Returns the calling thread's stack, innermost frame first: "FUNCTION\tFILE\tLINE\n" each. Valid until the next call, with
 * Python's lock held. To be compared with Python's answers before stacks are recorded. */
const char *memtrace_torch_stack_text(void);

/* Begin and end recording them, without the frames of files whose path begins with `package`, the first call's. */
void memtrace_torch_stacks_begin(const char *package);
void memtrace_torch_stacks_end(void);

/* Returns the operator that the calling thread takes memory for; NULL: none is known. Valid as long as the library. */
const char *memtrace_torch_operator_now(void);

/* Begin and end recording the operators that ask for memory. The first fails for another PyTorch than those that are
 * known. */
int memtrace_torch_operators(void);
void memtrace_torch_operators_end(void);

/* Begin and end following the ranges of the program; `kind` is their number among PyTorch's kinds of observed functions. The first
 * fails for another PyTorch than those that are known. */
int memtrace_torch_ranges(uint32_t kind);
void memtrace_torch_ranges_end(void);

/* Tells from now on what is computed without grad mode, of which backward needs nothing. Fails for another PyTorch than those
 * that are known. */
int memtrace_torch_grad_mode(void);

/* ---- a process that ends in native code ---- */

/* Remembers which function of a driver's stand-in failed last, and returns it; NULL: none did. `call` is static. */
void memtrace_torch_driver_failed(const char *call);
const char *memtrace_torch_driver_failure(void);

/* Reports from now on if native code ends the process: a signal such as SIGSEGV, or exit. The report names the function, its
 * library, the lines of Python that called it (after memtrace_torch_stacks), and the last failed call of the driver. It goes to
 * memtrace dry-run; without one, nothing is reported. A signal then does what it did before. Once for a process. */
void memtrace_torch_follow_end(void);

/* Call it when the interpreter ends: to exit is in order from now on. */
void memtrace_torch_ending(void);

/* ---- statistics ---- */

/* Bytes of one card, in one category or in all; `allocated` is `requested`, rounded up. */
struct memtrace_torch_figures {
    uint64_t requested, allocated, blocks;
    uint64_t peak_requested, peak_allocated;
    uint64_t allocations; /* since the start */

    /* of the card as a whole; unknown_frees of all cards */
    uint64_t reserved, peak_reserved, capacity, segments, largest_free, refusals, unknown_frees;
};

enum { MEMTRACE_TORCH_ALL = -1 };

/* Gets the figures of a category, or of MEMTRACE_TORCH_ALL. All are 0 for a card that is not in use. MT_USAGE (2) for a
 * number without a category. */
int memtrace_torch_statistics(int device, int category, struct memtrace_torch_figures *out);

/* A simulated card as a program sees it. */
struct memtrace_torch_description {
    char name[64];
    uint64_t total_bytes, context_bytes; /* as the driver tells; of that, what a process holds beside its allocator */
    uint64_t others_bytes;               /* and what other processes hold */
    uint64_t l2_bytes, block_shared_bytes, multiprocessor_shared_bytes; /* as in device/card.h */
    int32_t capability, multiprocessors, threads_per_multiprocessor;
};

/* Describes a device by its spelling ("sim:h100"); NULL is the device of memtrace_torch_simulate. Fails with MT_NO_DEVICE (4) if
 * there is none. */
int memtrace_torch_describe(const char *device, struct memtrace_torch_description *out);

/* Returns what the process holds of a simulated card outside of the allocator, as estimated. */
uint64_t memtrace_torch_held(int device);

/* What NCCL takes memory for: a communicator's begin, its first collective, its first message to or from a peer. */
enum { MEMTRACE_TORCH_COMMUNICATOR, MEMTRACE_TORCH_RING, MEMTRACE_TORCH_PEER };

/* Counts that in what a simulated card holds; `ranks` are the communicator's. Does nothing where it is not known. */
void memtrace_torch_communicate(int device, int what, int ranks);

/* True if it is known what NCCL takes on the simulated card. */
int memtrace_torch_knows_nccl(void);

/* Records that a library holds so much of a simulated card outside of the allocator, in memory that the driver may move to the
 * host. It replaces an earlier number of the same holder. Copies `holder`. */
void memtrace_torch_movable(int device, const char *holder, uint64_t bytes);

enum { MEMTRACE_TORCH_COUNTERS = 83 };

/* Gets the counters of torch.cuda.memory_stats: now, peak and total of each kind (blocks, segments, split blocks, oversize
 * blocks and segments; bytes requested, allocated, reserved and split) for small, large and both pools; then the retries
 * and the requests that were refused. All are 0 for a card that is not in use. */
int memtrace_torch_counters(int device, uint64_t out[MEMTRACE_TORCH_COUNTERS]);

/* Sets all peaks of a card to the current bytes. */
void memtrace_torch_reset_peaks(int device);

#ifdef __cplusplus
}
#endif
