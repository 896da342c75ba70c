/* The locks of this tree, and the order in which a thread takes them.
 *
 * mt_mutex is a mutex of the system, for sections that wait for something. The other two are for sections of some tens
 * of nanoseconds. Each is one word; neither is fair. No lock is recursive.
 *
 * mt_lock is locked by one atomic exchange and unlocked by a store: 2 ns where a pthread mutex takes 6. A thread
 * that finds it held tries again for a moment, then yields, then sleeps, because the holder may wait for a slow disk.
 *
 * mt_biased_lock saves the exchange, too, while one thread alone uses it. An exchange waits for every store before it.
 * On some processors, and after stores to memory that another core reads, waiting takes most of the time of a short
 * section. So the first thread to take a biased lock becomes its owner, and takes it with a store and a load until
 * another thread wants it:
 *
 *   the owner                  another thread
 *   is_inside = true           is_shared = true
 *                              all processors catch up (membarrier)
 *   is_shared? back out        is_inside? wait
 *
 * Whichever thread is first, the other sees it. A processor may load before others see its own store. Making all of
 * them catch up takes up to milliseconds and is done once: from then on the lock has no owner, and every thread takes
 * it as an mt_lock. Where the system has no such call, the lock never has an owner. */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The order of all locks, outermost first. A thread that holds a lock takes only locks of later ranks, and never two of
 * one rank, so no threads wait for each other in a circle. Builds with asserts check this at each take.
 *
 * The locks in src/producers/torch/dry are std::mutex and come before all of these, since nothing here calls that
 * library under a lock. Locks of files (flock) come last: while one is held, no lock of this list is taken. */
typedef enum mt_lock_rank {
    MT_RANK_NONE,            /* no lock has it */
    MT_RANK_READING,         /* a buffer of CUPTI's is read: inject.c and cupti_watch.c, each in a library of its own */
    MT_RANK_POOL_QUESTION,   /* from a question about a pool of CUDA's to the report: inject.c */
    MT_RANK_KERNEL_LAUNCHES, /* kernel_log.c */
    MT_RANK_KERNEL_RUNS,     /* kernel_log.c */
    MT_RANK_WATCH,           /* the account of a CUDA program: inject.c */
    MT_RANK_LIBRARY,         /* settings, cards, steps of a PyTorch program: torch_library.c */
    MT_RANK_CALLER,          /* the call stack that called backward: torch_stack.c */
    MT_RANK_MEMORY,          /* numbers of names in the trace of a card: torch_memory.c */
    MT_RANK_GENERATED,       /* the code that Inductor generated: torch_generated.c */
    MT_RANK_NAMES,           /* spans, categories and operators of a PyTorch program: torch_label.c */
    MT_RANK_OUTSIDE,         /* memory outside PyTorch's allocator: torch_watch.c */
    MT_RANK_PLANS,           /* calls of operators: torch_plan.c */
    MT_RANK_CUDNN,           /* from a question to cuDNN's helper to the answer: cudnn_source.c */
    MT_RANK_HELD,            /* what a simulated card holds outside its allocator: live_outside.c */
    MT_RANK_BLOCKS,          /* blocks by address: live_blocks.c */
    MT_RANK_NOTES,           /* foreign memory: live_notes.c */
    MT_RANK_ALLOC,           /* the allocator: alloc.c */
    MT_RANK_DEVICE,          /* streams and events of a card: cuda_stream.c, torch_cuda_card.c */
    MT_RANK_SINK,            /* the sink of a run, and the recorder behind it: locked_sink.c */
    MT_RANK_WRITER,          /* conditions of the trace's writer: writer.c */
    MT_RANK_LEAF,            /* any other lock: its section takes no lock */
    MT_RANK_COUNT
} mt_lock_rank;

#ifdef NDEBUG
#define MT_LOCK_ORDER
#define MT_LOCK_RANK(order)
static inline void mt_lock_order_take(mt_lock_rank rank)
{
    (void)rank;
}
static inline void mt_lock_order_give(mt_lock_rank rank)
{
    (void)rank;
}
#define MT_RANK_OF(lock) MT_RANK_NONE
#else
#define MT_LOCK_ORDER mt_lock_rank rank;
#define MT_LOCK_RANK(order) .rank = (order)
/* Adds a rank to those that the calling thread holds; fails an assert if it holds that rank or a later one. Removes
 * it. */
void mt_lock_order_take(mt_lock_rank rank);
void mt_lock_order_give(mt_lock_rank rank);
#define MT_RANK_OF(lock) ((lock)->rank)
#endif

/* A mutex of the system. Made with MT_MUTEX, or created and destroyed. */
struct mt_mutex {
    pthread_mutex_t mutex; /* for conditions */
    MT_LOCK_ORDER
};
#define MT_MUTEX(order)                                                                                                \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER, MT_LOCK_RANK(order)                                                        \
    }

