/* The host's clock, and the arithmetic behind it on a simulated counter and clock. */
#include "base/clock.h"
#include "base/counter_clock.h"
#include "base/random.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { INTERVAL = MT_COUNTER_INTERVAL_NS, PROMISED_NS = 2000 };

/* ---- a simulated clock and counter ---- */

/* The clock is at clock_ns, the counter at `counted`. Reading the clock takes time, too. */
struct world {
    struct mt_counter_clock clock;
    double clock_ns, counted;
    double ticks_per_ns, clock_pace; /* ns of the clock for one that passes */
    double reading_ns;
    uint64_t looks; /* readings of the clock */
    uint64_t told_ns;
    double worst_ns; /* the greatest difference of a result from the clock */
};

static struct world begin_world(double ticks_per_ns)
{
    return (struct world){
        .clock_ns = 1e9, .counted = 1e12, .ticks_per_ns = ticks_per_ns, .clock_pace = 1, .reading_ns = 20};
}

static void pass(struct world *world, double ns)
{
    world->clock_ns += ns * world->clock_pace;
    world->counted += ns * world->ticks_per_ns;
}

static uint64_t look(struct world *world)
{
    world->looks++;
    if (!mt_counter_clock_is_due(&world->clock, (uint64_t)world->clock_ns))
        return mt_counter_clock_hold(&world->clock, (uint64_t)world->clock_ns);
    struct mt_counter_reading reading = {.ticks_before = (uint64_t)world->counted};
    pass(world, world->reading_ns / 2);
    reading.ns = (uint64_t)world->clock_ns;
    pass(world, world->reading_ns / 2);
    reading.ticks_after = (uint64_t)world->counted;
    return mt_counter_clock_correct(&world->clock, &reading);
}

static void ask(struct world *world)
{
    uint64_t ns, before = world->told_ns;
    double clock_ns = world->clock_ns;
    if (!mt_counter_clock_tell(&world->clock, (uint64_t)world->counted, &ns))
        ns = look(world);
    assert_true(ns >= before);
    world->told_ns = ns;
    double error = (double)ns - clock_ns, size = error < 0 ? -error : error;
    if (size > world->worst_ns)
        world->worst_ns = size;
}

/* Reads the time every `every_ns`, for `ns`. */
static void live(struct world *world, double ns, double every_ns)
{
    world->looks = 0;
    world->worst_ns = 0;
    for (double end = world->clock_ns + ns; world->clock_ns < end;) {
        pass(world, every_ns);
        ask(world);
    }
}

static bool is_believed(const struct world *world)
{
    return mt_counter_clock_is_believed(&world->clock);
}

/* ---- results ---- */

static void a_counter_is_believed_once_two_rates_agree(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    for (int anchors = 1; anchors < 3; anchors++) {
        ask(&world);
        assert_false(is_believed(&world));
        pass(&world, INTERVAL);
    }
    ask(&world);
    assert_true(is_believed(&world));
    uint64_t looks = world.looks;
    pass(&world, 1000);
    ask(&world);
    assert_true(world.looks == looks);
}

static void a_steady_counter_spares_the_clock_and_keeps_to_it(void **state)
{
    (void)state;
    const double rates[] = {0.025, 1, 2.6, 5.3};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct world world = begin_world(rates[i]);
        live(&world, 3 * INTERVAL, 100);
        live(&world, 100 * INTERVAL, 100);
        assert_true(is_believed(&world));
        assert_in_range(world.looks, 98, 110);
        assert_true(world.worst_ns < 100);
    }
}

static void a_clock_that_is_slewed_is_followed(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    live(&world, 10 * INTERVAL, 100);
    for (int i = 0; i < 100; i++) {
        world.clock_pace = 1 + ((double)(mt_splitmix64((uint64_t)i) % 1001) - 500) * 1e-6;
        live(&world, 1.3 * INTERVAL, 200);
        assert_true(world.worst_ns < PROMISED_NS);
    }
    assert_true(is_believed(&world));
    assert_int_equal(world.clock.breaks, 0);
}

static void an_interrupted_reading_is_no_anchor(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    live(&world, 10 * INTERVAL, 100);
    struct mt_counter_clock before = world.clock;
    world.reading_ns = 5000;
    pass(&world, 1.5 * INTERVAL);
    ask(&world);
    assert_true(world.clock.anchor_ns == before.anchor_ns);
    world.reading_ns = 20;
    pass(&world, 1000);
    ask(&world);
    assert_true(world.clock.anchor_ns > before.anchor_ns);
    assert_true(is_believed(&world));
    live(&world, 10 * INTERVAL, 100);
    assert_true(world.worst_ns < 100);
}

static void after_a_jump_of_the_counter_the_clock_is_told(void **state)
{
    (void)state;
    const double jumps[] = {1e5, 1e12, -1e5, -9e11};
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        struct world world = begin_world(2.6);
        live(&world, 10 * INTERVAL, 100);
        world.counted += jumps[i];
        live(&world, 2 * INTERVAL, 100);
        assert_true(world.worst_ns < 1e5 / 2.6 + PROMISED_NS);
        assert_int_equal(world.clock.breaks, 1);
        live(&world, 2 * INTERVAL, 100);
        assert_true(is_believed(&world));
        assert_true(world.worst_ns < 100);
    }
}

