/* The allocator by example, with either policy: out of memory, statistics, marks, times, create and destroy. */
#include "alloc_examples.h"
#include "event_shadow.h"

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

static void the_stack_of_a_request_is_in_its_event_and_in_that_of_its_refusal(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *block, *none;
    const struct mt_alloc_request fits = {.bytes = MIB(3), .label = 1, .stack = 42};
    const struct mt_alloc_request refused = {.bytes = MIB(300), .label = 1, .stack = 43};
    rig_open(&rig, "", MIB(100));
    assert_int_equal(mt_alloc_serve(rig.alloc, &fits, &block), MT_OK);
    assert_int_equal(last_event(&rig, MT_EVENT_ALLOC)->stack, 42);
    assert_int_equal(mt_alloc_serve(rig.alloc, &refused, &none), MT_OUT_OF_MEMORY);
    assert_int_equal(last_event(&rig, MT_EVENT_OOM)->stack, 43);
    give(&rig, block);
    rig_close(&rig);
}

static void assert_found(struct rig *rig, mt_addr address, const struct mt_block *block, mt_stream stream)
{
    struct mt_block_view view;
    assert_true(mt_alloc_find(rig->alloc, address, &view));
    assert_true(view.address == mt_block_address(block));
    assert_int_equal(view.requested_bytes, mt_block_requested_bytes(block));
    assert_int_equal(view.allocated_bytes, 3072);
    assert_int_equal(view.stream, stream);
}

static void a_live_block_is_found_by_any_of_its_addresses(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        struct mt_block_view view;
        rig_open(&rig, policies[p], MIB(100));
        struct mt_block *first = take(&rig, 3000), *middle = take(&rig, 4000), *last = take_on(&rig, 3000, 5);
        const mt_addr gone = mt_block_address(middle);
        give(&rig, middle);
        assert_found(&rig, mt_block_address(first), first, 0);
        assert_found(&rig, mt_block_address(first) + 3071, first, 0);
        assert_found(&rig, mt_block_address(last) + 1, last, 5);
        assert_false(mt_alloc_find(rig.alloc, gone, &view));
        assert_false(mt_alloc_find(rig.alloc, 0, &view));
        assert_false(mt_alloc_find(rig.alloc, UINT64_MAX, &view));
        give(&rig, first);
        give(&rig, last);
        rig_close(&rig);
    }
}

/* The trace keeps the memory of a block that is still out, though the device gets all of it back. */
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

/* The clocks of two threads may differ, and each caller reads the device's clock in its own thread. */
static void times_never_go_back_even_if_the_clock_does(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=tight", MIB(64));
    const uint64_t clock[] = {100, 40, 90, 130, 120};
    for (size_t i = 0; i < sizeof clock / sizeof clock[0]; i++) {
        rig.fake.device.reserve_count = clock[i]; /* the fake's clock */
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
        cmocka_unit_test(out_of_memory_is_an_ordinary_outcome),
        cmocka_unit_test(nothing_cannot_be_asked_for),
        cmocka_unit_test(the_stack_of_a_request_is_in_its_event_and_in_that_of_its_refusal),
        cmocka_unit_test(a_live_block_is_found_by_any_of_its_addresses),
        cmocka_unit_test(destroying_gives_every_segment_back_and_tells_of_those_without_a_block),
        cmocka_unit_test(statistics_are_kept_by_category_with_their_peaks),
        cmocka_unit_test(marks_stand_in_order_among_the_rest),
        cmocka_unit_test(times_never_go_back_even_if_the_clock_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
