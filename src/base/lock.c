#include "base/lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NDEBUG
/* The ranks that this thread holds, in the order in which they were taken. Invariant: they ascend. */
static _Thread_local struct {
    mt_lock_rank ranks[MT_RANK_COUNT];
    int count;
} held;

void mt_lock_order_take(mt_lock_rank rank)
{
    assert(rank > MT_RANK_NONE && rank < MT_RANK_COUNT); /* the lock was created */
    assert(held.count == 0 || held.ranks[held.count - 1] < rank);
    held.ranks[held.count++] = rank;
}

void mt_lock_order_give(mt_lock_rank rank)
{
    int place = held.count - 1;
    while (place >= 0 && held.ranks[place] != rank)
        place--;
    assert(place >= 0);
    for (held.count--; place < held.count; place++)
        held.ranks[place] = held.ranks[place + 1];
}
#endif

enum { SPINS = 100, YIELDS = 50, SLEEP_NS = 50000 };

void mt_back_off(int rounds)
{
    assert(rounds >= 0);
    if (rounds < SPINS)
        return;
    if (rounds < SPINS + YIELDS) {
        sched_yield();
        return;
    }
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    nanosleep(&pause, NULL);
}

void mt_lock_wait(struct mt_lock *lock)
{
    for (int rounds = 0;; rounds += rounds < SPINS + YIELDS) {
        mt_back_off(rounds);
        /* A load does not take the cache line from the holder's core, as an exchange does. */
        if (!atomic_load_explicit(&lock->is_held, memory_order_relaxed) &&
            !atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
            return;
    }
}

static bool has_membarrier(void)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL) != 0;
}

/* Ends the ownership: the owner backs out from now on, and a section that it began before is over when this returns. */
static void share(struct mt_biased_lock *lock)
{
    atomic_store(&lock->is_shared, true);
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    for (int rounds = 0; atomic_load_explicit(&lock->is_inside, memory_order_acquire); rounds++)
        mt_back_off(rounds);
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
}

void mt_biased_lock_settle(struct mt_biased_lock *lock)
{
    assert(atomic_load(&lock->lock.is_held) && !atomic_load(&lock->is_shared));
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != NULL)
        share(lock);
    else if (has_membarrier())
        atomic_store_explicit(&lock->owner, __builtin_thread_pointer(), memory_order_relaxed);
    else
        atomic_store(&lock->is_shared, true);
}
