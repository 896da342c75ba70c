/* A lock for what takes some tens of nanoseconds: one word, taken with one atomic exchange and given back with a store,
 * 2 ns where a pthread mutex takes 6. Who finds it held tries again for a moment, then lets others run, then sleeps:
 * its holder may wait for a slow disk.
 *
 * It is not fair and not recursive. */
#ifndef MT_BASE_LOCK_H
#define MT_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

/* All zero: nobody holds it. */
struct mt_lock {
    atomic_bool is_held;
};

/* Lets whoever is waited for get on, by how often was looked in vain so far. */
void mt_stand_back(int rounds);

/* Returns once the caller holds it. */
__attribute__((cold, noinline)) void mt_lock_wait(struct mt_lock *lock);

static inline void mt_lock_take(struct mt_lock *lock)
{
    if (atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
        mt_lock_wait(lock);
}

static inline void mt_lock_give(struct mt_lock *lock)
{
    atomic_store_explicit(&lock->is_held, false, memory_order_release);
}

#endif
