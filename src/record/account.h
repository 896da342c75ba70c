/* The account of a program's device memory: what its calls and the driver's records say, told as foreign memory.
 *
 *   calls, as they return ──────▶ take, give, physical memory ──┐
 *   records, some time later ───▶ what no call has told ────────┼──▶ struct mt_foreign ──▶ sink
 *   ranges of NVTX ─────────────▶ spans of a thread, steps ─────┘
 *
 * Calls are believed first: they come in order, at once, and so what they told outlives the program's death. The
 * driver's records come late, but of everything: they fill in what no call told (arrays, variables of modules,
 * functions that are not listened to). A record belongs to the call of the same number.
 *
 * Physical memory (cuMemCreate) has no address of its own and may be mapped at several or none; it counts from its
 * making until it is released and mapped nowhere. Such blocks, and those that only records told, get addresses that
 * no program has.
 *
 * Knows nothing of CUDA's headers. Threads: one at a time, but for launches and kernels where that is said. */
#ifndef MT_RECORD_ACCOUNT_H
#define MT_RECORD_ACCOUNT_H

#include "base/sink.h"
#include "device/kernel_log.h"

#include <stdbool.h>

/* Kinds of memory, each a category of the run. Host memory, pinned or not, is none of the device's. */
#define MT_MEMORY_KINDS(X)                                                                                             \
    X(DEVICE, "Device")   /* cudaMalloc, cuMemAlloc */                                                                 \
    X(POOL, "Pool")       /* cudaMallocAsync, from a pool */                                                           \
    X(MANAGED, "Managed") /* cudaMallocManaged: moves between host and device; counted in full */                      \
    X(VIRTUAL, "Virtual") /* cuMemCreate: physical memory for ranges of addresses */                                   \
    X(ARRAY, "Array")     /* cudaMallocArray: for textures */                                                          \
    X(STATIC, "Static")   /* variables of loaded modules */
#define X(name, text) MT_MEMORY_##name,
typedef enum mt_memory_kind { MT_MEMORY_KINDS(X) MT_MEMORY_KIND_COUNT } mt_memory_kind;
#undef X

enum { MT_EVERY_DEVICE = -1 };

struct mt_account_settings {
    const char *step;                 /* ranges whose name begins so are steps; copied; NULL: there are none */
    int device;                       /* whose memory is counted, or MT_EVERY_DEVICE */
    char *(*spell)(const char *name); /* makes names of kernels readable, as mt_kernel_log_create's */
};

/* A thread of the program: the ranges that it is in, of all domains, in the order in which they began. Zero-initialized
 * is in none; mt_account_forget_thread ends it. */
struct mt_account_thread {
    struct mt_account_range {
        uint64_t domain;
        mt_span_id span;
        bool is_told; /* as an event */
        bool is_step; /* which is no span */
    } * ranges;
    uint32_t depth;
    mt_span_id launch_span; /* that launch_label is of; valid while that is not 0 */
    mt_label_id launch_label;
};

/* A request. */
struct mt_memory_call {
    uint64_t time_ns; /* since the run began */
    const char *op;   /* the function that the program called; borrowed */
    mt_memory_kind kind;
    uint64_t address; /* of physical memory, its handle; of a refused request, any */
    uint64_t bytes;
    uint64_t stream;  /* any number that tells streams apart; 0 is the default one */
    uint64_t pool;    /* that it comes from, by any number; 0: none */
    uint32_t context; /* with which it goes; of physical memory, any */
    int device;
};

/* What the driver says that happened, some time after it did. */
struct mt_memory_record {
    uint64_t time_ns; /* when it is told */
    const char *op;
    mt_memory_kind kind;
    bool releases;
    uint64_t address, bytes;
    uint32_t call; /* the number of the call that did it */
    uint32_t context;
    int device;
};

struct mt_account_counts {
    uint64_t refused;        /* requests */
    uint64_t told_records;   /* of calls that were told */
    uint64_t filled_records; /* that told what no call had */
    uint64_t doubtful;       /* that might have, but of which nothing is known to be right: not counted as memory */
};

