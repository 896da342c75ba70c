/* memtrace: where did every byte of GPU memory go, and why?
 *
 * This header is everything that a program needs, and its manual. It is valid C11 and C++, and includes no other header
 * of memtrace. It belongs to libmemtrace (`pkg-config --cflags --libs memtrace`, or find_package(memtrace) and the
 * target memtrace::memtrace). The library writes a trace, and the program `memtrace` answers questions about it:
 * `memtrace peak`, `memtrace top`, `memtrace timeline` and others.
 *
 *   a program with labels  ──memtrace_take──▶ allocator ──▶ device (cuda, cpu, sim)
 *                                                │ events
 *   a program with its own ──memtrace_note_take──┴──────▶ trace (SQLite) ◀── memtrace peak, memtrace_trace_peak
 *
 * The shortest program, to be followed by `memtrace peak --trace my.db`:
 *
 *   memtrace_run_options options = {.size = sizeof options, .trace = "my.db", .device = "sim"};
 *   memtrace_label label = {.size = sizeof label, .category = "Cache", .op = "fill"};
 *   memtrace_run *run;
 *   uint64_t address;
 *   if (memtrace_run_open(&options, &run) != MEMTRACE_OK)
 *       return fprintf(stderr, "%s\n", memtrace_last_error());
 *   if (memtrace_take(run, 1 << 20, 0, &label, &address) == MEMTRACE_OK)
 *       memtrace_give(run, address);
 *   memtrace_run_close(run, MEMTRACE_RUN_DONE);
 *
 * Terms. A block is the memory of one request. It is live until it is freed. Its requested bytes are the size of the
 * request; its allocated bytes are the same, rounded up. Reserved bytes are what the allocator got from the device to
 * hold blocks. Reserved bytes without a live block are cached. A peak is the highest value of one of these.
 *
 * 1. Outcomes and errors           what functions return
 * 2. Runs                          open, close
 * 3. Labels, spans, steps          the purpose of memory
 * 4. The allocator                 memory that memtrace hands out
 * 5. Notes                         memory that the program allocates elsewhere
 * 6. Questions                     reading a trace
 * 7. Programs                      starting other programs, recorded or on a simulated card
 *
 * samples/label.c is an example in fifty lines; samples/replace_malloc.c notes the cudaMalloc of an existing program,
 * and samples/ask.c reads a trace.
 *
 * Compatibility. While the number in libmemtrace.so.0 stays, functions, enumerators and fields of structs are added at
 * the end and never removed. So structs that the caller makes begin with their size. Structs that the library makes are
 * reached through pointers; do not copy them as a whole, and do not use their sizeof.
 *
 * Threads. Every function of sections 3 to 5 may be called from any thread, also for the same run. Open and close a
 * run, and use a trace (section 6), from one thread at a time. Use section 7 from one thread at a time in the whole
 * process. Different runs and traces are independent. A run has one thread of its own, which writes the trace and
 * blocks all signals. A run belongs to the process that opened it: a forked child may exit or exec, but may not call
 * any function with the run.
 *
 * The library never prints and never exits, with one exception: if the host has no memory left for its bookkeeping, or
 * a run has more than 16,777,215 labels, it says so on stderr and aborts. */
#ifndef MEMTRACE_H
#define MEMTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MEMTRACE_API __attribute__((visibility("default")))
#else
#define MEMTRACE_API
#endif

/* The version of this header. Before 1.0, a change of the middle number may break compatibility. */
#define MEMTRACE_VERSION_MAJOR 0
#define MEMTRACE_VERSION_MINOR 2
#define MEMTRACE_VERSION_PATCH 0

/* Returns the version of the library, "0.2.0". The text is static. */
MEMTRACE_API const char *memtrace_version(void);

/* ---- 1. Outcomes and errors -------------------------------------------------------------------------------------- */

/* The outcome of a function that can fail: 0 or the reason. The numbers are the exit codes of the program `memtrace`;
 * some are used only there. Results are written through the last parameters, and only if the function returns
 * MEMTRACE_OK. */
typedef enum memtrace_status {
    MEMTRACE_OK = 0,
    MEMTRACE_FAILED = 1,         /* the file system, a driver or the like refused */
    MEMTRACE_USAGE = 2,          /* an argument is invalid */
    MEMTRACE_BAD_TRACE = 3,      /* not a trace, or a damaged one */
    MEMTRACE_NO_DEVICE = 4,      /* no such device, or no driver for it */
    MEMTRACE_OUT_OF_MEMORY = 5,  /* the device has no more memory: an ordinary outcome, after which the run goes on */
    MEMTRACE_NOT_WRITTEN = 6,    /* the trace could not be written; as exit code also: the answer or another file */
    MEMTRACE_NO_HOST_MEMORY = 7, /* the host has no more memory */
    MEMTRACE_NO_DRY_RUN = 8,     /* exit code only: a dry run did not take place */
    MEMTRACE_NOT_CERTAIN = 9     /* exit code only: with --strict, something that could take memory is unknown */
} memtrace_status;

/* Returns a status in words, "out of device memory". The text is static. Any number is allowed. From any thread. */
MEMTRACE_API const char *memtrace_status_text(memtrace_status status);

/* Returns the reason of this thread's last failure: a sentence for people, with the numbers; "" before the first
 * failure. Valid until the thread's next failure. A call that succeeds does not change it. */
MEMTRACE_API const char *memtrace_last_error(void);

/* ---- 2. Runs ----------------------------------------------------------------------------------------------------- */

/* A run: the recording of a program's device memory, from open to close. A trace file holds any number of runs. One
 * process at a time may write to a file, and one run of it. */
typedef struct memtrace_run memtrace_run;

/* Options of a run. Zero or NULL is a sensible value of every field except `size`:
 *
 *   memtrace_run_options options = {.size = sizeof options, .trace = "my.db"};          in C
 *   memtrace_run_options options = {}; options.size = sizeof options;                    in C++
 *
 * All text is copied. */
