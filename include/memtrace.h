/* memtrace: where did every byte of GPU memory go, and why?
 *
 * This header is the whole of what a program needs, and its manual. It is C11 and C++, includes nothing of memtrace's
 * own, and belongs to libmemtrace (`pkg-config --cflags --libs memtrace`, or find_package(memtrace) and the target
 * memtrace::memtrace). What it writes is a trace, which the program `memtrace` questions: `memtrace peak`,
 * `memtrace top`, `memtrace timeline` and all others.
 *
 *   a program with labels  ──memtrace_take──▶ allocator ──▶ device (cuda, cpu, sim)
 *                                                │ events
 *   a program with its own ──memtrace_note_take──┴──────▶ trace (SQLite) ◀── memtrace peak, memtrace_trace_peak
 *
 * The shortest program, and then `memtrace peak --trace my.db`:
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
 * Words. A block is what one request gets; it is live until it is given back. Its requested bytes are as asked for, its
 * allocated bytes the same, rounded up as it was handed out. Reserved bytes are what was taken from the device to have
 * blocks in; what no live block holds of them is cached. A peak says of which of these it is the highest.
 *
 * 1. Outcomes and errors           what functions return
 * 2. A run                         open, close
 * 3. Labels, spans, steps          what memory is for
 * 4. The allocator                 memory that memtrace hands out
 * 5. Notes                         memory that is taken elsewhere
 * 6. Asking                        reading a trace
 *
 * samples/label.c shows it in fifty lines; samples/replace_malloc.c notes an existing program's cudaMalloc, and
 * samples/ask.c reads.
 *
 * What may change: functions, enumerators and fields of structs are added at the end and never removed while the number
 * in libmemtrace.so.0 stays. So structs that the caller makes begin with their size, and structs that the library makes
 * are reached through pointers: do not copy the latter as a whole, and do not ask for their size.
 *
 * Threads: every function of sections 3 to 5 may be called from any thread, of the same run too. Opening, closing and
 * all of section 6 are one thread's at a time for one run or one trace; several are independent of each other. A run
 * has one thread of its own, which writes the trace and blocks all signals. It belongs to the process that opened it:
 * a child that is forked off may exit or exec, and may not call anything with it.
 *
 * The library never prints and never exits, with one exception: where the host has no memory left for its bookkeeping,
 * or more labels are made than there are numbers (16,777,215 in a run), it says so on stderr and aborts. */
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

/* The version of this header. memtrace_version() is that of the library, "0.1.0"; the text is static. Before 1.0 a
 * change of the middle number may break what is above. */
#define MEMTRACE_VERSION_MAJOR 0
#define MEMTRACE_VERSION_MINOR 1
#define MEMTRACE_VERSION_PATCH 0
MEMTRACE_API const char *memtrace_version(void);

/* ---- 1. Outcomes and errors -------------------------------------------------------------------------------------- */

/* What a function that can fail returns: 0 or the reason. The numbers are the exit codes of the program `memtrace`.
 * Results are written through the last parameters, and only where MEMTRACE_OK is returned. */
typedef enum memtrace_status {
    MEMTRACE_OK = 0,
    MEMTRACE_FAILED = 1,        /* the file system, a driver or the like refused */
    MEMTRACE_USAGE = 2,         /* an argument that can't be meant */
    MEMTRACE_BAD_TRACE = 3,     /* not a trace, or a damaged one */
    MEMTRACE_NO_DEVICE = 4,     /* no such device, or no driver for it */
    MEMTRACE_OUT_OF_MEMORY = 5, /* of the device: an ordinary outcome, after which all goes on */
    MEMTRACE_NOT_WRITTEN = 6    /* of the program only: its answer, or a file of it, could not be written */
} memtrace_status;

/* The same in words, "out of device memory"; static text, for any number. */
MEMTRACE_API const char *memtrace_status_text(memtrace_status status);

/* Why this thread's last call that failed did: a sentence with the numbers, for people. "" before the first. Valid
 * until the thread's next call that fails; calls that succeed leave it alone. */
