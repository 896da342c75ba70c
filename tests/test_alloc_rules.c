/* The allocator by example: each rule of the policies. test_alloc_promises.c has the guarantees of both. */
#include "alloc_examples.h"

/* Expects the segment and the block of a new allocator for one request. */
static void expect_first(const char *settings, uint64_t bytes, uint64_t segment_bytes, uint64_t block_bytes)
{
    struct rig rig;
    rig_open(&rig, settings, UINT64_C(8) << 30);
    take(&rig, bytes);
    assert_int_equal(reserved(&rig), segment_bytes);
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->block_bytes, block_bytes);
    rig_close(&rig);
}

static void torch_sizes_segments_and_blocks_as_pytorch_does(void **state)
{
    (void)state;
    expect_first("policy=torch", 1, MIB(2), 512);
    expect_first("policy=torch", 513, MIB(2), 1024);
    expect_first("policy=torch", MIB(1), MIB(2), MIB(1));
    expect_first("policy=torch", MIB(1) + 1, MIB(20), MIB(1) + 512);
    expect_first("policy=torch", MIB(10) - 512, MIB(20), MIB(10) - 512);
    expect_first("policy=torch", MIB(10) - 1, MIB(10), MIB(10)); /* the rounded size counts */
    expect_first("policy=torch", MIB(10) + 1, MIB(12), MIB(10) + 512);
    expect_first("policy=torch", MIB(11), MIB(12), MIB(12)); /* 1 MiB is left: too little to cut off */
    expect_first("policy=torch", MIB(11) - 512, MIB(12), MIB(11) - 512);
    expect_first("policy=torch", 102400000, 102760448, 102760448);
}

static void torch_rounds_to_steps_between_powers_of_two(void **state)
{
    (void)state;
    const char *settings = "policy=torch,roundup_power2_divisions=4";
    expect_first(settings, 1200, MIB(2), 1536);
    expect_first(settings, 2048, MIB(2), 2048);
    expect_first(settings, 2049, MIB(2), 2560);
    expect_first(settings, KIB(1200), MIB(20), KIB(1280));
    expect_first(settings, MIB(40), MIB(40), MIB(40));
    expect_first(settings, MIB(41), MIB(48), MIB(48));
}

static uint64_t segments(const struct rig *rig)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(rig->alloc, &stats);
    return stats.segments;
}

static void expect_last(const struct rig *rig, mt_event_kind kind, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(last_event(rig, kind)->offset, offset);
    assert_int_equal(last_event(rig, kind)->block_bytes, bytes);
}

static void tight_grows_a_range_by_the_pages_that_it_lacks(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", UINT64_C(8) << 30);
    take(&rig, 1);
    assert_int_equal(reserved(&rig), MIB(2));
    take(&rig, KIB(64)); /* small, too */
    assert_int_equal(reserved(&rig), MIB(2));
    take(&rig, KIB(64) + 1);
    assert_int_equal(reserved(&rig), MIB(4));
    take(&rig, MIB(25)); /* nearly 2 MiB of it are in the page that is there */
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(2), MIB(24));
    take(&rig, MIB(100));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(26), MIB(100));
    assert_int_equal(reserved(&rig), MIB(128));
    assert_int_equal(segments(&rig), 2);
    take_on(&rig, MIB(1), 7);
    assert_int_equal(segments(&rig), 3);
    rig_close(&rig);
}

/* The labels of tests/recording.h's interner begin at 1, in category 0, which is Param: their blocks are long-lived. */
static struct mt_block *take_fleeting(struct rig *rig, uint64_t bytes)
{
    struct mt_block *block;
    mt_label_id label = (mt_label_id)MT_CATEGORY_EINSUM << MT_LABEL_NUMBER_BITS | 2;
    assert_int_equal(mt_alloc_take(rig->alloc, bytes, 0, label, 0, &block), MT_OK);
    return block;
}

static void what_lasts_lies_beside_what_lasts(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", UINT64_C(8) << 30);
    take(&rig, MIB(4));
    struct mt_block *between = take(&rig, MIB(20));
    take_fleeting(&rig, MIB(4));
    give(&rig, between);
    take(&rig, MIB(2));
    expect_last(&rig, MT_EVENT_ALLOC, MIB(4), MIB(2));
    take_fleeting(&rig, MIB(3));
    expect_last(&rig, MT_EVENT_ALLOC, MIB(21), MIB(3));
    between = take(&rig, MIB(14));
    give(&rig, take_fleeting(&rig, MIB(1))); /* the last of the free */
    expect_last(&rig, MT_EVENT_ALLOC, MIB(20), MIB(1));
    assert_int_equal(reserved(&rig), MIB(28));
    rig_close(&rig);
}