typedef struct memtrace_run_options {
    /* sizeof(memtrace_run_options). The library derives from it which fields exist. */
    size_t size;

    /* The path of the trace. The file is created if it does not exist; otherwise the run is added to it. Until the run
     * is closed, a ring file of 64 MiB exists next to it. NULL: "memtrace.db" in the current folder, the default of
     * `memtrace`. */
    const char *trace;

    /* The name of the run for `memtrace --run`, "baseline". NULL: the run has only a number. */
    const char *name;

    /* The device, as for `memtrace run --device`: "cuda", "cuda:1"; "cpu", "cpu:4GiB"; "sim" (an H200 whose addresses
     * have no memory), "sim:a100-80gb", "sim:24GiB". NULL: none; then the run has notes (section 5) and no
     * allocator. */
    const char *device;

    /* The behaviour of the allocator, as for `memtrace run --alloc`: "policy=torch,max_split=200MiB" behaves like
     * PyTorch's allocator; "policy=tight" is memtrace's own, which reserves less. NULL: "policy=tight". Stored with the
     * run as setting "alloc". */
    const char *alloc;

    /* Any facts to store with the run: name, value, name, value, …, NULL. If a name occurs twice, the last value
     * counts. A value for "alloc" is ignored: that setting always describes the allocator. NULL: none. */
    const char *const *settings;

    /* For a run without a device: the name of the noted memory ("cuda:0 by my pool"; NULL: "noted"), and its capacity
     * in bytes (0, or more than 2^63 - 1: unknown). Ignored for a run with a device. */
    const char *noted_device;
    uint64_t noted_capacity_bytes;

    /* The place of the process in a distributed job: its rank, from 0; its rank on the host, or -1 if unknown; the
     * number of processes; and the job's name, equal in all its processes, or NULL if unknown. Both ranks are below
     * world_size. They need not be related, since hosts may number their processes in any order. world_size 0: the
     * process does not belong to a job, and the ranks are ignored. The library stores the host and the process id
     * itself. */
    int32_t rank, local_rank, world_size;
    const char *job;
} memtrace_run_options;

/* Opens a run. The caller closes it. From now on a crash loses nothing: the trace has every event up to the crash, and
 * the run's state is "interrupted".
 * MEMTRACE_NOT_WRITTEN if the trace can't be written, or if another process or run is writing it; the error text names
 * the writer. MEMTRACE_BAD_TRACE if the file is not a trace. MEMTRACE_NO_DEVICE and MEMTRACE_USAGE for an invalid
 * device, rank, allocator or size. A failure leaves nothing behind except perhaps an empty trace, or a run in state
 * "failed". */
MEMTRACE_API memtrace_status memtrace_run_open(const memtrace_run_options *options, memtrace_run **out_run);

/* The outcome of a run, as the program reports it. Answers show it. */
typedef enum memtrace_outcome {
    MEMTRACE_RUN_DONE = 0,
    MEMTRACE_RUN_FAILED = 1,
    MEMTRACE_RUN_OUT_OF_MEMORY = 2 /* the run ended because a request was refused */
} memtrace_outcome;

/* Closes a run: returns its memory to the device, stores the remaining events, and frees `run`, also on failure. Live
 * blocks are freed; in the trace they are live at the end. No other thread may use the run during the call; join
 * threads that have used it first. Returns the first error of the whole recording: a full disk, for example, does not
 * stop the program and is reported here. NULL is allowed. */
MEMTRACE_API memtrace_status memtrace_run_close(memtrace_run *run, memtrace_outcome outcome);

/* Returns the number of the run in the trace, from 1. From any thread. */
MEMTRACE_API int64_t memtrace_run_number(const memtrace_run *run);

/* ---- 3. Labels, spans, steps ------------------------------------------------------------------------------------- */

/* The role of a block in a training step. */
typedef enum memtrace_role {
    MEMTRACE_TEMPORARY = 0, /* needed for a moment */
    MEMTRACE_PARAMETER = 1,
    MEMTRACE_GRADIENT = 2,
    MEMTRACE_OPTIMIZER_STATE = 3,
    MEMTRACE_ACTIVATION = 4,  /* allocated in forward and kept for backward */
    MEMTRACE_WEIGHT_CAST = 5, /* a weight in another precision */
    MEMTRACE_WORKSPACE = 6,   /* of a library */
    MEMTRACE_INPUT = 7,
    MEMTRACE_OTHER = 8,               /* anything else, or not known */
    MEMTRACE_BUFFER = 9,              /* of a module, such as running statistics */
    MEMTRACE_KEY_VALUE_CACHE = 10,    /* of a model that generates */
    MEMTRACE_KEPT = 11,               /* lives to the end of the run, and has no other role */
    MEMTRACE_GATHERED_PARAMETER = 12, /* a sharded parameter, gathered while it is used */
    MEMTRACE_UNKNOWN_ROLE = 13        /* not found, although rules looked for it */
} memtrace_role;

/* How the role of a block was found. */
typedef enum memtrace_role_source {
    MEMTRACE_DECLARED = 0, /* the program declared it */
    MEMTRACE_OBSERVED = 1, /* a hook in the program saw it: a module's parameters, an optimizer's state */
    MEMTRACE_INFERRED = 2  /* rules inferred it from names or from the order of events */
} memtrace_role_source;

/* The element type of a block, as in PyTorch. It is only shown: it does not affect the bytes of a block. */
typedef enum memtrace_dtype {
    MEMTRACE_NO_DTYPE = 0,
    MEMTRACE_F32 = 1,
    MEMTRACE_BF16 = 2,
    MEMTRACE_F64 = 3,
    MEMTRACE_I64 = 4,
    MEMTRACE_BOOL = 5,
    MEMTRACE_U8 = 6,
    MEMTRACE_F16 = 7,
    MEMTRACE_F8_E4M3FN = 8,
    MEMTRACE_F8_E4M3FNUZ = 9,
    MEMTRACE_F8_E5M2 = 10,
    MEMTRACE_F8_E5M2FNUZ = 11,
    MEMTRACE_F8_E8M0FNU = 12,
    MEMTRACE_F4_E2M1X2 = 13, /* two numbers in a byte */
    MEMTRACE_I8 = 14,
    MEMTRACE_I16 = 15,
    MEMTRACE_I32 = 16,
    MEMTRACE_U16 = 17,
    MEMTRACE_U32 = 18,
    MEMTRACE_U64 = 19,
    MEMTRACE_C32 = 20, /* complex numbers; the name counts the bits of both parts */
    MEMTRACE_C64 = 21,
    MEMTRACE_C128 = 22
} memtrace_dtype;

enum { MEMTRACE_MOST_DIMS = 16 };

/* The purpose of a block. A plain value: the library copies it, and stores equal labels once. Zero and NULL mean
 * "unknown" in every field except `size`. The library adds the phase and, unless the label names a span, the thread's
 * span and layer. A program may reuse one label and change only some fields between blocks. */
typedef struct memtrace_label {
    /* sizeof(memtrace_label). */
    size_t size;

    /* The category, by which answers break down peaks: one of memtrace's own ("Param", "Gradient", "Opt State",
     * "Optimizer", "Embed", "Norm", "Attn", "AttnScores", "AttnOut", "Softmax", "FFN", "einsum", "Block", "Loss",
     * "Data", "Workspace"), or any other name of up to 63 bytes. A run has room for 64 categories; further ones count
     * as "Other". NULL or "": "Other". */
    const char *category;

    memtrace_role role;
    memtrace_dtype dtype;

    /* The operation that allocates the block, "softmax.exp"; NULL: none. */
    const char *op;

    /* The shape: `dims` numbers, 0 to MEMTRACE_MOST_DIMS. */
    int32_t dims;
    int64_t shape[MEMTRACE_MOST_DIMS];

    memtrace_role_source role_source;

    /* The call stack of the request, a number from memtrace_stack; 0: unknown. It belongs to the block, not to the
     * stored label: labels that differ only in the stack are equal. memtrace_relabel and memtrace_note_relabel ignore
     * it. */
    uint32_t stack;

    /* The span of the block, a number from memtrace_span; 0: the thread's innermost open span. */
    uint32_t span;
} memtrace_label;