struct mt_account;

/* Borrows what the sink refers to, until it is destroyed. */
struct mt_account *mt_account_create(const struct mt_sink *sink, const struct mt_account_settings *settings);
void mt_account_destroy(struct mt_account *account); /* may be NULL */
struct mt_account_counts mt_account_counts(const struct mt_account *account);

/* Says that the driver's records with this number are of a call that is told here. Before the first of them comes. */
void mt_account_expect(struct mt_account *account, uint32_t call);

/* Memory that was taken, is about to be given back, or was refused. `thread` is who called. */
void mt_account_take(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call);
void mt_account_give(struct mt_account *account, uint64_t time_ns, uint64_t address);
void mt_account_refuse(struct mt_account *account, const struct mt_account_thread *thread,
                       const struct mt_memory_call *call);

/* What the driver holds for a pool now, live blocks included. What is beyond them is memory that no block has, and so
 * is from now on what a block of the pool gives back. A pool that this is never said of holds its blocks only, and one
 * that no counted block came of is ignored. */
void mt_account_pool(struct mt_account *account, uint64_t time_ns, uint64_t pool, uint64_t reserved_bytes);

/* All that goes with a context, which is about to end; what records tell of it from now on ends at once. */
void mt_account_end_context(struct mt_account *account, uint64_t time_ns, uint32_t context);

/* Physical memory: made, held once more, let go of once; mapped, and all that lies in a range unmapped. Handles and
 * mappings of others' memory, which were not made here, are ignored. */
void mt_account_make(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call);
void mt_account_hold(struct mt_account *account, uint64_t handle);
void mt_account_let_go(struct mt_account *account, uint64_t time_ns, uint64_t handle);
void mt_account_map(struct mt_account *account, uint64_t address, uint64_t bytes, uint64_t handle);
void mt_account_unmap(struct mt_account *account, uint64_t time_ns, uint64_t address, uint64_t bytes);

void mt_account_record(struct mt_account *account, const struct mt_memory_record *record);

/* A range begins in a thread, or the innermost one of its domain (any number; 0 is the default one) ends; an end
 * without a beginning is ignored. Ranges of several domains nest as they may: those that lie in one that ends go on
 * without it, and where they are events they end and begin again. Spans and steps are told as events of the first
 * thread that has ranges, since those of several do not nest; the blocks of every thread have theirs. A thread that
 * ends leaves all of its ranges. */
void mt_account_enter(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns,
                      const char *name);
void mt_account_leave(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns);
void mt_account_forget_thread(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns);

/* The label of kernels that the thread launches now. */
mt_label_id mt_account_launch_label(struct mt_account *account, struct mt_account_thread *thread);

/* Whether the thread has to be asked for it again; else thread->launch_label is it. From that thread, without the
 * others. */
static inline bool mt_account_launch_changed(const struct mt_account_thread *thread)
{
    mt_span_id span = thread->depth > 0 ? thread->ranges[thread->depth - 1].span : 0;
    return thread->launch_label == 0 || thread->launch_span != span;
}

/* Says that the launch with this number has this label, and is part of the step that is going on: from any thread, at
 * once with everything else. Of launches the last million are kept. */
void mt_account_launch(struct mt_account *account, uint32_t number, mt_label_id label);

/* A kernel that ran, on the driver's clock. From any thread, at once with everything else. */
void mt_account_ran(struct mt_account *account, const struct mt_kernel_run *run);

/* Hands over all of those since the last time, by start, with what is known of their launches; shift_ns is added to
 * their times. The kernel is valid during the call. From one thread at a time, at once with everything else. */
void mt_account_take_kernels(struct mt_account *account, int64_t shift_ns,
                             void (*take)(void *context, const struct mt_kernel *kernel), void *context);

/* Tells one of them. That nobody announced its launch means that it was in no range. */
void mt_account_kernel(struct mt_account *account, const struct mt_kernel *kernel);

#endif
