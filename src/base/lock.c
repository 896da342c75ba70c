#include "base/lock.h"

#include <sched.h>
#include <time.h>

enum { SPINS = 100, YIELDS = 50, SLEEP_NS = 50000 };

void mt_stand_back(int rounds)
{
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
        mt_stand_back(rounds);
        /* Looking does not take the line from its holder's core, as exchanging does. */
        if (!atomic_load_explicit(&lock->is_held, memory_order_relaxed) &&
            !atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
            return;
    }
}