/* Return a number from 1, the same for equal arguments. memtrace_frame numbers a frame: a place in the program's code.
 * memtrace_stack numbers the stack with the innermost frame `frame`, called from the stack `parent` (0: no caller).
 * Stacks are stored as a tree, so a deep stack that shares its outer frames with others costs little. Texts are copied;
 * NULL means "", and line 0 means unknown.
 *
 *   uint32_t main_stack = memtrace_stack(run, 0, memtrace_frame(run, "main", "train.py", 40));
 *   label.stack = memtrace_stack(run, main_stack, memtrace_frame(run, "forward", "model.py", 12));
 *
 * Callers may keep these numbers and use them again, which saves the calls. memtrace_stack returns 0 if a number is not
 * a frame or stack of this run; in a label 0 means "unknown". */
MEMTRACE_API uint32_t memtrace_frame(memtrace_run *run, const char *function, const char *file, uint32_t line);
MEMTRACE_API uint32_t memtrace_stack(memtrace_run *run, uint32_t parent, uint32_t frame);

/* Begin and end a span: a place in the program. Spans nest, and each thread has its own. A block belongs to the
 * innermost span of the thread that allocates it. Answers show the path of the span: "model.layers.7.ffn". A name may
 * contain dots. If it is a number, or ends with a dot and a number ("7", "layers.7"), the number is the layer of all
 * blocks inside, unless a span around it has a layer: expert 3 inside layer 7 counts as layer 7. Answers merge blocks
 * that differ only in the layer. When a thread ends, its spans end. The name is copied. MEMTRACE_USAGE if the name is
 * NULL or "", or if this thread has no span to end. */
MEMTRACE_API memtrace_status memtrace_span_begin(memtrace_run *run, const char *name);
MEMTRACE_API memtrace_status memtrace_span_end(memtrace_run *run);

/* Returns the number of the span with this path, the same for equal paths. For code that knows where a block belongs
 * but runs elsewhere, such as autograd hooks. Each part between dots is a span inside the previous one, and gives the
 * layer as above. Empty parts are ignored; a path with no other parts is the root, 0. */
MEMTRACE_API uint32_t memtrace_span(memtrace_run *run, const char *path);

/* Begins a span by its number, wherever the thread is; memtrace_span_end ends it. MEMTRACE_USAGE for a number that
 * memtrace_span did not return for this run. */
MEMTRACE_API memtrace_status memtrace_span_enter(memtrace_run *run, uint32_t span);

/* The phase of a step. */
typedef enum memtrace_phase {
    MEMTRACE_INIT = 0, /* of a new run */
    MEMTRACE_FORWARD = 1,
    MEMTRACE_LOSS = 2,
    MEMTRACE_BACKWARD = 3,
    MEMTRACE_OPTIMIZER = 4
} memtrace_phase;

/* Sets the phase of the run for all its threads. MEMTRACE_USAGE for an invalid phase. */
MEMTRACE_API memtrace_status memtrace_phase_begin(memtrace_run *run, memtrace_phase phase);

/* Begin and end a step. Steps are numbered from 0. A step that begins during another ends the other. Everything before
 * the first step is the beginning of the run. Answers give the peak of each step. */
MEMTRACE_API void memtrace_step_begin(memtrace_run *run);
MEMTRACE_API void memtrace_step_end(memtrace_run *run);

/* Return the phase of the run, and the number of the current step, or MEMTRACE_BEFORE_STEPS outside a step. */
MEMTRACE_API memtrace_phase memtrace_phase_now(const memtrace_run *run);
MEMTRACE_API int64_t memtrace_step_now(memtrace_run *run);

/* Stores a number with the run, and with the current step if there is one: ("loss", 4.08). NAN means "no value". The
 * name is copied. MEMTRACE_USAGE for a name that is NULL or "". */
MEMTRACE_API memtrace_status memtrace_measure(memtrace_run *run, const char *name, double value);

/* ---- 4. The allocator -------------------------------------------------------------------------------------------- */

/* A caching allocator on the run's device: it keeps freed memory and reuses it without a driver call. The functions of
 * this section need a run with a device, except for memtrace_give(run, 0).
 *
 * On "cuda:1", a call that needs the driver makes that card the thread's current one, as cudaSetDevice does.
 *
 * An address is a number, since most are not host addresses. memtrace_pointer converts it: on "cpu" to a host pointer,
 * on "cuda" to the pointer that kernels and cudaMemcpy take. On "sim" there is no memory at an address. */

/* Allocates a block of at least `bytes`, aligned to 512, for work on `stream` (0 to 65535; 0 is the default stream).
 * `label` may be NULL. If neither the cache nor the device has enough memory, releases the cache and tries the device
 * again. MEMTRACE_OUT_OF_MEMORY if that fails, too: the trace stores the refused request (`memtrace oom`), and the run
 * continues. MEMTRACE_USAGE for 0 bytes, for an invalid label, and for a run without a device. */
MEMTRACE_API memtrace_status memtrace_take(memtrace_run *run, uint64_t bytes, uint16_t stream,
                                           const memtrace_label *label, uint64_t *out_address);

/* Frees the block that begins at the address. Does not wait: the next request of the same stream may get the block at
 * once, since its work runs after the work already queued there. Address 0 is allowed. MEMTRACE_USAGE if no live block
 * begins at the address. */
MEMTRACE_API memtrace_status memtrace_give(memtrace_run *run, uint64_t address);

/* Gives the block that begins at the address another label: a product becomes a gradient, or a block is later
 * recognized as a parameter. The block does not move. In the trace it has the label from now on. Fails as
 * memtrace_give, and as memtrace_take for an invalid label. */
MEMTRACE_API memtrace_status memtrace_relabel(memtrace_run *run, uint64_t address, const memtrace_label *label);

/* Notes that work on another stream also uses the block at the address. When the block is freed, its own stream waits
 * on the device for the work that `stream` has queued by then. Fails as memtrace_give. */
MEMTRACE_API memtrace_status memtrace_use_on(memtrace_run *run, uint64_t address, uint16_t stream);

/* Returns the cudaStream_t of a stream on "cuda". The program must queue the work that uses the stream's blocks on it.
 * The library owns it; it is valid until the run is closed. Returns NULL on devices without queues. */
MEMTRACE_API void *memtrace_stream_handle(memtrace_run *run, uint16_t stream);

