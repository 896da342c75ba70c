/* The account of a program's device memory: its CUDA calls and CUPTI's activity records, turned into foreign memory.
 *
 *   calls, as they return ──────────▶ take, give, physical memory ──┐
 *   activity records, some later ───▶ memory that no call reported ─┼──▶ struct mt_foreign ──▶ sink
 *   NVTX ranges ────────────────────▶ spans of a thread, steps ─────┘
 *
 * Calls have priority. They arrive in order and at once, so what they report survives the death of the program.
 * Activity records arrive late but cover everything: they add the memory that no call reported (arrays, variables of
 * modules, functions that are not watched). An activity record belongs to the call with the same number.
 *
 * Physical memory (cuMemCreate) has no address of its own and may be mapped at several addresses or at none. It counts
 * from its creation until it is released and unmapped everywhere. Such blocks, and those known from activity records
 * alone, get addresses that no program has.
 *
 * Includes none of CUDA's headers. Threads: one at a time, except for launches and kernels where noted. */
#pragma once

#include "base/sink.h"
#include "device/kernel_log.h"
#include "run/handover.h"

#include <stdbool.h>

/* Kinds of memory, each a category of the run. Host memory is not counted, pinned or not. */
#define MT_MEMORY_KINDS(X)                                                                                             \
    X(DEVICE, "Device")   /* cudaMalloc, cuMemAlloc */                                                                 \
    X(POOL, "Pool")       /* cudaMallocAsync, from a pool */                                                           \
    X(MANAGED, "Managed") /* cudaMallocManaged: migrates between host and device; counted in full */                   \
    X(VIRTUAL, "Virtual") /* cuMemCreate: physical memory for ranges of addresses */                                   \
    X(ARRAY, "Array")     /* cudaMallocArray: for textures */                                                          \
    X(STATIC, "Static")   /* variables of loaded modules */
#define X(name, text) MT_MEMORY_##name,
typedef enum mt_memory_kind { MT_MEMORY_KINDS(X) MT_MEMORY_KIND_COUNT } mt_memory_kind;
#undef X

struct mt_account_settings {
    const char *step;                 /* prefix of the names of ranges that are steps; copied; NULL: no range is */
    int device;                       /* the device whose memory is counted, or MT_EVERY_DEVICE */
    char *(*spell)(const char *name); /* makes names of kernels readable, as for mt_kernel_log_create */
};

/* A thread of the program: its open ranges of all domains, in the order in which they began. Zero-initialized, it has
 * none. mt_account_forget_thread releases it. */
struct mt_account_thread {
    struct mt_account_range {
        uint64_t domain;
        mt_span_id span;
        bool is_reported; /* emitted as an event */
        bool is_step;     /* a step, and so no span */
    } * ranges;
    uint32_t depth;           /* number of open ranges */
    mt_span_id launch_span;   /* the span of launch_label; valid while that is not 0 */
    mt_label_id launch_label; /* the label of the thread's launches; 0: none yet */
};

/* A request for memory. */
struct mt_memory_call {
    uint64_t time_ns; /* since the run began */
    const char *op;   /* the function that the program called; borrowed */
    mt_memory_kind kind;
    uint64_t address; /* for physical memory, its handle; ignored for a refused request */
    uint64_t bytes;
    uint64_t stream;  /* any number that identifies a stream; 0 is the default one */
    uint64_t pool;    /* any number that identifies the pool; 0: none */
    uint32_t context; /* the context whose end frees the memory; ignored for physical memory */
    int device;
};

/* An activity record of CUPTI about memory. It arrives some time after the fact. */
struct mt_memory_record {
    uint64_t time_ns; /* of its arrival, since the run began */
    const char *op;
    mt_memory_kind kind;
    bool releases;
    uint64_t address, bytes;
    uint32_t call; /* the number of the call that caused it; 0: none */
    uint32_t context;
    int device;
};

/* Totals since the account was created. */
struct mt_account_counts {
    uint64_t refused;         /* requests */
    uint64_t matched_records; /* activity records of expected calls */
    uint64_t filled_records;  /* activity records that added or freed memory that no call reported */
    uint64_t doubtful;        /* activity records that no call matches and that may not be trusted: not counted */
};