static void between_equals_large_blocks_lie_at_the_end(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", UINT64_C(8) << 30);
    take(&rig, MIB(4));
    struct mt_block *between = take(&rig, MIB(100));
    take(&rig, MIB(4));
    give(&rig, between);
    take(&rig, MIB(32));
    expect_last(&rig, MT_EVENT_ALLOC, MIB(72), MIB(32));
    take(&rig, MIB(32) - 512);
    expect_last(&rig, MT_EVENT_ALLOC, MIB(4), MIB(32) - 512);
    rig_close(&rig);
}

/* The second segment is in a chunk below the first one's (address_space.h). */
static void best_fit_goes_by_bytes_then_address(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", UINT64_C(8) << 30);
    struct mt_block *blocks[20];
    for (int i = 0; i < 20; i++) /* two segments of ten */
        blocks[i] = take(&rig, MIB(2));
    mt_addr second = mt_block_address(blocks[2]), third = mt_block_address(blocks[4]);
    give(&rig, blocks[4]);
    give(&rig, blocks[2]);
    give(&rig, blocks[14]);
    give(&rig, blocks[6]);
    give(&rig, blocks[7]);
    take(&rig, MIB(2));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->segment, 1);
    assert_int_equal(mt_block_address(take(&rig, MIB(2))), second);
    assert_int_equal(mt_block_address(take(&rig, MIB(2))), third);
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->segment, 0);
    take(&rig, MIB(3));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->offset, MIB(12));
    rig_close(&rig);
}

static void freed_neighbours_merge_at_once(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int p = 0; p < 2; p++)
        for (int o = 0; o < 6; o++) {
            struct rig rig;
            rig_open(&rig, policies[p], UINT64_C(8) << 30);
            struct mt_block *blocks[3];
            for (int i = 0; i < 3; i++)
                blocks[i] = take(&rig, KIB(32));
            mt_addr begin = mt_block_address(blocks[0]);
            for (int i = 0; i < 3; i++)
                give(&rig, blocks[orders[o][i]]);
            struct mt_alloc_stats stats;
            mt_alloc_stats(rig.alloc, &stats);
            assert_int_equal(stats.largest_free_bytes, MIB(2));
            assert_int_equal(mt_block_address(take(&rig, KIB(64))), begin);
            rig_close(&rig);
        }
}

static void streams_do_not_share_blocks(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        rig_open(&rig, policies[p], UINT64_C(8) << 30);
        struct mt_block *block = take_on(&rig, MIB(100), 3);
        mt_addr address = mt_block_address(block);
        give(&rig, block);
        assert_int_not_equal(mt_block_address(take_on(&rig, MIB(100), 2)), address);
        assert_int_equal(mt_block_address(take_on(&rig, MIB(100), 3)), address);
        assert_int_equal(reserved(&rig), MIB(200));
        rig_close(&rig);
    }
}

static void oversize_blocks_serve_only_close_requests(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch,max_split=40MiB", UINT64_C(8) << 30);
    give(&rig, take(&rig, MIB(80)));
    take(&rig, MIB(30)); /* not from an oversize block */
    assert_int_equal(reserved(&rig), MIB(110));
    take(&rig, MIB(60)); /* would waste 20 MiB of it */
    assert_int_equal(reserved(&rig), MIB(170));
    take(&rig, MIB(60) + 512); /* wastes less: taken whole */
    assert_int_equal(reserved(&rig), MIB(170));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->block_bytes, MIB(80));
    rig_close(&rig);
}

static const char *const expandable = "policy=torch,expandable_segments=on";