/* Returns an address as a pointer. From any thread. */
MEMTRACE_API void *memtrace_pointer(uint64_t address);

/* Returns cached memory to the device, for other users of the card: every segment and every page without a live block.
 * Waits for queued work. MEMTRACE_USAGE for a run without a device. */
MEMTRACE_API memtrace_status memtrace_release_cached(memtrace_run *run);

/* A live block. `size` as in memtrace_statistics. */
typedef struct memtrace_block {
    size_t size;              /* sizeof(memtrace_block) */
    uint64_t address;         /* its first byte */
    uint64_t requested_bytes; /* as requested from memtrace_take */
    uint64_t allocated_bytes; /* rounded up */
    uint16_t stream;          /* for which it was allocated */
} memtrace_block;

/* Finds the live block that contains an address. Takes time proportional to the number of segments and of blocks in
 * one. MEMTRACE_USAGE if there is no such block, or for an invalid `size`. */
MEMTRACE_API memtrace_status memtrace_find(memtrace_run *run, uint64_t address, memtrace_block *out_block);

/* Limits the allocator's memory to a fraction of the card's, above 0 and up to 1, as
 * torch.cuda.set_per_process_memory_fraction does. The allocator keeps memory that it has already. MEMTRACE_USAGE for
 * any other fraction. */
MEMTRACE_API memtrace_status memtrace_set_memory_fraction(memtrace_run *run, double fraction);

/* Gets the device's free and total memory, as cudaMemGetInfo does. On "sim", CUDA's context is subtracted, and no other
 * process uses the card. MEMTRACE_FAILED if the driver fails. */
MEMTRACE_API memtrace_status memtrace_memory_info(memtrace_run *run, uint64_t *out_free_bytes,
                                                  uint64_t *out_total_bytes);

/* The card of a run's device. On "sim" it is the named card, on "cuda" the actual one, and on "cpu" the card that
 * memtrace was measured on. `size` as in memtrace_statistics. The run owns the texts; they are valid until it is
 * closed. */
typedef struct memtrace_card {
    size_t size;            /* sizeof(memtrace_card) */
    const char *name;       /* as in a device's name, "h200" of "sim:h200" */
    const char *product;    /* as the driver names it, "NVIDIA H200" */
    uint64_t memory_bytes;  /* total, as the driver reports it */
    uint64_t context_bytes; /* the part of it that CUDA's context uses; 0: unknown */
    int32_t capability;     /* CUDA compute capability, times ten: 90 is 9.0 */
    int32_t multiprocessors;
    int32_t threads_per_multiprocessor; /* maximum of resident threads */
    uint64_t matmul_workspace_bytes;    /* cuBLAS workspace that PyTorch allocates for each thread and stream */
} memtrace_card;

/* Gets the card. MEMTRACE_USAGE for an invalid `size`, and for a run without a device. */
MEMTRACE_API memtrace_status memtrace_run_card(memtrace_run *run, memtrace_card *out_card);

/* What the allocator counts. A split block is a free part of a segment that cannot be released, since the segment has
 * live blocks. An oversize block has max_split bytes or more, and is never split. */
enum {
    MEMTRACE_COUNT_BLOCKS = 0, /* live */
    MEMTRACE_COUNT_SEGMENTS = 1,
    MEMTRACE_COUNT_SPLIT_BLOCKS = 2,
    MEMTRACE_COUNT_OVERSIZE_BLOCKS = 3,
    MEMTRACE_COUNT_OVERSIZE_SEGMENTS = 4,
    MEMTRACE_COUNT_REQUESTED_BYTES = 5, /* of live blocks */
    MEMTRACE_COUNT_ALLOCATED_BYTES = 6, /* of live blocks, rounded up */
    MEMTRACE_COUNT_RESERVED_BYTES = 7,  /* from the device */
    MEMTRACE_COUNT_SPLIT_BYTES = 8,
    MEMTRACE_COUNTERS = 9
};

/* The pools. Blocks of up to 1 MiB have segments of their own. */
enum { MEMTRACE_SMALL_POOL = 0, MEMTRACE_LARGE_POOL = 1, MEMTRACE_BOTH_POOLS = 2, MEMTRACE_POOLS = 3 };

/* A counter: current == taken - given; peak is the highest value of `current`. The counters of both pools are sums of
 * the pools' counters, except for the peak, which is the peak of the sum. */
typedef struct memtrace_counter {
    uint64_t current;
    uint64_t peak;         /* since the run was opened, or memtrace_reset_peaks */
    uint64_t taken, given; /* since the run was opened */
} memtrace_counter;

/* Statistics of the allocator. Set `size` before the call. An older program does not get the fields of a newer library;
 * fields that an older library lacks are 0.
 *
 * The counters match torch.cuda.memory_stats; its "allocated" and "freed" are `taken` and `given`:
 *
 *   allocation, segment         BLOCKS, SEGMENTS                        requested_bytes    REQUESTED_BYTES
 *   inactive_split, _bytes      SPLIT_BLOCKS, SPLIT_BYTES               allocated_bytes    ALLOCATED_BYTES
 *   oversize_allocations        OVERSIZE_BLOCKS                         reserved_bytes     RESERVED_BYTES
 *   oversize_segments           OVERSIZE_SEGMENTS                       num_ooms           refused
 *   active, active_bytes        BLOCKS, ALLOCATED_BYTES                 num_alloc_retries  retries
 *
 * Active equals allocated here: freed memory is available to its own stream at once, since that stream waits on the
 * device for the others. On devices that map and unmap single pages, policy "tight" has no split blocks, like PyTorch's
 * expandable segments. */
typedef struct memtrace_statistics {
    size_t size;              /* sizeof(memtrace_statistics) */
    uint64_t requested_bytes; /* of live blocks */
    uint64_t allocated_bytes; /* of live blocks, rounded up */
    uint64_t reserved_bytes;  /* from the device */
    uint64_t peak_requested_bytes;
    uint64_t peak_allocated_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t blocks;  /* live */
    uint64_t taken;   /* blocks allocated since the run was opened */
    uint64_t refused; /* requests refused since then */

    memtrace_counter counters[MEMTRACE_COUNTERS][MEMTRACE_POOLS]; /* the fields above, in full and by pool */
    uint64_t retries;            /* how often the whole cache was released to try the device again */
    uint64_t largest_free_bytes; /* the largest cached block */
    uint64_t max_split_bytes;    /* of the setting max_split; 2^64 - 1: no limit */
} memtrace_statistics;

/* Gets the current statistics; other threads may change them at any time. Takes time proportional to the number of
 * blocks. MEMTRACE_USAGE for an invalid `size`, and for a run without a device. */
MEMTRACE_API memtrace_status memtrace_run_statistics(memtrace_run *run, memtrace_statistics *out_statistics);

/* Resets every peak of the statistics to the current value. Peaks in the trace are not affected. MEMTRACE_USAGE for a
 * run without a device. */
