/* A lock that its first taker, the owner, takes with a store and a look for as long as nobody else wants it. An atomic
 * exchange waits for every store before it: on some processors, and after stores to memory that another core reads, that is
 * most of what a short section takes.
 *
 *   the owner                  another thread
 *   is_inside = true           is_shared = true
 *                              all processors catch up (membarrier)
 *   is_shared? back out        is_inside? wait
 *
 * Whoever is first, the other sees it. A processor may look before others see its own store; making all of them catch up
 * takes up to milliseconds and is done once: from then on the lock has no owner, and all take it as any other. Where the
 * system can't do it, it never has one.
 *
 * As lock.h, it is not fair and not recursive. */
#ifndef MT_BASE_BIASED_LOCK_H
#define MT_BASE_BIASED_LOCK_H

#include "base/lock.h"

/* All zero: nobody took it yet.
 * Invariants: only the owner writes is_inside; if it did so before it could see is_shared, nobody else holds the lock while it
 * is true. is_shared stays true once it is, and owner NULL once everyone has caught up. */
struct mt_biased_lock {
    struct mt_lock lock; /* of all but the owner, and of whoever was the owner */
    void *_Atomic owner; /* told by its thread pointer */
    atomic_bool is_inside, is_shared;
};

/* With the inner lock held, and not yet shared: the caller becomes the owner, or the lock everyone's. */
__attribute__((cold, noinline)) void mt_biased_lock_settle(struct mt_biased_lock *lock);

static inline bool mt_biased_lock_is_own(const struct mt_biased_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == __builtin_thread_pointer();
}

/* The owner's way in. The compiler keeps the order of the store and the look; the processor is made to when it matters. */
static inline bool mt_biased_lock_enter(struct mt_biased_lock *lock)
{
    atomic_store_explicit(&lock->is_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&lock->is_shared, memory_order_acquire))
        return true;
    atomic_store_explicit(&lock->is_inside, false, memory_order_release);
    return false;
}

static inline void mt_biased_lock_take(struct mt_biased_lock *lock)
{
    if (mt_biased_lock_is_own(lock) && mt_biased_lock_enter(lock))
        return;
    mt_lock_take(&lock->lock);
    if (!atomic_load_explicit(&lock->is_shared, memory_order_relaxed))
        mt_biased_lock_settle(lock);
}

static inline void mt_biased_lock_give(struct mt_biased_lock *lock)
{
    if (mt_biased_lock_is_own(lock) && atomic_load_explicit(&lock->is_inside, memory_order_relaxed))
        atomic_store_explicit(&lock->is_inside, false, memory_order_release);
    else
        mt_lock_give(&lock->lock);
}

#endif