static void a_counter_may_change_its_pace(void **state)
{
    (void)state;
    const double paces[] = {2.5, 1.3, 5.2};
    for (size_t i = 0; i < sizeof paces / sizeof paces[0]; i++) {
        struct world world = begin_world(2.6);
        live(&world, 10 * INTERVAL, 100);
        world.ticks_per_ns = paces[i];
        live(&world, 2 * INTERVAL, 100);
        assert_true(world.worst_ns <= INTERVAL + PROMISED_NS);
        live(&world, 4 * INTERVAL, 100);
        assert_true(is_believed(&world));
        live(&world, 4 * INTERVAL, 100);
        assert_true(world.worst_ns < 100);
    }
}

static void a_counter_that_is_wrong_too_often_is_forgone(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    for (int i = 0; i < MT_COUNTER_MOST_BREAKS; i++) {
        live(&world, 4 * INTERVAL, 1000);
        assert_true(is_believed(&world));
        world.counted += 1e5;
        live(&world, 1.5 * INTERVAL, 1000);
    }
    live(&world, 10 * INTERVAL, 1000);
    assert_false(is_believed(&world));
    assert_false(mt_counter_clock_is_due(&world.clock, world.told_ns + INTERVAL));
    assert_true(world.worst_ns <= world.reading_ns);
}

static void who_forgoes_the_counter_is_told_the_clock(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    live(&world, 10 * INTERVAL, 1000);
    mt_counter_clock_forgo(&world.clock);
    uint64_t asked = 0;
    for (world.looks = 0; asked < 10000; asked++) {
        pass(&world, 1000);
        ask(&world);
    }
    assert_true(world.looks == asked);
    assert_true(mt_counter_clock_hold(&world.clock, world.told_ns - 5) == world.told_ns);
    assert_true(mt_counter_clock_hold(&world.clock, world.told_ns + 5) == world.told_ns + 5);
}

static void a_long_pause_begins_anew_and_is_no_break(void **state)
{
    (void)state;
    struct world world = begin_world(2.6);
    live(&world, 10 * INTERVAL, 100);
    pass(&world, 5e9);
    world.counted += 1e10; /* any number of ticks */
    ask(&world);
    assert_false(is_believed(&world));
    live(&world, 3 * INTERVAL, 100);
    assert_true(is_believed(&world));
    assert_int_equal(world.clock.breaks, 0);
}

/* ---- the real one ---- */

static uint64_t system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads the time for so long; returns the greatest difference from the system's clock, 0 if there is none. */
static uint64_t worst_difference(uint64_t ns)
{
    uint64_t worst = 0, before = system_ns(), end = before + ns;
    while (before < end) {
        uint64_t told = mt_clock_ns(), after = system_ns();
        uint64_t difference = told < before ? before - told : told > after ? told - after : 0;
        worst = difference > worst ? difference : worst;
        before = after;
    }
    return worst;
}

static void the_clock_does_not_go_back(void **state)
{
    (void)state;
    uint64_t last = mt_clock_ns(), first = last;
    for (int i = 0; i < 100000 || last == first; i++) {
        uint64_t now = mt_clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void what_is_to_come_has_not_passed(void **state)
{
    (void)state;
    assert_int_equal(mt_clock_since_ns(UINT64_MAX), 0);
    uint64_t start = mt_clock_ns(), passed = mt_clock_since_ns(start);
    assert_true(passed <= mt_clock_ns() - start);
}

static void *differ(void *worst)
{
    *(uint64_t *)worst = worst_difference(1000000000);
    return NULL;
}

/* More threads than there are processors, so that they are interrupted and moved. */
static void every_thread_is_told_the_systems_time(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    uint64_t worst[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, differ, &worst[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(worst[i] <= 2 * PROMISED_NS);
    }
}

/* The last result of the thread that ran last. */
struct turns {
    pthread_mutex_t lock;
    uint64_t last_ns;
    uint64_t most_ns; /* the greatest lag of a thread behind the one before it */
};

static void *take_turns(void *context)
{
    struct turns *turns = context;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&turns->lock);
        uint64_t now = mt_clock_ns();
        if (now < turns->last_ns && turns->last_ns - now > turns->most_ns)
            turns->most_ns = turns->last_ns - now;
        turns->last_ns = now;
        pthread_mutex_unlock(&turns->lock);
    }
    return NULL;
}

static void threads_that_take_turns_are_told_nearly_the_same(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct turns turns = {.lock = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &turns), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(turns.most_ns <= 2 * PROMISED_NS);
}

static void a_forked_process_goes_on_with_the_clock(void **state)
{
    (void)state;
    assert_true(worst_difference(5 * INTERVAL) <= 2 * PROMISED_NS);
    uint64_t before = mt_clock_ns();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(mt_clock_ns() >= before && worst_difference(5 * INTERVAL) <= 2 * PROMISED_NS ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_is_believed_once_two_rates_agree),
        cmocka_unit_test(a_steady_counter_spares_the_clock_and_keeps_to_it),
        cmocka_unit_test(a_clock_that_is_slewed_is_followed),
        cmocka_unit_test(an_interrupted_reading_is_no_anchor),
        cmocka_unit_test(after_a_jump_of_the_counter_the_clock_is_told),
        cmocka_unit_test(a_counter_may_change_its_pace),
        cmocka_unit_test(a_counter_that_is_wrong_too_often_is_forgone),
        cmocka_unit_test(who_forgoes_the_counter_is_told_the_clock),
        cmocka_unit_test(a_long_pause_begins_anew_and_is_no_break),
        cmocka_unit_test(the_clock_does_not_go_back),
        cmocka_unit_test(what_is_to_come_has_not_passed),
        cmocka_unit_test(every_thread_is_told_the_systems_time),
        cmocka_unit_test(threads_that_take_turns_are_told_nearly_the_same),
        cmocka_unit_test(a_forked_process_goes_on_with_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