struct mt_account;

/* Returns an account that emits into `sink`. Borrows what the sink refers to until the account is destroyed. */
struct mt_account *mt_account_create(const struct mt_sink *sink, const struct mt_account_settings *settings);
void mt_account_destroy(struct mt_account *account); /* may be NULL */
struct mt_account_counts mt_account_counts(const struct mt_account *account);

/* Announces the number of a call that is reported here, so that its activity records are not counted again. Must
 * precede the first of these records. */
void mt_account_expect(struct mt_account *account, uint32_t call);

/* Reports memory that was taken, is about to be given back, or was refused. `thread` is the caller; NULL: none. */
void mt_account_take(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call);
void mt_account_give(struct mt_account *account, uint64_t time_ns, uint64_t address);
void mt_account_refuse(struct mt_account *account, const struct mt_account_thread *thread,
                       const struct mt_memory_call *call);

/* Reports the bytes that the driver holds for a pool now, live blocks included. The rest is cached memory of the pool;
 * from now on, the blocks of the pool return to it. A pool without such a report holds its blocks only. A pool that no
 * counted block came from is ignored. */
void mt_account_pool(struct mt_account *account, uint64_t time_ns, uint64_t pool, uint64_t reserved_bytes);

/* Frees all memory of a context that is about to end. Activity records that arrive for it later end at once. */
void mt_account_end_context(struct mt_account *account, uint64_t time_ns, uint32_t context);

/* Reports physical memory: created, retained once more, released once; mapped; and everything in a range unmapped.
 * Handles and ranges of memory that was not created here are ignored. */
void mt_account_make(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call);
void mt_account_hold(struct mt_account *account, uint64_t handle);
void mt_account_let_go(struct mt_account *account, uint64_t time_ns, uint64_t handle);
void mt_account_map(struct mt_account *account, uint64_t address, uint64_t bytes, uint64_t handle);
void mt_account_unmap(struct mt_account *account, uint64_t time_ns, uint64_t address, uint64_t bytes);

/* Counts the memory of an activity record, unless a call has reported it. */
void mt_account_record(struct mt_account *account, const struct mt_memory_record *record);

/* Begins a range in a thread, or ends the innermost range of a domain there. A domain is any number; 0 is the default
 * one. An end without a beginning is ignored.
 *
 * Ranges of different domains need not nest. When a range ends, the ranges inside it go on without it: those that are
 * events end and begin again. Only the first thread with ranges emits span and step events, since those of several
 * threads do not nest. Blocks carry the span of their thread, whichever it is. */
void mt_account_enter(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns,
                      const char *name);
void mt_account_leave(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns);

/* Ends all ranges of a thread and releases it. */
void mt_account_forget_thread(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns);

/* Returns the label of kernels that the thread launches now, and keeps it in thread->launch_label. */
mt_label_id mt_account_launch_label(struct mt_account *account, struct mt_account_thread *thread);

/* True if thread->launch_label is out of date. From that thread, at any time. */
static inline bool mt_account_launch_changed(const struct mt_account_thread *thread)
{
    mt_span_id span = thread->depth > 0 ? thread->ranges[thread->depth - 1].span : 0;
    return thread->launch_label == 0 || thread->launch_span != span;
}

/* Notes that the launch with this number has this label and belongs to the current step. The last million launches are
 * kept. From any thread, at any time. */
void mt_account_launch(struct mt_account *account, uint32_t number, mt_label_id label);

/* Notes that a kernel ran, with times of the driver's clock. From any thread, at any time. */
void mt_account_ran(struct mt_account *account, const struct mt_kernel_run *run);

/* Calls `take` with every kernel noted since the last call, by start, with the label and step of its launch. Adds
 * shift_ns to their times. The kernel is valid during the call. From one thread at a time, beside all other calls. */
void mt_account_take_kernels(struct mt_account *account, int64_t shift_ns,
                             void (*take)(void *context, const struct mt_kernel *kernel), void *context);

/* Emits one of these kernels. A kernel whose launch was not noted was in no range. */
void mt_account_kernel(struct mt_account *account, const struct mt_kernel *kernel);
