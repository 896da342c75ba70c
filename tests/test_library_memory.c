/* The library's allocator as a program asks it that stands in for PyTorch's: statistics, limits, blocks by address, the
 * card. */
#include "library_fixture.h"

#include <inttypes.h>
#include <memtrace.h>
#include <pthread.h>
#include <stdatomic.h>

static memtrace_run *open_torch(const char *device)
{
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .device = device, .alloc = "policy=torch,max_split=64MiB"};
    memtrace_run *run = NULL;
    assert_ok(memtrace_run_open(&options, &run));
    return run;
}

static memtrace_statistics statistics_of(memtrace_run *run)
{
    memtrace_statistics statistics = {.size = sizeof statistics};
    assert_ok(memtrace_run_statistics(run, &statistics));
    return statistics;
}

static void assert_counter(memtrace_run *run, int counted, int pool, uint64_t current, uint64_t peak, uint64_t taken)
{
    memtrace_statistics statistics = statistics_of(run);
    const memtrace_counter *counter = &statistics.counters[counted][pool];
    assert_int_equal(counter->current, current);
    assert_int_equal(counter->peak, peak);
    assert_int_equal(counter->taken, taken);
    assert_int_equal(counter->given, taken - current);
}

static void statistics_are_those_of_pytorch(void **state)
{
    (void)state;
    memtrace_run *run = open_torch("sim:t4");
    uint64_t small = take(run, 1000, "Mine"), large = take(run, 3 * MIB, "Mine"), huge = take(run, 80 * MIB, "Mine");
    assert_counter(run, MEMTRACE_COUNT_BLOCKS, MEMTRACE_SMALL_POOL, 1, 1, 1);
    assert_counter(run, MEMTRACE_COUNT_REQUESTED_BYTES, MEMTRACE_SMALL_POOL, 1000, 1000, 1000);
    assert_counter(run, MEMTRACE_COUNT_ALLOCATED_BYTES, MEMTRACE_BOTH_POOLS, 83 * MIB + 1024, 83 * MIB + 1024,
                   83 * MIB + 1024);
    assert_counter(run, MEMTRACE_COUNT_RESERVED_BYTES, MEMTRACE_LARGE_POOL, 100 * MIB, 100 * MIB, 100 * MIB);
    assert_counter(run, MEMTRACE_COUNT_SPLIT_BYTES, MEMTRACE_LARGE_POOL, 17 * MIB, 17 * MIB, 17 * MIB);
    assert_counter(run, MEMTRACE_COUNT_SPLIT_BLOCKS, MEMTRACE_BOTH_POOLS, 2, 2, 2);
    assert_counter(run, MEMTRACE_COUNT_OVERSIZE_BLOCKS, MEMTRACE_BOTH_POOLS, 1, 1, 1);
    assert_counter(run, MEMTRACE_COUNT_OVERSIZE_SEGMENTS, MEMTRACE_BOTH_POOLS, 1, 1, 1);
    assert_counter(run, MEMTRACE_COUNT_SEGMENTS, MEMTRACE_BOTH_POOLS, 3, 3, 3);
    assert_ok(memtrace_give(run, small));
    assert_ok(memtrace_give(run, large));
    assert_ok(memtrace_give(run, huge));
    assert_int_equal(statistics_of(run).largest_free_bytes, 80 * MIB);
    assert_int_equal(statistics_of(run).max_split_bytes, 64 * MIB);
    assert_ok(memtrace_release_cached(run));
    assert_counter(run, MEMTRACE_COUNT_RESERVED_BYTES, MEMTRACE_BOTH_POOLS, 0, 102 * MIB, 102 * MIB);
    assert_counter(run, MEMTRACE_COUNT_SPLIT_BLOCKS, MEMTRACE_BOTH_POOLS, 0, 2, 2);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

/* The first fields are an older header's; the counters have the same numbers. */
static void old_and_new_statistics_agree(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    take(run, 5 * MIB + 1, "Mine");
    assert_ok(memtrace_give(run, take(run, MIB, "Mine")));
    memtrace_statistics statistics = statistics_of(run);
    const memtrace_counter(*counters)[MEMTRACE_POOLS] = statistics.counters;
    assert_int_equal(statistics.requested_bytes, counters[MEMTRACE_COUNT_REQUESTED_BYTES][MEMTRACE_BOTH_POOLS].current);
    assert_int_equal(statistics.allocated_bytes, counters[MEMTRACE_COUNT_ALLOCATED_BYTES][MEMTRACE_BOTH_POOLS].current);
    assert_int_equal(statistics.reserved_bytes, counters[MEMTRACE_COUNT_RESERVED_BYTES][MEMTRACE_BOTH_POOLS].current);
    assert_int_equal(statistics.peak_requested_bytes, 6 * MIB + 1);
    assert_int_equal(statistics.peak_requested_bytes,
                     counters[MEMTRACE_COUNT_REQUESTED_BYTES][MEMTRACE_BOTH_POOLS].peak);
    assert_int_equal(statistics.blocks, counters[MEMTRACE_COUNT_BLOCKS][MEMTRACE_BOTH_POOLS].current);
    assert_int_equal(statistics.taken, counters[MEMTRACE_COUNT_BLOCKS][MEMTRACE_BOTH_POOLS].taken);
    assert_true(statistics.max_split_bytes == UINT64_MAX);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void peaks_begin_again_when_they_are_reset(void **state)
{
    (void)state;
    memtrace_run *run = open_torch("sim");
    take(run, 2 * MIB, "Mine");
    assert_ok(memtrace_give(run, take(run, 30 * MIB, "Mine")));
    assert_ok(memtrace_reset_peaks(run));
    assert_int_equal(statistics_of(run).peak_allocated_bytes, 2 * MIB);
    assert_counter(run, MEMTRACE_COUNT_ALLOCATED_BYTES, MEMTRACE_BOTH_POOLS, 2 * MIB, 2 * MIB, 32 * MIB);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_ALLOCATED);
    assert_int_equal(peak->bytes, 32 * MIB);
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

static void no_more_is_taken_than_the_fraction_that_is_set(void **state)
{
    (void)state;
    memtrace_run *run = open_torch("sim:100MiB");
    uint64_t address, half = 0;
    assert_ok(memtrace_set_memory_fraction(run, 0.5));
    assert_fails(memtrace_take(run, 60 * MIB, 0, NULL, &address), MEMTRACE_OUT_OF_MEMORY, "50.00 MiB");
    assert_ok(memtrace_take(run, 50 * MIB, 0, NULL, &half));
    assert_int_equal(statistics_of(run).refused, 1);
    assert_int_equal(statistics_of(run).retries, 1);
    assert_ok(memtrace_set_memory_fraction(run, 1));
    assert_ok(memtrace_take(run, 40 * MIB, 0, NULL, &address));
    assert_fails(memtrace_set_memory_fraction(run, 0), MEMTRACE_USAGE, "0");
    assert_fails(memtrace_set_memory_fraction(run, 1.5), MEMTRACE_USAGE, "1.5");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void a_block_is_found_by_any_address_of_it(void **state)
{
    (void)state;
    memtrace_run *run = open_torch("sim");
    memtrace_block block = {.size = sizeof block};
    uint64_t address;
    assert_ok(memtrace_take(run, 5000, 3, NULL, &address));
    for (uint64_t at = address; at < address + 5120; at += 1279) {
        assert_ok(memtrace_find(run, at, &block));
        assert_true(block.address == address);
        assert_int_equal(block.requested_bytes, 5000);
        assert_int_equal(block.allocated_bytes, 5120);
        assert_int_equal(block.stream, 3);
    }
    assert_fails(memtrace_find(run, address + 5120, &block), MEMTRACE_USAGE, "no live block");
    block.size = 0;
    assert_fails(memtrace_find(run, address, &block), MEMTRACE_USAGE, "memtrace_block");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void a_simulated_card_has_its_memory_and_figures(void **state)
{
    (void)state;
    memtrace_run *run = open_torch("sim:t4");
    memtrace_card card = {.size = sizeof card};
    uint64_t free_bytes, total_bytes, free_then;
    assert_ok(memtrace_run_card(run, &card));
    assert_string_equal(card.name, "t4");
    assert_string_equal(card.product, "Tesla T4");
    assert_int_equal(card.capability, 75);
    assert_int_equal(card.multiprocessors, 40);
    assert_int_equal(card.threads_per_multiprocessor, 1024);
    assert_int_equal(card.matmul_workspace_bytes, 8519680);
    assert_ok(memtrace_memory_info(run, &free_bytes, &total_bytes));
    assert_int_equal(total_bytes, card.memory_bytes);
    assert_int_equal(free_bytes, card.memory_bytes - card.context_bytes);
    take(run, 3 * MIB, "Mine");
    assert_ok(memtrace_memory_info(run, &free_then, &total_bytes));
    assert_int_equal(free_bytes - free_then, 20 * MIB);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void a_run_without_a_device_has_no_allocator_to_ask(void **state)
{
    (void)state;
    memtrace_run *run = open_run(NULL);
    memtrace_statistics statistics = {.size = sizeof statistics};
    memtrace_block block = {.size = sizeof block};
    memtrace_card card = {.size = sizeof card};
    uint64_t bytes;
    assert_fails(memtrace_run_statistics(run, &statistics), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_reset_peaks(run), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_set_memory_fraction(run, 0.5), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_memory_info(run, &bytes, &bytes), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_run_card(run, &card), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_find(run, 4096, &block), MEMTRACE_USAGE, "without a device");
    assert_fails(memtrace_relabel(run, 4096, NULL), MEMTRACE_USAGE, "without a device");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

enum { TELLERS = 4, TOLD_TIMES = 20000 };

/* A block that one thread takes and gives back while others say more of it. */
struct contested {
    memtrace_run *run;
    uint64_t address;
    atomic_int ended; /* tellers */
};

static void *say_more(void *given)
{
    struct contested *contested = given;
    const memtrace_label label = label_of("Mine");
    for (int i = 0; i < TOLD_TIMES; i++) {
        const memtrace_status relabelled = memtrace_relabel(contested->run, contested->address, &label);
        const memtrace_status used = memtrace_use_on(contested->run, contested->address, 1);
        assert_true(relabelled == MEMTRACE_OK || relabelled == MEMTRACE_USAGE);
        assert_true(used == MEMTRACE_OK || used == MEMTRACE_USAGE);
    }
    atomic_fetch_add(&contested->ended, 1);
    return NULL;
}

static void a_block_may_be_given_back_while_others_say_more_of_it(void **state)
{
    (void)state;
    struct contested contested = {.run = open_run("sim")};
    pthread_t threads[TELLERS];
    contested.address = take(contested.run, MIB, "Mine");
    for (int i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_more, &contested), 0);
    while (atomic_load(&contested.ended) < TELLERS) {
        assert_ok(memtrace_give(contested.run, contested.address));
        assert_ok(memtrace_give(contested.run, take(contested.run, 64, "Other"))); /* the first is not out meanwhile */
        assert_int_equal(take(contested.run, MIB, "Mine"), contested.address);
    }
    for (int i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(memtrace_run_close(contested.run, MEMTRACE_RUN_DONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(statistics_are_those_of_pytorch),
        LIBRARY_TEST(old_and_new_statistics_agree),
        LIBRARY_TEST(peaks_begin_again_when_they_are_reset),
        LIBRARY_TEST(no_more_is_taken_than_the_fraction_that_is_set),
        LIBRARY_TEST(a_block_is_found_by_any_address_of_it),
        LIBRARY_TEST(a_simulated_card_has_its_memory_and_figures),
        LIBRARY_TEST(a_run_without_a_device_has_no_allocator_to_ask),
        LIBRARY_TEST(a_block_may_be_given_back_while_others_say_more_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
