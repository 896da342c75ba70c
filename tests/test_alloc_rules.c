/* The allocator by example: each rule of the policies, out of memory, marks, and what create and destroy promise. */
#include "alloc_rig.h"
#include "event_shadow.h"

#include <inttypes.h>

#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)

static struct mt_block *take_on(struct rig *rig, uint64_t bytes, mt_stream stream)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(rig->alloc, bytes, stream, 1, 0, &block), MT_OK);
    return block;
}

static struct mt_block *take(struct rig *rig, uint64_t bytes)
{
    return take_on(rig, bytes, 0);
}

static void give(struct rig *rig, struct mt_block *block)
{
    mt_alloc_give(rig->alloc, block);
}

static const struct mt_event *last_event(const struct rig *rig, mt_event_kind kind)
{
    for (size_t i = rig->recording.count; i-- > 0;)
        if (rig->recording.events[i].kind == kind)
            return &rig->recording.events[i];
    return NULL;
}

static uint64_t reserved(const struct rig *rig)
{
    return rig->fake.device.reserved_bytes;
}

/* What a fresh allocator reserves, and hands out, for one request. */
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
    take(&rig, MIB(25)); /* of which the page that is there has nearly two */
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(2), MIB(24));
    take(&rig, MIB(100));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(26), MIB(100));
    assert_int_equal(reserved(&rig), MIB(128));
    assert_int_equal(segments(&rig), 2);
    take_on(&rig, MIB(1), 7);
    assert_int_equal(segments(&rig), 3);
    rig_close(&rig);
}

/* The labels of tests/recording.h's interner begin at 1, below any category: what they label lasts. */
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

static void best_fit_goes_by_bytes_then_segment_then_offset(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", UINT64_C(8) << 30);
    struct mt_block *blocks[20];
    for (int i = 0; i < 20; i++) /* two segments of ten */
        blocks[i] = take(&rig, MIB(2));
    mt_addr second = mt_block_address(blocks[2]), third = mt_block_address(blocks[4]);
    give(&rig, blocks[14]);
    give(&rig, blocks[4]);
    give(&rig, blocks[2]);
    give(&rig, blocks[6]);
    give(&rig, blocks[7]);
    assert_int_equal(mt_block_address(take(&rig, MIB(2))), second);
    assert_int_equal(mt_block_address(take(&rig, MIB(2))), third);
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->segment, 0);
    take(&rig, MIB(2));
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->segment, 1);
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

static void refusal_costs_one_oversize_segment_before_all_idle_ones(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch,max_split=40MiB", MIB(200));
    struct mt_block *small = take(&rig, MIB(30)), *middle = take(&rig, MIB(50)), *large = take(&rig, MIB(100));
    give(&rig, small);
    give(&rig, middle);
    give(&rig, large);
    take(&rig, MIB(70)); /* 180 of 200 MiB are reserved; 100 MiB is too far off and large enough to go */
    assert_int_equal(last_event(&rig, MT_EVENT_SEGMENT_UNMAP)->block_bytes, MIB(100));
    assert_int_equal(reserved(&rig), MIB(150));
    take(&rig, MIB(120)); /* none is large enough and the 50 do not suffice: in the end all idle ones go */
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
        give(&rig, take(&rig, MIB(30))); /* from the old one, which stays cut to size only while it is out */
    give(&rig, young);
    for (int i = 0; i < 10; i++)
        give(&rig, take(&rig, MIB(30)));
    take(&rig, MIB(46)); /* 126 MiB are above half: the one that has waited longer than the average goes */
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
    take_on(&rig, MIB(20), 1); /* 10 are left: as many pages go as are missing */
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, MIB(40), MIB(20));
    assert_int_equal(reserved(&rig), MIB(90));
    assert_int_equal(mt_alloc_take(rig.alloc, MIB(30), 0, 1, 0, &block), MT_OUT_OF_MEMORY);
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, MIB(30), MIB(10)); /* before it is refused, the rest */
    assert_int_equal(reserved(&rig), MIB(80));
    block = take(&rig, MIB(20));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(30), MIB(20)); /* the hole is filled */
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
    mt_alloc_release_cached(rig.alloc); /* holes at 10 and 30 */
    assert_int_equal(reserved(&rig), MIB(50));
    take(&rig, MIB(4));
    expect_last(&rig, MT_EVENT_SEGMENT_MAP, MIB(10), MIB(4)); /* of equals the first */
    give(&rig, blocks[4]);                                    /* free at 40, beside the hole at 30 */
    give(&rig, blocks[6]);                                    /* free at 60, beside the end */
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
    take_on(&rig, MIB(80), 1); /* the idle segment of another stream goes */
    assert_int_equal(reserved(&rig), MIB(80));
    expect_last(&rig, MT_EVENT_SEGMENT_UNMAP, 0, MIB(26));
    rig_close(&rig);
}

