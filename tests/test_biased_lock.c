/* The biased lock: one holder at a time, whichever thread is first, and however the owner and others meet. And the
 * order of locks, which builds with asserts check. */
#include "base/lock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, TIMES = 20000, LOCKS = 50 };

/* Counters that change with the lock held, in steps that two holders would break. */
struct counted {
    struct mt_biased_lock lock;
    atomic_bool is_over; /* the owner may stop */
    uint64_t here, there;
};

static void count(struct counted *counted)
{
    mt_biased_lock_take(&counted->lock);
    uint64_t here = counted->here;
    counted->there++;
    counted->here = here + 1;
    mt_biased_lock_give(&counted->lock);
}

static void *count_often(void *context)
{
    for (int i = 0; i < TIMES; i++)
        count(context);
    return NULL;
}

static void *count_until_over(void *context)
{
    struct counted *counted = context;
    uint64_t times = 0;
    for (; !atomic_load(&counted->is_over); times++)
        count(counted);
    return (void *)(uintptr_t)times;
}

static bool is_shared(struct counted *counted)
{
    return atomic_load(&counted->lock.is_shared);
}

static bool has_owner(struct counted *counted)
{
    return atomic_load(&counted->lock.owner) != NULL;
}

/* On a system that can make all processors catch up, as any Linux can that reserves none for one program. */
static void a_lock_of_one_thread_stays_its_own(void **state)
{
    (void)state;
    struct counted counted = {.lock.lock = MT_LOCK(MT_RANK_LEAF)};
    count_often(&counted);
    assert_int_equal(counted.here, TIMES);
    assert_int_equal(has_owner(&counted), !is_shared(&counted));
    assert_int_equal(mt_biased_lock_is_own(&counted.lock), has_owner(&counted));
}

static void a_lock_that_two_threads_took_has_no_owner(void **state)
{
    (void)state;
    struct counted counted = {.lock.lock = MT_LOCK(MT_RANK_LEAF)};
    pthread_t other;
    count(&counted);
    assert_int_equal(pthread_create(&other, NULL, count_often, &counted), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    count(&counted);
    assert_true(is_shared(&counted));
    assert_false(has_owner(&counted));
    assert_int_equal(counted.here, TIMES + 2);
}

static void others_begin_while_the_owner_goes_on(void **state)
{
    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        struct counted counted = {.lock.lock = MT_LOCK(MT_RANK_LEAF)};
        pthread_t owner, others[THREADS];
        void *times;
        assert_int_equal(pthread_create(&owner, NULL, count_until_over, &counted), 0);
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&others[t], NULL, count_often, &counted), 0);
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_join(others[t], NULL), 0);
        atomic_store(&counted.is_over, true);
        assert_int_equal(pthread_join(owner, &times), 0);
        assert_true(counted.here == THREADS * TIMES + (uint64_t)(uintptr_t)times);
        assert_true(counted.there == counted.here);
    }
}

static void *take_and_wait(void *context)
{
    struct counted *counted = context;
    count(counted);
    mt_biased_lock_take(&counted->lock); /* by the store alone, because this thread is the owner by now */
    counted->here = 100;
    atomic_store(&counted->is_over, true);
    for (int i = 0; i < 200; i++)
        mt_back_off(i);
    counted->here = 7;
    mt_biased_lock_give(&counted->lock);
    return NULL;
}

static void who_comes_while_the_owner_is_inside_waits(void **state)
{
    (void)state;
    struct counted counted = {.lock.lock = MT_LOCK(MT_RANK_LEAF)};
    pthread_t owner;
    assert_int_equal(pthread_create(&owner, NULL, take_and_wait, &counted), 0);
    while (!atomic_load(&counted.is_over))
        mt_back_off(0);
    mt_biased_lock_take(&counted.lock);
    assert_int_equal(counted.here, 7);
    mt_biased_lock_give(&counted.lock);
    assert_int_equal(pthread_join(owner, NULL), 0);
}

/* ---- the order ---- */

/* Takes a lock of one rank and then one of another. Returns how the process of that ended. */
static int take_both(mt_lock_rank first, mt_lock_rank second)
{
    struct mt_lock outer = MT_LOCK(first), inner = MT_LOCK(second);
    int code = 0;
    (void)first;
    (void)second;
    const pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL); /* not cmocka's */
        mt_lock_take(&outer);
        mt_lock_take(&inner);
        mt_lock_give(&outer);
        mt_lock_give(&inner);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    return code;
}

static void locks_are_taken_in_the_order_of_their_ranks(void **state)
{
    (void)state;
    assert_int_equal(take_both(MT_RANK_BLOCKS, MT_RANK_ALLOC), 0);
#ifdef NDEBUG
    skip();
#endif
    assert_true(WIFSIGNALED(take_both(MT_RANK_ALLOC, MT_RANK_BLOCKS)));
    assert_true(WIFSIGNALED(take_both(MT_RANK_LEAF, MT_RANK_LEAF)));
    assert_true(WIFSIGNALED(take_both(MT_RANK_NONE, MT_RANK_LEAF)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_of_one_thread_stays_its_own),
        cmocka_unit_test(a_lock_that_two_threads_took_has_no_owner),
        cmocka_unit_test(others_begin_while_the_owner_goes_on),
        cmocka_unit_test(who_comes_while_the_owner_is_inside_waits),
        cmocka_unit_test(locks_are_taken_in_the_order_of_their_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