static inline void mt_mutex_create(struct mt_mutex *mutex, mt_lock_rank rank)
{
    (void)rank;
    *mutex = (struct mt_mutex)MT_MUTEX(rank);
}

static inline void mt_mutex_destroy(struct mt_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->mutex);
}

static inline void mt_mutex_take(struct mt_mutex *mutex)
{
    mt_lock_order_take(MT_RANK_OF(mutex));
    pthread_mutex_lock(&mutex->mutex);
}

static inline void mt_mutex_give(struct mt_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->mutex);
    mt_lock_order_give(MT_RANK_OF(mutex));
}

/* Made with MT_LOCK, or created in zeroed memory. */
struct mt_lock {
    atomic_bool is_held;
    MT_LOCK_ORDER
};
#define MT_LOCK(order)                                                                                                 \
    {                                                                                                                  \
        .is_held = false, MT_LOCK_RANK(order)                                                                          \
    }

static inline void mt_lock_create(struct mt_lock *lock, mt_lock_rank rank)
{
    (void)lock;
    (void)rank;
#ifndef NDEBUG
    lock->rank = rank;
#endif
}

/* Lets another thread go on: returns at once in the first rounds of waiting, yields in the next ones, then sleeps. */
void mt_back_off(int rounds);

/* Waits until the lock is free and takes it. */
__attribute__((cold, noinline)) void mt_lock_wait(struct mt_lock *lock);

/* Takes a lock that this thread does not hold. */
static inline void mt_lock_take(struct mt_lock *lock)
{
    mt_lock_order_take(MT_RANK_OF(lock));
    if (atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
        mt_lock_wait(lock);
}

/* Gives back a lock that this thread holds. */
static inline void mt_lock_give(struct mt_lock *lock)
{
    assert(atomic_load_explicit(&lock->is_held, memory_order_relaxed));
    atomic_store_explicit(&lock->is_held, false, memory_order_release);
    mt_lock_order_give(MT_RANK_OF(lock));
}

/* All zero but for the rank of its inner lock: never taken.
 * Invariants: only the owner writes is_inside, and while it is true without is_shared, no other thread holds the lock;
 * is_shared stays true once it is; an owner that is_shared finds is NULL as soon as all processors have caught up. */
struct mt_biased_lock {
    struct mt_lock lock; /* held by every holder but the owner */
    void *_Atomic owner; /* its thread pointer; NULL: none */
    atomic_bool is_inside, is_shared;
};

/* Makes the calling thread the owner of a lock that has none, or ends the ownership of another thread. The inner lock
 * is held, and the biased lock is not shared yet. */
__attribute__((cold, noinline)) void mt_biased_lock_settle(struct mt_biased_lock *lock);

/* True if the calling thread is the owner. */
static inline bool mt_biased_lock_is_own(const struct mt_biased_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == __builtin_thread_pointer();
}

/* Takes the lock for its owner; false if it is shared by now. The fence keeps the compiler from reordering the store
 * and the load. The processor is made to keep the order by the other thread, when it matters. */
static inline bool mt_biased_lock_enter(struct mt_biased_lock *lock)
{
    assert(!atomic_load_explicit(&lock->is_inside, memory_order_relaxed)); /* it is not recursive */
    atomic_store_explicit(&lock->is_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&lock->is_shared, memory_order_acquire))
        return true;
    atomic_store_explicit(&lock->is_inside, false, memory_order_release);
    return false;
}

/* Takes a lock that this thread does not hold. */
static inline void mt_biased_lock_take(struct mt_biased_lock *lock)
{
    if (mt_biased_lock_is_own(lock) && mt_biased_lock_enter(lock)) {
        mt_lock_order_take(MT_RANK_OF(&lock->lock));
        return;
    }
    mt_lock_take(&lock->lock);
    if (!atomic_load_explicit(&lock->is_shared, memory_order_relaxed))
        mt_biased_lock_settle(lock);
}

/* True if the calling thread or another one holds the lock: for asserts. */
static inline bool mt_biased_lock_is_held(const struct mt_biased_lock *lock)
{
    return atomic_load_explicit(&lock->is_inside, memory_order_relaxed) ||
           atomic_load_explicit(&lock->lock.is_held, memory_order_relaxed);
}

/* Gives back a lock that this thread holds. */
static inline void mt_biased_lock_give(struct mt_biased_lock *lock)
{
    if (mt_biased_lock_is_own(lock) && atomic_load_explicit(&lock->is_inside, memory_order_relaxed)) {
        atomic_store_explicit(&lock->is_inside, false, memory_order_release);
        mt_lock_order_give(MT_RANK_OF(&lock->lock));
        return;
    }
    mt_lock_give(&lock->lock);
}