static void out_of_memory_is_an_ordinary_outcome(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    static const uint64_t too_much[] = {MIB(101), UINT64_C(1) << 40, UINT64_MAX};
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        rig_open(&rig, policies[p], MIB(100));
        struct mt_block *kept = take(&rig, MIB(30)), *block = kept;
        give(&rig, take(&rig, MIB(60)));
        for (size_t i = 0; i < sizeof too_much / sizeof too_much[0]; i++) {
            assert_int_equal(mt_alloc_take(rig.alloc, too_much[i], 0, 1, 7, &block), MT_OUT_OF_MEMORY);
            assert_null(block);
            const struct mt_event *event = &rig.recording.events[rig.recording.count - 1];
            assert_int_equal(event->kind, MT_EVENT_OOM);
            assert_true(event->requested_bytes == too_much[i]);
            assert_int_equal(event->label, 1);
            assert_int_equal(event->span, 7);
            struct mt_alloc_stats stats;
            mt_alloc_stats(rig.alloc, &stats);
            assert_true(stats.last_refusal.requested_bytes == too_much[i]);
            assert_int_equal(stats.last_refusal.label, 1);
            assert_int_equal(stats.last_refusal.span, 7);
            assert_int_equal(stats.last_refusal.live_bytes[MT_CATEGORY_PARAM], MIB(30));
            assert_int_equal(stats.last_refusal.released_bytes, i == 0 ? MIB(60) : 0);
            assert_int_equal(mt_alloc_check(rig.alloc), MT_OK);
        }
        assert_non_null(strstr(mt_last_error(), "30.00 MiB"));
        assert_non_null(strstr(mt_last_error(), "100.00 MiB"));
        assert_non_null(strstr(mt_last_error(), "fake"));
        take(&rig, MIB(20));
        give(&rig, kept);
        rig_close(&rig);
    }
}

static void nothing_cannot_be_asked_for(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", MIB(100));
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(rig.alloc, 0, 0, 1, 0, &block), MT_USAGE);
    mt_alloc_give(rig.alloc, NULL);
    assert_int_equal(rig.recording.count, 0);
    rig_close(&rig);
}

/* A block that is still out lies in memory to the end of what is told, though the device has all of it back. */
static void destroying_gives_every_segment_back_and_tells_of_those_without_a_block(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    static struct shadow shadow;
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        struct mt_block *blocks[5];
        rig_open(&rig, policies[p], UINT64_C(8) << 30);
        for (int i = 0; i < 5; i++)
            blocks[i] = take_on(&rig, MIB(60), (mt_stream)i);
        give(&rig, blocks[1]);
        give(&rig, blocks[3]);
        mt_alloc_destroy(rig.alloc);
        assert_int_equal(reserved(&rig), 0);
        shadow = (struct shadow){0};
        for (size_t i = 0; i < rig.recording.count; i++)
            shadow_apply(&shadow, &rig.recording.events[i]);
        assert_int_equal(shadow.contradictions, 0);
        assert_int_equal(shadow.allocated_bytes, 3 * MIB(60));
        assert_int_equal(shadow.reserved_bytes, 3 * MIB(60));
        recording_close(&rig.recording);
    }
}