MEMTRACE_API memtrace_status memtrace_reset_peaks(memtrace_run *run);

/* ---- 5. Notes ---------------------------------------------------------------------------------------------------- */

/* Notes report memory that the program allocates elsewhere: from cudaMalloc, or from a pool of its own. They work on
 * any run, with or without a device. An address is any number up to 2^63 - 1 that identifies memory. The library never
 * accesses it.
 *
 * A program that allocates each block from the driver notes only blocks. A program with a pool also notes the memory
 * that the pool maps and unmaps. Then the pool's memory is reserved, and its users' blocks are allocated memory.
 *
 *   cudaError_t my_malloc(void **out, size_t bytes)                  cudaError_t my_free(void *pointer)
 *   {                                                                {
 *       cudaError_t error = cudaMalloc(out, bytes);                      memtrace_note_give(run, (uintptr_t)pointer);
 *       if (error == cudaSuccess)                                        return cudaFree(pointer);
 *           memtrace_note_take(run, (uintptr_t)*out, bytes, 0, NULL);  }
 *       return error;
 *   }
 *
 * Notes may contradict each other: a new block may overlap a live one, or a block that ends or gets a new label may not
 * be live. Then the later note counts, and the contradiction is counted (memtrace_run_note_counts). No call fails. */

/* Notes that a block was allocated, with its requested bytes. `stream` is any number that identifies a stream, such as
 * a cudaStream_t; 0 is the default stream. `label` may be NULL. If the label is invalid, returns MEMTRACE_USAGE and
 * notes nothing. */
MEMTRACE_API memtrace_status memtrace_note_take(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                                                const memtrace_label *label);

/* Notes that the block at the address is about to be given back. Call it before giving the block back, since another
 * thread may take the address right after. */
MEMTRACE_API void memtrace_note_give(memtrace_run *run, uint64_t address);

/* Notes that the block at the address has another label from now on, as memtrace_relabel does. MEMTRACE_USAGE for an
 * invalid label; then nothing is noted. */
MEMTRACE_API memtrace_status memtrace_note_relabel(memtrace_run *run, uint64_t address, const memtrace_label *label);

/* Notes that a request was refused. Fails as memtrace_note_take. */
MEMTRACE_API memtrace_status memtrace_note_refusal(memtrace_run *run, uint64_t bytes, uint64_t stream,
                                                   const memtrace_label *label);

/* Note that a pool has mapped memory, or is about to unmap some: all of an earlier mapping, or any part. */
MEMTRACE_API void memtrace_note_map(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream);
MEMTRACE_API void memtrace_note_unmap(memtrace_run *run, uint64_t address, uint64_t bytes);

/* Kinds of memory outside all allocators. */
typedef enum memtrace_outside {
    MEMTRACE_CONTEXT = 0, /* CUDA's context and code */
    MEMTRACE_LIBRARY = 1, /* internal memory of libraries */
    MEMTRACE_NCCL = 2,    /* communication buffers */
    MEMTRACE_OUTSIDE = 3  /* anything else that the driver counts for the process */
} memtrace_outside;

/* Notes memory outside all allocators: from now on its holder has `bytes` in total; 0 ends it. `name` is the holder
 * within its kind, "cuBLAS", "ring 0"; NULL or "" stands for the whole kind. It is copied. The trace stores each note
 * in its table `outside`; `memtrace peak` shows the maximum of each holder. `memtrace used` does not apply: it needs
 * figures of the driver, which the library does not store.
 * MEMTRACE_USAGE for an invalid kind, and for more than 2^63 - 1 bytes. */
MEMTRACE_API memtrace_status memtrace_note_outside(memtrace_run *run, memtrace_outside kind, const char *name,
                                                   uint64_t bytes);

/* Counts of notes and of contradictions among them. `size` as in memtrace_statistics. */
typedef struct memtrace_note_counts {
    size_t size;              /* sizeof(memtrace_note_counts) */
    uint64_t takes, gives;    /* calls */
    uint64_t maps, unmaps;    /* calls */
    uint64_t unseen_gives;    /* frees of addresses where no block was noted */
    uint64_t lost_gives;      /* blocks that ended because another one was noted in their place */
    uint64_t unmapped_gives;  /* blocks that ended because their memory was unmapped */
    uint64_t ignored;         /* calls about 0 bytes, or beyond the highest address */
    uint64_t unseen_relabels; /* new labels of addresses where no block was noted */
} memtrace_note_counts;

/* Gets the counts since the run was opened. MEMTRACE_USAGE for an invalid `size`. */
MEMTRACE_API memtrace_status memtrace_run_note_counts(memtrace_run *run, memtrace_note_counts *out_counts);

/* ---- 6. Questions ------------------------------------------------------------------------------------------------ */

/* A trace that was opened for reading. It does not change while it is open: of a run in progress, it has the events
 * that were stored before.
 *
 *   memtrace_trace *trace;
 *   const memtrace_run_row *run;
 *   const memtrace_peak *peak;
 *   if (memtrace_trace_open("my.db", &trace) != MEMTRACE_OK)
 *       return fprintf(stderr, "%s\n", memtrace_last_error());
 *   if (memtrace_trace_find_run(trace, NULL, &run) == MEMTRACE_OK &&
 *       memtrace_trace_peak(trace, run, MEMTRACE_ALL_STEPS, MEMTRACE_ALLOCATED, &peak) == MEMTRACE_OK) {
 *       printf("%llu bytes, mostly %s\n", (unsigned long long)peak->bytes,
 *              peak->share_count > 0 ? peak->shares[0]->category : "nothing");
 *       memtrace_free(peak);
 *   }
 *   memtrace_trace_close(trace);
 *
 * Every question can fail with MEMTRACE_BAD_TRACE for a damaged file, in addition to the failures documented with it.
 *
 * Ownership: an answer is a struct, or an array of pointers to structs, in one allocation. The caller owns it and frees
 * it with memtrace_free. The trace owns run rows and all texts; they are valid until it is closed. Treat texts as
 * untrusted, since the author of the trace wrote them. */
typedef struct memtrace_trace memtrace_trace;

/* Opens a trace. The caller closes it. First stores records that a killed program left in the ring. MEMTRACE_BAD_TRACE
 * if there is no such file, or it is not a trace. MEMTRACE_USAGE if the path is NULL. */
MEMTRACE_API memtrace_status memtrace_trace_open(const char *path, memtrace_trace **out_trace);
MEMTRACE_API void memtrace_trace_close(memtrace_trace *trace); /* NULL is allowed */

/* Frees an answer. NULL is allowed. */
MEMTRACE_API void memtrace_free(const void *answer);