static void expandable_segments_grow_by_the_units_of_pytorch(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, expandable, UINT64_C(8) << 30);
    take(&rig, 1);
    assert_int_equal(reserved(&rig), MIB(2));
    take(&rig, MIB(2)); /* small ones in ranges of their own */
    assert_int_equal(reserved(&rig), MIB(2) + MIB(20));
    take(&rig, MIB(17));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->offset, MIB(2));
    assert_int_equal(reserved(&rig), MIB(2) + MIB(20));
    take(&rig, MIB(2)); /* 1 MiB is left there, and joins what is mapped */
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(20), MIB(20));
    expect_last(&rig, MT_EVENT_ALLOC, MIB(19), MIB(2));
    take(&rig, MIB(50));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(40), MIB(40));
    assert_int_equal(segments(&rig), 2);
    rig_close(&rig);
}

static void expandable_segments_split_every_rest_and_grow_last(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, expandable, UINT64_C(8) << 30);
    struct mt_block *first = take(&rig, MIB(3));
    take(&rig, MIB(15));
    give(&rig, first);
    take(&rig, MIB(2) + 512); /* both 3 and, at the end, 2 MiB are free; the rest of less than 1 MiB is split off */
    expect_last(&rig, MT_EVENT_ALLOC, 0, MIB(2) + 512);
    take(&rig, MIB(1) - 512 + 512 * 2); /* not from the first: it has 1 MiB - 512 left */
    expect_last(&rig, MT_EVENT_ALLOC, MIB(18), MIB(1) + 512);
    rig_close(&rig);
}

/* The free block at the range's end fits better, but could grow; PyTorch keeps it for requests that need that. */
static void expandable_segments_spare_the_block_that_can_grow(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, expandable, UINT64_C(8) << 30);
    struct mt_block *first = take(&rig, MIB(6));
    take(&rig, MIB(10)); /* 4 MiB are free behind it */
    give(&rig, first);
    take(&rig, MIB(3));
    expect_last(&rig, MT_EVENT_ALLOC, 0, MIB(3));
    rig_close(&rig);
}

static void expandable_segments_give_back_whole_units(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, expandable, MIB(200));
    struct mt_block *first = take(&rig, MIB(70));
    take(&rig, MIB(1) + 512);
    give(&rig, first);
    mt_alloc_release_cached(rig.alloc);
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, 0, MIB(60));
    assert_int_equal(reserved(&rig), MIB(20));
    rig_close(&rig);
}

static void refusal_costs_one_oversize_segment_before_all_idle_ones(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch,max_split=40MiB", MIB(200));
    struct mt_block *small = take(&rig, MIB(30)), *middle = take(&rig, MIB(50)), *large = take(&rig, MIB(100));
    give(&rig, small);
    give(&rig, middle);
    give(&rig, large);
    take(&rig, MIB(70)); /* of 200 MiB, 180 are reserved; the segment of 100 wastes too much, and is released */
    assert_int_equal(last_event(&rig, MT_EVENT_SEGMENT_UNMAP)->block_bytes, MIB(100));
    assert_int_equal(reserved(&rig), MIB(150));
    take(&rig, MIB(120)); /* none is large enough and 50 MiB do not suffice: all idle ones are released */
    assert_int_equal(reserved(&rig), MIB(190));
    rig_close(&rig);
}

static void old_idle_segments_go_above_the_threshold(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch,gc_threshold=0.5", MIB(200));
    struct mt_block *old = take(&rig, MIB(40)), *young = take(&rig, MIB(42)), *used = take(&rig, MIB(44));
    give(&rig, old);
    for (int i = 0; i < 10; i++)
        give(&rig, take(&rig, MIB(30))); /* from the old one, which is split only while the block is out */
    give(&rig, young);
    for (int i = 0; i < 10; i++)
        give(&rig, take(&rig, MIB(30)));
    take(&rig, MIB(46)); /* 126 MiB are above half: the one that has waited longer than the average is released */
    assert_int_equal(last_event(&rig, MT_EVENT_SEGMENT_UNMAP)->block_bytes, MIB(42));
    assert_int_equal(reserved(&rig), MIB(130));
    give(&rig, used);
    rig_close(&rig);
}

