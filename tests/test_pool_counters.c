/* The counters by pool, as torch.cuda.memory_stats shows them: by example, and against what is seen between
 * operations. */
#include "alloc_examples.h"
#include "seed.h"

#include <stdlib.h>

static struct mt_pool_counters counters_of(struct rig *rig)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(rig->alloc, &stats);
    return stats.pools;
}

static void assert_counter(struct rig *rig, mt_counted counted, int row, uint64_t now, uint64_t peak, uint64_t total)
{
    struct mt_pool_counters counters = counters_of(rig);
    assert_int_equal(counters.of[counted][row].now, now);
    assert_int_equal(counters.of[counted][row].peak, peak);
    assert_int_equal(counters.of[counted][row].total, total);
}

static void small_and_large_blocks_are_counted_apart_and_together(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", MIB(100));
    struct mt_block *small = take(&rig, 1000), *large = take(&rig, MIB(3));
    assert_counter(&rig, MT_COUNTED_BLOCKS, MT_POOL_SMALL, 1, 1, 1);
    assert_counter(&rig, MT_COUNTED_REQUESTED_BYTES, MT_POOL_SMALL, 1000, 1000, 1000);
    assert_counter(&rig, MT_COUNTED_ALLOCATED_BYTES, MT_POOL_SMALL, 1024, 1024, 1024);
    assert_counter(&rig, MT_COUNTED_RESERVED_BYTES, MT_POOL_SMALL, MIB(2), MIB(2), MIB(2));
    assert_counter(&rig, MT_COUNTED_RESERVED_BYTES, MT_POOL_LARGE, MIB(20), MIB(20), MIB(20));
    assert_counter(&rig, MT_COUNTED_SEGMENTS, MT_BOTH_POOLS, 2, 2, 2);
    give(&rig, small);
    give(&rig, large);
    give(&rig, take(&rig, MIB(5)));
    assert_counter(&rig, MT_COUNTED_BLOCKS, MT_POOL_LARGE, 0, 1, 2);
    assert_counter(&rig, MT_COUNTED_BLOCKS, MT_BOTH_POOLS, 0, 2, 3);
    assert_counter(&rig, MT_COUNTED_ALLOCATED_BYTES, MT_BOTH_POOLS, 0, MIB(5), MIB(8) + 1024);
    mt_alloc_release_cached(rig.alloc);
    assert_counter(&rig, MT_COUNTED_RESERVED_BYTES, MT_BOTH_POOLS, 0, MIB(22), MIB(22));
    assert_counter(&rig, MT_COUNTED_SEGMENTS, MT_POOL_LARGE, 0, 1, 1);
    rig_close(&rig);
}

/* A segment of 20 MiB:  A 3 | B 4 | rest 13.  The free parts count as split while any block is in the segment. */
static void free_parts_beside_blocks_are_split(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", MIB(100));
    struct mt_block *a = take(&rig, MIB(3)), *b = take(&rig, MIB(4));
    assert_counter(&rig, MT_COUNTED_SPLIT_BYTES, MT_POOL_LARGE, MIB(13), MIB(17), MIB(17));
    assert_counter(&rig, MT_COUNTED_SPLIT_BLOCKS, MT_POOL_LARGE, 1, 1, 1);
    give(&rig, a);
    assert_counter(&rig, MT_COUNTED_SPLIT_BYTES, MT_POOL_LARGE, MIB(16), MIB(17), MIB(20));
    assert_counter(&rig, MT_COUNTED_SPLIT_BLOCKS, MT_POOL_LARGE, 2, 2, 2);
    a = take(&rig, MIB(3));
    assert_counter(&rig, MT_COUNTED_SPLIT_BLOCKS, MT_BOTH_POOLS, 1, 2, 2);
    give(&rig, b);
    assert_counter(&rig, MT_COUNTED_SPLIT_BYTES, MT_BOTH_POOLS, MIB(17), MIB(17), MIB(24));
    give(&rig, a);
    assert_counter(&rig, MT_COUNTED_SPLIT_BYTES, MT_BOTH_POOLS, 0, MIB(17), MIB(24));
    assert_counter(&rig, MT_COUNTED_SPLIT_BLOCKS, MT_BOTH_POOLS, 0, 2, 2);
    rig_close(&rig);
}

static void oversize_blocks_and_segments_are_those_that_are_never_split(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch,max_split=32MiB", MIB(200));
    struct mt_block *block = take(&rig, MIB(40));
    give(&rig, take(&rig, MIB(24)));
    assert_counter(&rig, MT_COUNTED_OVERSIZE_BLOCKS, MT_BOTH_POOLS, 1, 1, 1);
    assert_counter(&rig, MT_COUNTED_OVERSIZE_SEGMENTS, MT_BOTH_POOLS, 1, 1, 1);
    give(&rig, block);
    mt_alloc_release_cached(rig.alloc);
    assert_counter(&rig, MT_COUNTED_OVERSIZE_BLOCKS, MT_BOTH_POOLS, 0, 1, 1);
    assert_counter(&rig, MT_COUNTED_OVERSIZE_SEGMENTS, MT_BOTH_POOLS, 0, 1, 1);
    rig_close(&rig);
}