/* A run of a trace. */
typedef struct memtrace_run_row {
    int64_t number;         /* from 1 */
    const char *name;       /* "": none */
    const char *state;      /* "running", "done", "failed", "oom", "interrupted", "damaged" */
    const char *device;     /* as it was opened, or the noted device */
    const char *started_at; /* UTC, "2026-01-31T23:59:59.000000Z" */
    uint64_t capacity_bytes;
    int64_t events;
    int64_t lost_events; /* if not 0, storing failed, and answers cover the events before that */
    int64_t steps;       /* begun */

    int64_t missing_records; /* if not 0, the process was killed, and this many of its last records could not be read */
    int64_t rank;            /* in its job, from 0; -1: the run does not belong to a job */
    int64_t local_rank;      /* on its host; -1: not known */
    int64_t world_size;      /* processes of the job; -1: not known */
    const char *host;        /* on which it was recorded; "": unknown */
    const char *job;         /* the same for all ranks; "": not known */
} memtrace_run_row;

/* Gets all runs, oldest first. The caller frees the array; its rows belong to the trace. */
MEMTRACE_API memtrace_status memtrace_trace_runs(memtrace_trace *trace, const memtrace_run_row *const **out_rows,
                                                 size_t *out_count);

/* Finds a run by number or name ("3", "baseline"; the newest of that name), or the newest run for NULL. The trace owns
 * the row; pass it to the functions below. MEMTRACE_USAGE if there is no such run; the error text lists the runs. */
MEMTRACE_API memtrace_status memtrace_trace_find_run(memtrace_trace *trace, const char *which,
                                                     const memtrace_run_row **out_run);

/* What a peak measures. */
typedef enum memtrace_measured {
    MEMTRACE_ALLOCATED = 0, /* of live blocks, rounded up */
    MEMTRACE_REQUESTED = 1, /* of live blocks, as requested */
    MEMTRACE_RESERVED = 2   /* from the device */
} memtrace_measured;

/* The share of one category in a peak, or, from memtrace_trace_peak_by, of one role, module or other group. */
typedef struct memtrace_share {
    const char *category; /* or the name of the group */
    uint64_t allocated_bytes, requested_bytes, blocks;
} memtrace_share;

/* A peak: the first moment with the highest value, and its shares, largest first. `bytes` is the sum of cached_bytes
 * and the shares' allocated bytes (requested bytes for MEMTRACE_REQUESTED). */
typedef struct memtrace_peak {
    uint64_t bytes;        /* 0: the run allocated nothing */
    uint64_t cached_bytes; /* for MEMTRACE_RESERVED, bytes that no block held; otherwise 0 */
    int64_t step;          /* -1: before the first */
    uint64_t time_ns;      /* since the run began */
    const char *phase;     /* "forward" */
    const char *span;      /* of the request that reached the peak, "model.layers.7.ffn" */
    size_t share_count;
    const memtrace_share *const *shares;
} memtrace_peak;

enum { MEMTRACE_ALL_STEPS = -2, MEMTRACE_BEFORE_STEPS = -1 };

/* Gets the peak of a run (MEMTRACE_ALL_STEPS), of one of its steps, or of the time before the first. The shares are
 * part of the answer. MEMTRACE_USAGE if there is no such step. */
MEMTRACE_API memtrace_status memtrace_trace_peak(memtrace_trace *trace, const memtrace_run_row *run, int64_t step,
                                                 memtrace_measured measured, const memtrace_peak **out_peak);

/* Like memtrace_trace_peak, with shares by `key`: "role", "category", "module", "op", "phase" or "dtype". A module is
 * the path of the allocating span, with "*" for the number of its layer. MEMTRACE_USAGE also for another key, or
 * NULL. */
MEMTRACE_API memtrace_status memtrace_trace_peak_by(memtrace_trace *trace, const memtrace_run_row *run, int64_t step,
                                                    memtrace_measured measured, const char *key,
                                                    const memtrace_peak **out_peak);

/* Blocks that are equal except for their layer. */
typedef struct memtrace_top_row {
    uint64_t bytes; /* of one block, as requested */
    uint64_t count;
    const char *category, *op, *phase, *role, *dtype, *shape;
    const char *span; /* with "*" for the layer's number if several layers have such blocks */
    int64_t step;     /* of the first of them; -1: before the first step */
} memtrace_top_row;

/* Which blocks memtrace_trace_top counts. */
typedef enum memtrace_moment {
    MEMTRACE_AT_PEAK = 0,  /* blocks that were live at the peak of allocated bytes */
    MEMTRACE_WHOLE_RUN = 1 /* all blocks of the run */
} memtrace_moment;

/* Gets the `limit` largest rows, largest first. If a whole run has more than 131,072 kinds of blocks, the smallest are
 * left out. MEMTRACE_USAGE for an invalid moment. */
MEMTRACE_API memtrace_status memtrace_trace_top(memtrace_trace *trace, const memtrace_run_row *run,
                                                memtrace_moment moment, size_t limit,
                                                const memtrace_top_row *const **out_rows, size_t *out_count);

/* The blocks of one category. */
typedef struct memtrace_category_row {
    const char *category;
    uint64_t max_bytes;     /* the largest block of the run, as requested */
    uint64_t total_bytes;   /* of all blocks of the run, as requested */
    uint64_t per_step;      /* number of blocks in the last full step */
    uint64_t forward_bytes; /* the largest block allocated in forward and loss, as requested; 0: none */
} memtrace_category_row;

/* Gets a row for each category, largest max_bytes first. Counts blocks allocated in `phase` ("forward"), or in any
 * phase if it is NULL; forward_bytes does not depend on it. */
MEMTRACE_API memtrace_status memtrace_trace_categories(memtrace_trace *trace, const memtrace_run_row *run,
                                                       const char *phase, const memtrace_category_row *const **out_rows,
                                                       size_t *out_count);

/* The horizontal axis of a curve. */
typedef enum memtrace_axis {
    MEMTRACE_BY_TIME = 0, /* nanoseconds since the run began */
    MEMTRACE_BY_EVENT = 1 /* events of the run, from 0. Best for dry runs, whose times are the host's. */
} memtrace_axis;

/* Allocated bytes over a run, for a small chart. bytes[i] is the maximum from i * bin to (i + 1) * bin. */
typedef struct memtrace_curve {
    memtrace_axis axis;
    uint64_t bin, end; /* the width of a bin and the last event, in units of the axis */
    size_t count;      /* at most 256; 0: the run has no event */
    const uint64_t *bytes;
} memtrace_curve;

/* Gets the curve of a run. Reads all its events, which takes about 200 ns per event. */
MEMTRACE_API memtrace_status memtrace_trace_curve(memtrace_trace *trace, const memtrace_run_row *run,
                                                  const memtrace_curve **out_curve);

