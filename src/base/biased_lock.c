#include "base/biased_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool can_catch_up(void)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL) != 0;
}

/* From now on the owner backs out; what it began before is over when this returns. */
static void share(struct mt_biased_lock *lock)
{
    atomic_store(&lock->is_shared, true);
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    for (int rounds = 0; atomic_load_explicit(&lock->is_inside, memory_order_acquire); rounds++)
        mt_stand_back(rounds);
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
}

void mt_biased_lock_settle(struct mt_biased_lock *lock)
{
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != NULL)
        share(lock);
    else if (can_catch_up())
        atomic_store_explicit(&lock->owner, __builtin_thread_pointer(), memory_order_relaxed);
    else
        atomic_store(&lock->is_shared, true);
}