static void a_request_that_empties_the_cache_is_a_retry(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=torch", "policy=tight"};
    struct mt_device_table table = fake_table;
    table.range_open = NULL;
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        struct mt_alloc_stats stats;
        struct mt_block *block;
        rig_open(&rig, policies[p], MIB(100));
        rig.fake.device.table = &table; /* without ranges: each request is a segment */
        give(&rig, take(&rig, MIB(60)));
        give(&rig, take(&rig, MIB(80)));
        mt_alloc_stats(rig.alloc, &stats);
        assert_int_equal(stats.retries, 1);
        assert_int_equal(stats.ooms, 0);
        assert_int_equal(mt_alloc_take(rig.alloc, MIB(300), 0, 1, 0, &block), MT_OUT_OF_MEMORY);
        mt_alloc_stats(rig.alloc, &stats);
        assert_int_equal(stats.retries, 2);
        assert_int_equal(stats.ooms, 1);
        rig_close(&rig);
    }
}

static void peaks_begin_again_where_the_counters_are(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", MIB(100));
    struct mt_block *kept = take(&rig, MIB(12));
    give(&rig, take(&rig, MIB(30)));
    mt_alloc_reset_peaks(rig.alloc);
    assert_counter(&rig, MT_COUNTED_ALLOCATED_BYTES, MT_POOL_LARGE, MIB(12), MIB(12), MIB(42));
    assert_counter(&rig, MT_COUNTED_RESERVED_BYTES, MT_BOTH_POOLS, MIB(42), MIB(42), MIB(42));
    give(&rig, kept);
    rig_close(&rig);
}

enum { SLOTS = 60, OPERATIONS = 4000 };

static const mt_counted changed_at_once[] = {MT_COUNTED_BLOCKS,          MT_COUNTED_SPLIT_BLOCKS,
                                             MT_COUNTED_REQUESTED_BYTES, MT_COUNTED_ALLOCATED_BYTES,
                                             MT_COUNTED_SPLIT_BYTES,     MT_COUNTED_OVERSIZE_BLOCKS};

/* Follows the counters from one operation to the next, each of which changes these by one addition or subtraction. */
static void observe(struct rig *rig, struct mt_pool_counters *seen)
{
    const struct mt_pool_counters counters = counters_of(rig);
    for (size_t i = 0; i < sizeof changed_at_once / sizeof changed_at_once[0]; i++)
        for (int row = 0; row < MT_POOL_ROWS; row++) {
            const struct mt_counter *counter = &counters.of[changed_at_once[i]][row];
            struct mt_counter *known = &seen->of[changed_at_once[i]][row];
            known->total += counter->now > known->now ? counter->now - known->now : 0;
            known->peak = counter->now > known->peak ? counter->now : known->peak;
            known->now = counter->now;
            assert_int_equal(counter->total, known->total);
            assert_int_equal(counter->peak, known->peak);
        }
}

/* That they are true now is what mt_alloc_check derives from all blocks. */
static void peaks_and_totals_are_those_of_all_moments(void **state)
{
    (void)state;
    unsigned seed = (unsigned)take_seed();
    struct rig rig;
    struct mt_block *slots[SLOTS] = {NULL};
    struct mt_pool_counters seen = {0};
    rig_open(&rig, "policy=torch,max_split=64MiB", MIB(800));
    for (int i = 0; i < OPERATIONS; i++) {
        struct mt_block **slot = &slots[rand_r(&seed) % SLOTS];
        uint64_t most = rand_r(&seed) % 3 == 0 ? MIB(100) : rand_r(&seed) % 2 == 0 ? MIB(12) : 300000;
        if (*slot == NULL)
            (void)mt_alloc_take(rig.alloc, 1 + (uint64_t)rand_r(&seed) % most, 0, 1, 0, slot);
        else
            give(&rig, *slot), *slot = NULL;
        observe(&rig, &seen);
        if (i % 50 == 0)
            assert_int_equal(mt_alloc_check(rig.alloc), MT_OK);
    }
    for (int i = 0; i < SLOTS; i++)
        mt_alloc_give(rig.alloc, slots[i]);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_and_large_blocks_are_counted_apart_and_together),
        cmocka_unit_test(free_parts_beside_blocks_are_split),
        cmocka_unit_test(oversize_blocks_and_segments_are_those_that_are_never_split),
        cmocka_unit_test(a_request_that_empties_the_cache_is_a_retry),
        cmocka_unit_test(peaks_begin_again_where_the_counters_are),
        cmocka_unit_test(peaks_and_totals_are_those_of_all_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