MEMTRACE_API const char *memtrace_last_error(void);

/* ---- 2. A run ---------------------------------------------------------------------------------------------------- */

/* One recording: what a program did with a device's memory, from open to close. A trace file holds any number of runs;
 * one process at a time, and one run of it, writes to a file. */
typedef struct memtrace_run memtrace_run;

/* How to open one. Zero or NULL is a sensible value of every field but `size`:
 *
 *   memtrace_run_options options = {.size = sizeof options, .trace = "my.db"};          in C
 *   memtrace_run_options options = {}; options.size = sizeof options;                    in C++
 *
 * All text is copied. */
typedef struct memtrace_run_options {
    /* sizeof(memtrace_run_options), which tells the library which fields there are. */
    size_t size;

    /* The file, which is created if there is none; a run is added to one that there is. Beside it, until the run is
     * closed, lies a ring of 64 MiB. NULL: "memtrace.db" in the current folder, where the program looks by itself. */
    const char *trace;

    /* What `memtrace --run` may call it later, "baseline". NULL: it goes by its number alone. */
    const char *name;

    /* Where memory comes from, as `memtrace run --device` has it: "cuda", "cuda:1"; "cpu", "cpu:4GiB"; "sim" (an H200
     * with nothing behind its addresses), "sim:a100-80gb", "sim:24GiB". NULL: from nowhere; then there are notes
     * (section 5) and no allocator. */
    const char *device;

    /* How the allocator behaves, as `memtrace run --alloc` has it: "policy=torch,max_split=200MiB" does as PyTorch's
     * does; "policy=tight" is ours, which reserves less, and is what NULL means. Kept with the run as setting
     * "alloc". */
    const char *alloc;

    /* Any facts to keep with the run, for whoever reads it: name, value, name, value, …, NULL. Of two by one name the last
     * counts, and of "alloc" what the allocator was set to. NULL: none. */
    const char *const *settings;

    /* Without a device: what the trace calls the memory that is noted ("cuda:0 by my pool"; NULL: "noted"), and how
     * many bytes there are of it at most (0, or more than 2^63 - 1: not known). With one, both are the device's own and
     * these are ignored. */
    const char *noted_device;
    uint64_t noted_capacity_bytes;
} memtrace_run_options;

/* Opens a run, the caller's to close. From here on a crash loses nothing: what was taken and given until then is in the
 * trace, and the run's state says "interrupted".
 * MEMTRACE_FAILED if the trace can't be written, or another process or run is writing it, which the text names;
 * MEMTRACE_BAD_TRACE if the file is something else; MEMTRACE_NO_DEVICE and MEMTRACE_USAGE for the device and the
 * settings. Nothing stays behind then, but an empty trace and a run that is `failed` may. */
MEMTRACE_API memtrace_status memtrace_run_open(const memtrace_run_options *options, memtrace_run **out_run);

/* How it ended, by the program's own judgement; questions show it. */
typedef enum memtrace_outcome {
    MEMTRACE_RUN_DONE = 0,
    MEMTRACE_RUN_FAILED = 1,
    MEMTRACE_RUN_OUT_OF_MEMORY = 2 /* it ended because a request was refused */
} memtrace_outcome;

/* Ends a run: gives the device's memory back (blocks that are still out die, and the trace keeps them as live at the
 * end), stores the rest and frees `run`, in any case. No other thread may be using it, nor one that has used it be
 * ending meanwhile: join it first. Returns the first error that the recording had in its life: a full disk does not
 * stop a program that is watched, it is reported here. NULL is allowed. */
MEMTRACE_API memtrace_status memtrace_run_close(memtrace_run *run, memtrace_outcome outcome);

/* Its number in the trace, from 1. */
MEMTRACE_API int64_t memtrace_run_number(const memtrace_run *run);

/* ---- 3. Labels, spans, steps ------------------------------------------------------------------------------------- */