static void statistics_are_kept_by_category_with_their_peaks(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", UINT64_C(8) << 30);
    struct mt_label norm = {.category = MT_CATEGORY_NORM, .op = "mean", .layer = -1};
    struct mt_label loss = {.category = MT_CATEGORY_LOSS, .op = "mean", .layer = -1};
    mt_label_id ids[] = {mt_alloc_intern_label(rig.alloc, &norm), mt_alloc_intern_label(rig.alloc, &loss)};
    struct mt_block *blocks[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(mt_alloc_take(rig.alloc, 1000, 0, ids[i == 2], 0, &blocks[i]), MT_OK);
    give(&rig, blocks[0]);
    give(&rig, blocks[2]);
    struct mt_alloc_stats stats;
    mt_alloc_stats(rig.alloc, &stats);
    const struct mt_alloc_count *counts = stats.category;
    assert_int_equal(counts[MT_CATEGORY_NORM].requested_bytes, 1000);
    assert_int_equal(counts[MT_CATEGORY_NORM].allocated_bytes, 1024);
    assert_int_equal(counts[MT_CATEGORY_NORM].peak_requested_bytes, 2000);
    assert_int_equal(counts[MT_CATEGORY_NORM].peak_allocated_bytes, 2048);
    assert_int_equal(counts[MT_CATEGORY_NORM].total_allocs, 2);
    assert_int_equal(counts[MT_CATEGORY_LOSS].blocks, 0);
    assert_int_equal(counts[MT_CATEGORY_LOSS].peak_requested_bytes, 1000);
    assert_int_equal(stats.all.peak_requested_bytes, 3000);
    assert_int_equal(stats.all.blocks, 1);
    assert_int_equal(stats.peak_reserved_bytes, MIB(2));
    rig_close(&rig);
}

static void marks_stand_in_order_among_the_rest(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "", MIB(100));
    mt_span_id span = mt_alloc_intern_span(rig.alloc, 0, "model");
    mt_alloc_mark(rig.alloc, MT_EVENT_STEP_BEGIN, 4, 0);
    take(&rig, 1);
    mt_alloc_mark(rig.alloc, MT_EVENT_SPAN_BEGIN, 0, span);
    assert_int_equal(mt_alloc_flush(rig.alloc), MT_OK);
    const struct mt_event *events = rig.recording.events;
    assert_int_equal(rig.recording.count, 4);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(events[i].sequence, i);
    assert_int_equal(events[0].kind, MT_EVENT_STEP_BEGIN);
    assert_int_equal(events[0].value, 4);
    assert_int_equal(events[3].kind, MT_EVENT_SPAN_BEGIN);
    assert_int_equal(events[3].span, span);
    rig_close(&rig);
}

/* As the clocks of two threads may: the device's is read by whoever calls. */
static void times_never_go_back_even_if_the_clock_does(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=tight", MIB(64));
    const uint64_t clock[] = {100, 40, 90, 130, 120};
    for (size_t i = 0; i < sizeof clock / sizeof clock[0]; i++) {
        rig.fake.device.reserve_count = clock[i]; /* what the fake's clock shows */
        mt_alloc_mark(rig.alloc, MT_EVENT_PHASE, i, 0);
    }
    const uint64_t told[] = {100, 100, 100, 130, 130};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_int_equal(rig.recording.events[i].time_ns, told[i]);
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
        cmocka_unit_test(best_fit_goes_by_bytes_then_segment_then_offset),
        cmocka_unit_test(freed_neighbours_merge_at_once),
        cmocka_unit_test(streams_do_not_share_blocks),
        cmocka_unit_test(oversize_blocks_serve_only_close_requests),
        cmocka_unit_test(refusal_costs_one_oversize_segment_before_all_idle_ones),
        cmocka_unit_test(old_idle_segments_go_above_the_threshold),
        cmocka_unit_test(pages_in_the_middle_go_when_the_device_refuses),
        cmocka_unit_test(memory_comes_where_the_fewest_pages_are_missing),
        cmocka_unit_test(a_range_ends_with_its_last_page),
        cmocka_unit_test(without_ranges_each_request_that_nothing_serves_is_a_segment),
        cmocka_unit_test(out_of_memory_is_an_ordinary_outcome),
        cmocka_unit_test(nothing_cannot_be_asked_for),
        cmocka_unit_test(destroying_gives_every_segment_back_and_tells_of_those_without_a_block),
        cmocka_unit_test(statistics_are_kept_by_category_with_their_peaks),
        cmocka_unit_test(marks_stand_in_order_among_the_rest),
        cmocka_unit_test(times_never_go_back_even_if_the_clock_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