/* One cause of the memory difference between two runs, A and B. Blocks that both runs have cancel out. */
typedef struct memtrace_cause {
    const char *kind;            /* "parameters", "weight_casts", "activation_size", …; docs/json.md lists them */
    const char *category;        /* for activations; otherwise "" */
    int64_t bytes;               /* B minus A; never 0 */
    uint64_t a_blocks, b_blocks; /* blocks with this difference */
    uint64_t a_bytes, b_bytes;   /* their requested bytes */
} memtrace_cause;

/* Compares run `a` of one open trace with run `b` of the same or another trace, at their peaks of allocated or reserved
 * bytes. The causes are ordered by magnitude; their bytes sum exactly to the difference of the peaks. MEMTRACE_USAGE if
 * a run has no blocks, or for MEMTRACE_REQUESTED. */
MEMTRACE_API memtrace_status memtrace_trace_diff(memtrace_trace *a_trace, const memtrace_run_row *a,
                                                 memtrace_trace *b_trace, const memtrace_run_row *b,
                                                 memtrace_measured measured, const memtrace_cause *const **out_rows,
                                                 size_t *out_count);

/* Memory that a run wastes, and how far the peak falls without the waste. Similar blocks are one finding. */
typedef struct memtrace_finding {
    const char *pattern; /* "late free", "gradients in forward", "fragmentation", …; as `pattern` in JSON */
    const char *category, *role, *op, *phase, *span; /* common to the blocks; otherwise "" */
    uint64_t bytes, blocks;                          /* wasted at the peak */
    uint64_t saved_bytes; /* how far the requested peak, or for fragmentation the reserved peak, falls in a replay */
} memtrace_finding;

/* Gets at most `limit` findings in the order of `memtrace advise`: first those that one option fixes, if it saves at
 * least a tenth of the largest saving; then by saving. Each saving was verified by a replay, with PyTorch's allocator
 * for runs of `memtrace run` and with the run's own allocator for others. MEMTRACE_USAGE for a limit of 0, or a run
 * with too many events. */
MEMTRACE_API memtrace_status memtrace_trace_advise(memtrace_trace *trace, const memtrace_run_row *run, size_t limit,
                                                   const memtrace_finding *const **out_rows, size_t *out_count);

/* A setting of `memtrace run`: {"model", "2.7B"}, {"seq", "512"}, {"autocast", "bf16"}. */
typedef struct memtrace_setting {
    const char *name, *value;
} memtrace_setting;

/* Whether a run of memtrace's built-in model fits a device. */
typedef struct memtrace_fit {
    int fits;
    uint64_t capacity_bytes; /* of the device */
    uint64_t reserved_bytes; /* if it fits, the peak of reserved bytes */
    uint64_t enough_bytes;   /* if not, a sufficient capacity */
} memtrace_fit;

/* Simulates `memtrace run` with these settings on a simulated device ("sim:rtx4090", "sim:24GiB"). Other settings have
 * their defaults, except that "alloc" is PyTorch's allocator. Takes milliseconds and needs no GPU. MEMTRACE_USAGE for
 * an unknown setting or value, or another device. */
MEMTRACE_API memtrace_status memtrace_fit_check(const memtrace_setting *settings, size_t count, const char *device,
                                                memtrace_fit *out_fit);

/* The formats of memtrace_trace_export. */
typedef enum memtrace_format {
    MEMTRACE_BLOCKS_CSV = 0,   /* a row for each block */
    MEMTRACE_EVENTS_CSV = 1,   /* a row for each allocation and free */
    MEMTRACE_FOLDED = 2,       /* stacks at the peak of allocated bytes, for flame graphs */
    MEMTRACE_TORCH_PICKLE = 3, /* a PyTorch memory snapshot */
    MEMTRACE_PERFETTO = 4      /* JSON for ui.perfetto.dev */
} memtrace_format;

/* Writes a run to `path`, compressed with gzip if the name ends in ".gz". Replaces an existing file once the new one is
 * complete. MEMTRACE_USAGE for an unknown format or if `path` is a trace; MEMTRACE_NOT_WRITTEN if the file can't be
 * written. */
MEMTRACE_API memtrace_status memtrace_trace_export(memtrace_trace *trace, const memtrace_run_row *run,
                                                   memtrace_format format, const char *path);

/* ---- 7. Programs ------------------------------------------------------------------------------------------------- */

/* Ways to run a program. */
typedef enum memtrace_program_mode {
    MEMTRACE_RUN_DRY = 0,     /* a PyTorch program on a simulated card, as `memtrace dry-run`; needs no GPU */
    MEMTRACE_RUN_RECORDED = 1 /* any program on the cards of this machine, as `memtrace record` */
} memtrace_program_mode;

enum { MEMTRACE_EVERY_STEP = -1 };

/* A program and how to run it. Zero or NULL is a sensible value of every field except `size` and `words`:
 *
 *   const char *words[] = {"train.py", "--batch", "8", NULL};
 *   memtrace_program_options options = {.size = sizeof options, .words = words, .device = "sim:rtx4090"};
 *   const memtrace_program_row *const *rows;
 *   size_t count;
 *   int exit_code;
 *   if (memtrace_program_run(&options, &exit_code, &rows, &count, NULL) != MEMTRACE_OK)
 *       return fprintf(stderr, "%s\n", memtrace_last_error());
 *   for (size_t i = 0; i < count; i++)
 *       printf("%s needs %llu bytes\n", rows[i]->trace, (unsigned long long)rows[i]->needed_bytes);
 *   memtrace_free(rows);
 *
 * The program inherits this process's environment and working folder. While it runs, the calling thread blocks signals
 * that other processes send to this process, and passes them on to the program; a handler of SIGCHLD is not called. If
 * another thread waits for any child process, it may receive the program's exit code; then the exit code here is
 * 127. */
typedef struct memtrace_program_options {
    /* sizeof(memtrace_program_options). */
    size_t size;

    /* The program and its arguments, ending with NULL. A Python script runs under the python of $VIRTUAL_ENV, else
     * .venv/bin/python, else python3. The command line of a launcher, such as torchrun, runs as its ranks. */
    const char *const *words;

    memtrace_program_mode mode;

    /* Dry: the simulated card, "sim:h100"; NULL: "sim". Recorded: the number of the only GPU to record, "0"; NULL:
     * all. */
    const char *device;

    /* The trace to which the runs are added; NULL: "memtrace.db" in the current folder. memtrace_program_fit and
     * memtrace_program_largest add no runs. */
    const char *trace;

    /* The name of the runs; NULL: none. */
    const char *name;

    /* A file descriptor for the stdout and stderr of the program; 0: the same as this process. Functions that run it
     * several times ignore this, and discard the output. */
    int output;

    /* For dry runs: the options of `memtrace dry-run`. */
    int32_t cards;          /* number of cards the program sees; 0: 1, or one for each rank of a node */
    int64_t ranks;          /* 0: from the launcher's command line, or one process */
    const char *only_ranks; /* the ranks to run, "0,1,510-511"; NULL: all, or some that represent all */
    int64_t steps; /* steps after which the program ends; 0: loops end once they repeat; or MEMTRACE_EVERY_STEP */
    int64_t time_limit_s; /* 0: none */
    /* The value assumed for numbers that are not computed: a number, or "none", "all" or "50%" for the true elements of
     * masks; NULL: "1". memtrace_program_run takes a list, "0.5,2,none", and runs once for each. */
    const char *assumed;
    const char *free_memory; /* how much of the card's memory other processes leave free, "20GiB"; NULL: all */

    /* For recorded programs: the options of `memtrace record`. */
    int kernels;            /* not 0: each kernel is also recorded */
    int no_stacks;          /* not 0: PyTorch's call stacks and operators are not recorded */
    const char *step_range; /* NVTX ranges with this prefix are training steps; NULL: none */

    int64_t jobs; /* dry runs and ranks at once; 0: limited by processors and host memory */
    /* For dry runs, "from-config": models of transformers and diffusers need no checkpoint. NULL: checkpoints are
     * loaded. */
    const char *weights;
} memtrace_program_options;