/* What a block is to a training step, whatever it holds. */
typedef enum memtrace_role {
    MEMTRACE_TEMPORARY = 0, /* what is needed for a moment; also what is none of the others */
    MEMTRACE_PARAM = 1,
    MEMTRACE_GRAD = 2,
    MEMTRACE_OPT_STATE = 3,
    MEMTRACE_SAVED = 4,       /* kept from forward for backward */
    MEMTRACE_WEIGHT_CAST = 5, /* a weight in another precision */
    MEMTRACE_WORKSPACE = 6,   /* a library's */
    MEMTRACE_DATA = 7         /* inputs */
} memtrace_role;

/* Element types. It is for people: bytes are what was asked for, whatever type and shape would need. */
typedef enum memtrace_dtype {
    MEMTRACE_NO_DTYPE = 0,
    MEMTRACE_F32 = 1,
    MEMTRACE_BF16 = 2,
    MEMTRACE_F64 = 3,
    MEMTRACE_I64 = 4,
    MEMTRACE_BOOL = 5,
    MEMTRACE_U8 = 6
} memtrace_dtype;

enum { MEMTRACE_MOST_DIMS = 4 };

/* What a block is for. A plain value: the library copies what it needs, and equal ones cost nothing to repeat. Zero and
 * NULL mean "not said" in every field but `size`. To it the library adds who asked (the thread's span), in which phase
 * and in which layer. */
typedef struct memtrace_label {
    /* sizeof(memtrace_label). */
    size_t size;

    /* What peaks are broken up by: one of memtrace's own ("Param", "Gradient", "Opt State", "Optimizer", "Embed",
     * "Norm", "Attn", "AttnScores", "AttnOut", "Softmax", "FFN", "einsum", "Block", "Loss", "Data", "Workspace"), or
     * any name of the program's, up to 63 bytes; all that are used in a run may be 64, and what is one too many counts
     * as "Other". NULL or "": "Other". */
    const char *category;

    memtrace_role role;
    memtrace_dtype dtype;

    /* The operation that made it, "softmax.exp"; NULL: none. */
    const char *op;

    /* The shape: dims numbers of it, 0 to MEMTRACE_MOST_DIMS. */
    int32_t dims;
    int64_t shape[MEMTRACE_MOST_DIMS];
} memtrace_label;

/* Enters and leaves a place in the program; places nest, and each thread has a stack of its own. What is taken in
 * between belongs to the innermost one, whose path questions show: "model.layers.7.ffn". A name may have dots itself.
 * Where it is a number, or ends with a dot and a number ("7", "layers.7"), that is the layer, of all that is inside
 * too: questions merge what differs by the layer alone. A thread that ends leaves all of its places. Names are copied.
 * MEMTRACE_USAGE for a name that is NULL or "", and for an end without its begin on this thread. */
MEMTRACE_API memtrace_status memtrace_span_begin(memtrace_run *run, const char *name);
MEMTRACE_API memtrace_status memtrace_span_end(memtrace_run *run);

/* What a step is doing. */
typedef enum memtrace_phase {
    MEMTRACE_INIT = 0, /* as a run begins */
    MEMTRACE_FORWARD = 1,
    MEMTRACE_LOSS = 2,
    MEMTRACE_BACKWARD = 3,
    MEMTRACE_OPTIMIZER = 4
} memtrace_phase;

/* From now on the run, on all its threads, is in this phase. MEMTRACE_USAGE for what is none. */
MEMTRACE_API memtrace_status memtrace_phase_begin(memtrace_run *run, memtrace_phase phase);

/* Steps are numbered from 0 as they begin; what precedes the first is the run's beginning. A step that begins while
 * another goes on ends that one. Peaks are kept for each. */
MEMTRACE_API void memtrace_step_begin(memtrace_run *run);
MEMTRACE_API void memtrace_step_end(memtrace_run *run);

/* Keeps a number with the run and with the step that is going on, if one is: ("loss", 4.08). NAN says that there is
 * none. MEMTRACE_USAGE for a name that is NULL or "". */
MEMTRACE_API memtrace_status memtrace_measure(memtrace_run *run, const char *name, double value);

/* ---- 4. The allocator -------------------------------------------------------------------------------------------- */

