/* Two locks for sections of some tens of nanoseconds. Each is one word; neither is fair or recursive.
 *
 * mt_lock is taken with one atomic exchange and given back with a store: 2 ns where a pthread mutex takes 6. A thread that
 * finds it held tries again for a moment, then yields, then sleeps, because the holder may wait for a slow disk.
 *
 * mt_biased_lock saves the exchange, too, while one thread alone uses it. An exchange waits for every store before it. On
 * some processors, and after stores to memory that another core reads, that is most of what a short section takes. So the
 * first thread to take a biased lock becomes its owner, and takes it with a store and a load until another thread wants it:
 *
 *   the owner                  another thread
 *   is_inside = true           is_shared = true
 *                              all processors catch up (membarrier)
 *   is_shared? back out        is_inside? wait
 *
 * Whichever thread is first, the other sees it. A processor may load before others see its own store. Making all of them
 * catch up takes up to milliseconds and is done once: from then on the lock has no owner, and every thread takes it as an
 * mt_lock. Where the system has no such call, the lock never has an owner. */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* All zero: not held. */
struct mt_lock {
    atomic_bool is_held;
};

/* Lets another thread go on: returns at once in the first rounds of waiting, yields in the next ones, then sleeps. */
void mt_back_off(int rounds);

/* Waits until the lock is free and takes it. */
__attribute__((cold, noinline)) void mt_lock_wait(struct mt_lock *lock);

/* Takes a lock that this thread does not hold. */
static inline void mt_lock_take(struct mt_lock *lock)
{
    if (atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
        mt_lock_wait(lock);
}

/* Gives back a lock that this thread holds. */
static inline void mt_lock_give(struct mt_lock *lock)
{
    assert(atomic_load_explicit(&lock->is_held, memory_order_relaxed));
    atomic_store_explicit(&lock->is_held, false, memory_order_release);
}

/* All zero: never taken.
 * Invariants: only the owner writes is_inside, and while it is true without is_shared, no other thread holds the lock;
 * is_shared stays true once it is; an owner that is_shared finds is NULL as soon as all processors have caught up. */
struct mt_biased_lock {
    struct mt_lock lock; /* held by every holder but the owner */
    void *_Atomic owner; /* its thread pointer; NULL: none */
    atomic_bool is_inside, is_shared;
};

/* Makes the calling thread the owner of a lock that has none, or ends the ownership of another thread. The inner lock is
 * held, and the biased lock is not shared yet. */
__attribute__((cold, noinline)) void mt_biased_lock_settle(struct mt_biased_lock *lock);

/* True if the calling thread is the owner. */
static inline bool mt_biased_lock_is_own(const struct mt_biased_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == __builtin_thread_pointer();
}

/* Takes the lock for its owner; false if it is shared by now. The fence keeps the compiler from reordering the store and
 * the load. The processor is made to keep the order by the other thread, when it matters. */
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
    if (mt_biased_lock_is_own(lock) && mt_biased_lock_enter(lock))
        return;
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
    if (mt_biased_lock_is_own(lock) && atomic_load_explicit(&lock->is_inside, memory_order_relaxed))
        atomic_store_explicit(&lock->is_inside, false, memory_order_release);
    else
        mt_lock_give(&lock->lock);
}