/* A run that the program added to a trace: one for each process, rank and card. */
typedef struct memtrace_program_row {
    const char *trace;       /* its absolute path */
    int64_t run;             /* its number in the trace */
    int64_t rank;            /* -1: not a rank */
    const char *state;       /* as in memtrace_run_row */
    int fits;                /* 0: it ran out of memory, or needs more memory than its card has */
    uint64_t live_bytes;     /* the peak of allocated bytes */
    uint64_t reserved_bytes; /* the peak of reserved bytes */
    uint64_t outside_bytes;  /* memory outside PyTorch's allocator: CUDA's context, libraries, NCCL */
    uint64_t needed_bytes;   /* reserved_bytes + outside_bytes */
    uint64_t card_bytes;     /* the memory of the card */
    uint64_t short_bytes;    /* missing on the card; 0 if it fits */
    int64_t steps;
    const char *line;    /* of the refused request, "train.py:12"; "": none was refused, or unknown */
    const char *assumed; /* in a dry run, the assumed value, as in the options; "" if it was recorded */
} memtrace_program_row;

/* Runs a program to its end, and gets the runs that it added. There are none if a dry-run program did not use PyTorch,
 * or a recorded one no GPU. The exit code is a shell's: 128 plus the signal's number for a program killed by a signal.
 * For ranks it is the first that is not 0. *out_notes gets sentences about parts that were not recorded or simulated,
 * one a line; the caller frees them with memtrace_free. out_notes may be NULL. If the program fails or can't be
 * recorded, the function still succeeds. MEMTRACE_USAGE for options that contradict each other or the words;
 * MEMTRACE_FAILED if the program can't be started. Requires the Python package next to the library; without it, fails
 * with MEMTRACE_NO_DEVICE or MEMTRACE_FAILED. */
MEMTRACE_API memtrace_status memtrace_program_run(const memtrace_program_options *options, int *out_exit_code,
                                                  const memtrace_program_row *const **out_rows, size_t *out_count,
                                                  const char **out_notes);

/* A dry run of a program with changes. */
typedef struct memtrace_trial {
    const char *changes; /* "checkpoint", "autocast,flash"; "": the unchanged program */
    const char *outcome; /* "ran", "refused" (a change does not apply), "failed", or "killed" (from outside) */
    const char *words;   /* where the change was made, why it does not apply, or how the program failed */
    int fits;
    uint64_t requested_bytes, allocated_bytes, reserved_bytes; /* peaks, if the trial ran */
    int64_t rank;                                              /* rank with this peak; -1: not a rank */
} memtrace_trial;

/* Dry-runs a program unchanged (the first row), with each of several changes, and with combinations if no single change
 * suffices (`memtrace fit`). The first row that fits is the answer. Fails as memtrace_program_run, and with
 * MEMTRACE_FAILED if the unchanged program fails, or uses no card. */
MEMTRACE_API memtrace_status memtrace_program_fit(const memtrace_program_options *options,
                                                  const memtrace_trial *const **out_rows, size_t *out_count);

/* A combination of values and the program's memory with them. */
typedef struct memtrace_program_cell {
    const char *values;                       /* one of each list, "8,128" */
    const char *state;                        /* "done", "oom" or "failed" */
    const char *words;                        /* the state in words */
    int64_t run;                              /* of its first process, in the trace; 0: none */
    int64_t rank;                             /* rank that reserves most; -1: not a rank */
    uint64_t allocated_bytes, reserved_bytes; /* the largest peaks of its processes */
} memtrace_program_cell;

/* Dry-runs a program with each combination of values (`memtrace sweep --vary`). A list is "batch=2,4,8"; the value
 * replaces the argument @batch, or @batch after a =. The last list changes fastest. Fails as memtrace_program_run, and
 * with MEMTRACE_USAGE for a list that no argument uses. */
MEMTRACE_API memtrace_status memtrace_program_sweep(const memtrace_program_options *options, const char *const *lists,
                                                    size_t list_count, const memtrace_program_cell *const **out_rows,
                                                    size_t *out_count);

/* A dry run in the search for the largest value that fits. */
typedef struct memtrace_value_trial {
    const char *values; /* one value of each list, "1024"; "": no lists */
    int64_t value;
    const char *state; /* "fits", "short" (the card lacks memory), "failed", or "killed" (from outside) */
    const char *words; /* how it failed, or that it needs more memory than any card has; otherwise "" */
    int is_largest;    /* not 0: the largest value that fits with these `values` */
    /* Of the process that needs the largest share of its card; 0 if the words explain a failure. */
    uint64_t requested_bytes, allocated_bytes, reserved_bytes; /* peaks */
    uint64_t needed_bytes; /* reserved_bytes plus its memory outside PyTorch's allocator */
    uint64_t card_bytes;   /* the memory of the card */
    int64_t rank;          /* -1: not a rank */
} memtrace_value_trial;

/* Searches the largest value of an argument with which a program fits its card, by dry runs (`memtrace fit --largest`).
 * `values` is "batch=1..512", "batch=8..512:8" in steps, or "batch=1,2,4"; the value replaces the argument @batch, or
 * @batch after a =. `lists` are as for memtrace_program_sweep, or NULL: each combination of their values has its own
 * search. The rows are the tried values, ordered by combination, then value. No run is added to a trace. A value with
 * which the program fails, or does not fit, is not an error. Fails as memtrace_program_run, with MEMTRACE_USAGE if
 * `values` is not a valid range or no argument uses it, and with MEMTRACE_FAILED if the program fails with each value,
 * or uses no card. */
MEMTRACE_API memtrace_status memtrace_program_largest(const memtrace_program_options *options, const char *values,
                                                      const char *const *lists, size_t list_count,
                                                      const memtrace_value_trial *const **out_rows, size_t *out_count);

#ifdef __cplusplus
}
#endif

#endif