/* A caching allocator on the run's device: what is given back is kept and handed out again, without asking the driver.
 * All of this section but memtrace_give(run, 0) takes a run with a device.
 *
 * On "cuda:1" a call that asks the driver makes that card the thread's current one, as cudaSetDevice does.
 *
 * An address is a number, since most are not the host's to follow. On "cpu" it is a host address, and memtrace_pointer
 * makes it one; on "cuda" the same makes what kernels and cudaMemcpy take; on "sim" there is nothing at it. */

/* Hands out at least `bytes`, aligned to 512, for work on `stream` (0: the default one; any number to 65535). `label`
 * NULL: nothing said. MEMTRACE_OUT_OF_MEMORY if neither the cache nor the device has it, after what is cached was
 * released and the device asked again: the trace keeps the refused request (`memtrace oom`), and the run goes on.
 * MEMTRACE_USAGE for 0 bytes, for a label that can't be, and for a run without a device. */
MEMTRACE_API memtrace_status memtrace_take(memtrace_run *run, uint64_t bytes, uint16_t stream,
                                           const memtrace_label *label, uint64_t *out_address);

/* Gives back what begins at the address. It may be handed out at once for work on the same stream, which runs after
 * what is queued there; nobody waits. 0 is allowed. MEMTRACE_USAGE for an address at which nothing that is out
 * begins. */
MEMTRACE_API memtrace_status memtrace_give(memtrace_run *run, uint64_t address);

/* Says that work of another stream uses the block that begins there, too. Once it is given back, what its own stream
 * does next waits on the device for what `stream` has queued by then. Errors as memtrace_give. */
MEMTRACE_API memtrace_status memtrace_use_on(memtrace_run *run, uint64_t address, uint16_t stream);

/* On "cuda" the cudaStream_t that a stream's number stands for: there the program queues the work that it takes memory
 * for. The library's, until the run is closed. NULL where work is not queued. */
MEMTRACE_API void *memtrace_stream_handle(memtrace_run *run, uint16_t stream);

/* An address as a pointer. */
MEMTRACE_API void *memtrace_pointer(uint64_t address);

/* Gives all cached memory back to the device that is in no segment, and on no page, with a block: for others on the
 * card, as a rule. Waits for the work that is queued. MEMTRACE_USAGE for a run without a device. */
MEMTRACE_API memtrace_status memtrace_release_cached(memtrace_run *run);

/* What the allocator holds now, and held at most. Set `size` before the call; what a newer library knows beyond it is
 * left out, what an older one does not know is 0. */
typedef struct memtrace_statistics {
    size_t size;              /* sizeof(memtrace_statistics) */
    uint64_t requested_bytes; /* of blocks that are out: as asked for */
    uint64_t allocated_bytes; /* the same, rounded up */
    uint64_t reserved_bytes;  /* taken from the device */
    uint64_t peak_requested_bytes;
    uint64_t peak_allocated_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t blocks;  /* out */
    uint64_t taken;   /* ever */
    uint64_t refused; /* ever */
} memtrace_statistics;

/* As of this moment; other threads go on. MEMTRACE_USAGE for a `size` that can't be, and for a run without a device. */
MEMTRACE_API memtrace_status memtrace_run_statistics(memtrace_run *run, memtrace_statistics *out_statistics);

/* ---- 5. Notes ---------------------------------------------------------------------------------------------------- */

/* Memory that the program takes elsewhere, told to the trace: cudaMalloc behind a wrapper, a pool of one's own. Notes
 * are of any run, with or without a device. Addresses are whatever tells blocks apart, up to 2^63 - 1, and are not
 * followed.
 *
 * A program that takes each block from the driver notes only blocks. One that has a pool notes also what the pool
 * takes, so that reserved memory is the pool's and allocated memory its users'.
 *
 *   cudaError_t my_malloc(void **out, size_t bytes)                  cudaError_t my_free(void *pointer)
 *   {                                                                {
 *       cudaError_t error = cudaMalloc(out, bytes);                      memtrace_note_give(run, (uintptr_t)pointer);
 *       if (error == cudaSuccess)                                        return cudaFree(pointer);
 *           memtrace_note_take(run, (uintptr_t)*out, bytes, 0, NULL);  }
 *       return error;
 *   }
 *
 * Notes that contradict each other (a block where one is, a give of none) are mended, by believing the later one, and
 * counted: a wrapper never fails for it. */