static void pages_in_the_middle_go_when_the_device_refuses(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *block;
    rig_open(&rig, "policy=tight", MIB(100));
    take(&rig, MIB(30));
    block = take(&rig, MIB(30));
    take(&rig, MIB(30));
    give(&rig, block);
    take_on(&rig, MIB(20), 1); /* 10 MiB are left: as many pages are released as are missing */
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, MIB(40), MIB(20));
    assert_int_equal(reserved(&rig), MIB(90));
    assert_int_equal(mt_alloc_take(rig.alloc, MIB(30), 0, 1, 0, &block), MT_OUT_OF_MEMORY);
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, MIB(30), MIB(10)); /* before it is refused, the rest */
    assert_int_equal(reserved(&rig), MIB(80));
    block = take(&rig, MIB(20));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(30), MIB(20)); /* the gap is filled */
    expect_last(&rig, MT_EVENT_ALLOC, MIB(30), MIB(20));
    assert_int_equal(mt_alloc_check(rig.alloc), MT_OK);
    assert_int_equal(segments(&rig), 2);
    rig_close(&rig);
}

static void memory_comes_where_the_fewest_pages_are_missing(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *blocks[7];
    rig_open(&rig, "policy=tight", UINT64_C(8) << 30);
    for (int i = 0; i < 7; i++)
        blocks[i] = take(&rig, MIB(10));
    give(&rig, blocks[1]);
    give(&rig, blocks[3]);
    mt_alloc_release_cached(rig.alloc); /* gaps at 10 and 30 */
    assert_int_equal(reserved(&rig), MIB(50));
    take(&rig, MIB(4));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(10), MIB(4)); /* the first of two equal places */
    give(&rig, blocks[4]);                                    /* free at 40, next to the gap at 30 */
    give(&rig, blocks[6]);                                    /* free at 60, next to the end */
    take(&rig, MIB(15));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(70), MIB(5) + MIB(1)); /* 10 would be missing at 30 */
    assert_int_equal(segments(&rig), 1);
    rig_close(&rig);
}

static void a_range_ends_with_its_last_page(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=tight", UINT64_C(8) << 30);
    struct mt_block *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = take(&rig, MIB(10));
    give(&rig, blocks[1]);
    mt_alloc_release_cached(rig.alloc);
    give(&rig, blocks[0]);
    give(&rig, blocks[2]);
    assert_int_equal(rig.fake.open_ranges, 1);
    mt_alloc_release_cached(rig.alloc);
    assert_int_equal(rig.fake.open_ranges, 0);
    assert_int_equal(reserved(&rig), 0);
    assert_int_equal(segments(&rig), 0);
    take(&rig, MIB(10));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->segment, 1);
    rig_close(&rig);
}

static void without_ranges_each_request_that_nothing_serves_is_a_segment(void **state)
{
    (void)state;
    struct mt_device_table table = fake_table;
    table.range_open = NULL;
    struct rig rig;
    rig_open(&rig, "policy=tight", MIB(100));
    rig.fake.device.table = &table;
    give(&rig, take(&rig, MIB(25)));
    assert_int_equal(reserved(&rig), MIB(26));
    take_on(&rig, MIB(80), 1); /* the idle segment of another stream is released */
    assert_int_equal(reserved(&rig), MIB(80));
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, 0, MIB(26));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_sizes_segments_and_blocks_as_pytorch_does),
        cmocka_unit_test(torch_rounds_to_steps_between_powers_of_two),
        cmocka_unit_test(tight_grows_a_range_by_the_pages_that_it_lacks),
        cmocka_unit_test(what_lasts_lies_beside_what_lasts),
        cmocka_unit_test(between_equals_large_blocks_lie_at_the_end),
        cmocka_unit_test(best_fit_goes_by_bytes_then_address),
        cmocka_unit_test(freed_neighbours_merge_at_once),
        cmocka_unit_test(streams_do_not_share_blocks),
        cmocka_unit_test(oversize_blocks_serve_only_close_requests),
        cmocka_unit_test(expandable_segments_grow_by_the_units_of_pytorch),
        cmocka_unit_test(expandable_segments_split_every_rest_and_grow_last),
        cmocka_unit_test(expandable_segments_spare_the_block_that_can_grow),
        cmocka_unit_test(expandable_segments_give_back_whole_units),
        cmocka_unit_test(refusal_costs_one_oversize_segment_before_all_idle_ones),
        cmocka_unit_test(old_idle_segments_go_above_the_threshold),
        cmocka_unit_test(pages_in_the_middle_go_when_the_device_refuses),
        cmocka_unit_test(memory_comes_where_the_fewest_pages_are_missing),
        cmocka_unit_test(a_range_ends_with_its_last_page),
        cmocka_unit_test(without_ranges_each_request_that_nothing_serves_is_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