/* A block was taken: bytes as requested. `stream` is any number that tells streams apart, such as a cudaStream_t; 0 is
 * the default one. MEMTRACE_USAGE for a label that can't be; then nothing is noted. */
MEMTRACE_API memtrace_status memtrace_note_take(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                                                const memtrace_label *label);

/* The one that begins there is about to be given back: before it is, or another thread may take it first. */
MEMTRACE_API void memtrace_note_give(memtrace_run *run, uint64_t address);

/* A request was refused. Errors as memtrace_note_take. */
MEMTRACE_API memtrace_status memtrace_note_refusal(memtrace_run *run, uint64_t bytes, uint64_t stream,
                                                   const memtrace_label *label);

/* A pool took memory, or is about to give some back: all of what it took at once, or any part. */
MEMTRACE_API void memtrace_note_map(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream);
MEMTRACE_API void memtrace_note_unmap(memtrace_run *run, uint64_t address, uint64_t bytes);

/* What was noted, and what of it did not fit the rest. `size` as in memtrace_statistics. */
typedef struct memtrace_note_counts {
    size_t size;           /* sizeof(memtrace_note_counts) */
    uint64_t takes, gives; /* calls */
    uint64_t maps, unmaps;
    uint64_t unseen_gives;   /* of no block that was noted */
    uint64_t lost_gives;     /* blocks that ended because another was noted in their place */
    uint64_t unmapped_gives; /* blocks that ended because their memory was unmapped */
    uint64_t ignored;        /* calls about 0 bytes or beyond the highest address */
} memtrace_note_counts;

/* Since the run was opened. MEMTRACE_USAGE for a `size` that can't be. */
MEMTRACE_API memtrace_status memtrace_run_note_counts(memtrace_run *run, memtrace_note_counts *out_counts);

/* ---- 6. Asking --------------------------------------------------------------------------------------------------- */

/* A trace that was opened to be read, as of the moment of opening: of a run that is still going on, what is stored by
 * then.
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
 * Every question can fail with MEMTRACE_BAD_TRACE, of a damaged file, besides what is said of it.
 *
 * Answers: a row is a struct of the library's, and several are an array of pointers to them, in one piece of memory: it
 * is the caller's, and memtrace_free gives it back. Rows of runs, and all text, are the trace's, until it is closed.
 * Text was written by whoever made the trace, and may hold anything. */
typedef struct memtrace_trace memtrace_trace;

/* Opens a trace, the caller's to close. What a killed program left unstored is stored first. MEMTRACE_BAD_TRACE if
 * there is no such file or it is none. */
MEMTRACE_API memtrace_status memtrace_trace_open(const char *path, memtrace_trace **out_trace);
MEMTRACE_API void memtrace_trace_close(memtrace_trace *trace); /* NULL is allowed */

/* Gives back an answer. NULL is allowed. */
MEMTRACE_API void memtrace_free(const void *answer);

/* A run. */
typedef struct memtrace_run_row {
    int64_t number;         /* from 1 */
    const char *name;       /* "": none */
    const char *state;      /* "running", "done", "failed", "oom", "interrupted" */
    const char *device;     /* as it was opened, or what its program said of it */
    const char *started_at; /* UTC, "2026-01-31T23:59:59.000000Z" */
    uint64_t capacity_bytes;
    int64_t events;
    int64_t lost_events; /* not 0: its recording failed, and answers are of what came before */
    int64_t steps;       /* that were begun */
} memtrace_run_row;

/* All runs, oldest first: the answer belongs to the caller, its rows to the trace. */
MEMTRACE_API memtrace_status memtrace_trace_runs(memtrace_trace *trace, const memtrace_run_row *const **out_rows,
                                                 size_t *out_count);

/* Chooses one: by number or name ("3", "baseline": the newest of that name); NULL: the newest of all. The row is the
 * trace's, and is what the questions below take. MEMTRACE_USAGE, with the list of runs, if there is none. */
MEMTRACE_API memtrace_status memtrace_trace_find_run(memtrace_trace *trace, const char *which,
                                                     const memtrace_run_row **out_run);

/* Bytes of what. */
typedef enum memtrace_measured {
    MEMTRACE_ALLOCATED = 0, /* live blocks, rounded up as they were handed out */
    MEMTRACE_REQUESTED = 1, /* live blocks, as asked for */
    MEMTRACE_RESERVED = 2   /* what was taken from the device */
} memtrace_measured;

/* One category's part of a peak. */
typedef struct memtrace_share {
    const char *category;
    uint64_t allocated_bytes, requested_bytes, blocks;
} memtrace_share;

/* The highest that memory was, where it was so first, and what it was made of, the largest share first. The shares'
 * allocated bytes (requested ones of MEMTRACE_REQUESTED) and cached_bytes sum to bytes. */
typedef struct memtrace_peak {
    uint64_t bytes;        /* 0: nothing was ever taken */
    uint64_t cached_bytes; /* MEMTRACE_RESERVED: what no block held; otherwise 0 */
    int64_t step;          /* -1: before the first */
    uint64_t time_ns;      /* since the run began */
    const char *phase;     /* "forward" */
    const char *span;      /* who asked for what reached it, "model.layers.7.ffn" */
    size_t share_count;
    const memtrace_share *const *shares;
} memtrace_peak;

enum { MEMTRACE_ALL_STEPS = -2, MEMTRACE_BEFORE_STEPS = -1 };

/* The peak of a run (MEMTRACE_ALL_STEPS), of one of its steps, or of what precedes the first. Shares are part of the
 * answer. MEMTRACE_USAGE if there is no such step. */
MEMTRACE_API memtrace_status memtrace_trace_peak(memtrace_trace *trace, const memtrace_run_row *run, int64_t step,
                                                 memtrace_measured measured, const memtrace_peak **out_peak);

/* Blocks that are alike but for their layer. */
typedef struct memtrace_top_row {
    uint64_t bytes; /* of one, as requested */
    uint64_t count;
    const char *category, *op, *phase, *role, *dtype, *shape;
    const char *span; /* with "*" for the layer's number where it is several layers' */
    int64_t step;     /* of the first of them; -1: before the first step */
} memtrace_top_row;

/* Which blocks count. */
typedef enum memtrace_moment {
    MEMTRACE_AT_PEAK = 0,  /* those that were live at the peak of allocated bytes */
    MEMTRACE_WHOLE_RUN = 1 /* all that were ever taken */
} memtrace_moment;

/* The `limit` largest, the largest first. Of a whole run with more than 131,072 different kinds of blocks the smallest
 * kinds are not kept, and so left out. MEMTRACE_USAGE for a moment that is none. */
MEMTRACE_API memtrace_status memtrace_trace_top(memtrace_trace *trace, const memtrace_run_row *run,
                                                memtrace_moment moment, size_t limit,
                                                const memtrace_top_row *const **out_rows, size_t *out_count);

/* What was taken of one category. */
typedef struct memtrace_category_row {
    const char *category;
    uint64_t max_bytes;   /* the largest block over the run, as requested */
    uint64_t total_bytes; /* of all over the run, as requested */
    uint64_t per_step;    /* how many in the last full step */
} memtrace_category_row;

/* By category, the largest max_bytes first. `phase` ("forward") counts what was taken in it; NULL counts each category
 * in the phase that it belongs to, as `memtrace categories` does, and names of programs anywhere. */
MEMTRACE_API memtrace_status memtrace_trace_categories(memtrace_trace *trace, const memtrace_run_row *run,
                                                       const char *phase, const memtrace_category_row *const **out_rows,
                                                       size_t *out_count);

#ifdef __cplusplus
}
#endif

#endif
