/* Events of the memory of other programs: examples. Random ones are in test_foreign_random.c. */
#include "recorder_fixture.h"

#include "trace/store/foreign.h"

/* A sink that keeps its events. */
struct list {
    struct mt_event events[32];
    int count, kernels;
};

static void list_emit(void *context, const struct mt_event *event)
{
    struct list *list = context;
    list->events[list->count++] = *event;
}

static void list_kernel(void *context, const struct mt_kernel *kernel)
{
    (void)kernel;
    ((struct list *)context)->kernels++;
}

static void expect_event(const struct list *list, int index, mt_event_kind kind, uint32_t segment, uint64_t offset,
                         uint64_t bytes)
{
    const struct mt_event *event = &list->events[index];
    assert_true(index < list->count);
    assert_int_equal(event->kind, kind);
    assert_int_equal(event->segment, segment);
    assert_int_equal(event->offset, offset);
    assert_int_equal(event->block_bytes, bytes);
}

static void an_allocation_without_an_allocator_is_segment_and_block(void **state)
{
    (void)state;
    struct list list = {0};
    const struct mt_sink sink = {.context = &list, .emit = list_emit};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    const struct mt_foreign_block block = {
        .address = 4096, .requested_bytes = 1000, .block_bytes = 1024, .label = 1, .stack = 7};
    mt_foreign_take(foreign, 5, &block);
    mt_foreign_give(foreign, 6, 4096);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.events[1].stack, 7);
    expect_event(&list, 0, MT_EVENT_SEGMENT_MAP, 0, 0, 1024);
    expect_event(&list, 1, MT_EVENT_ALLOC, 0, 0, 1024);
    expect_event(&list, 2, MT_EVENT_FREE, 0, 0, 1024);
    expect_event(&list, 3, MT_EVENT_SEGMENT_UNMAP, 0, 0, 1024);
    mt_foreign_destroy(foreign);
}

/* Two pieces hold one block; segments that only touch stay apart; what was all unmapped begins anew. */
static void a_reserved_range_is_one_segment_that_grows_and_shrinks(void **state)
{
    (void)state;
    struct list list = {0};
    const struct mt_sink sink = {.context = &list, .emit = list_emit};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    const struct mt_foreign_block block = {.address = 100, .requested_bytes = 180, .label = 1};
    assert_true(mt_foreign_reserve(foreign, 100, 1000, 7));
    mt_foreign_map(foreign, 1, 100, 100, 0);
    mt_foreign_map(foreign, 1, 200, 100, 0);
    mt_foreign_take(foreign, 2, &block);
    assert_false(mt_foreign_reserve(foreign, 250, 1000, 7)); /* it has memory */
    mt_foreign_give(foreign, 3, 100);
    mt_foreign_unmap(foreign, 4, 100, 100);
    mt_foreign_unmap(foreign, 4, 200, 100);
    mt_foreign_map(foreign, 5, 100, 100, 0);
    mt_foreign_map(foreign, 5, 1100, 100, 0);
    assert_int_equal(list.count, 8);
    expect_event(&list, 0, MT_EVENT_SEGMENT_MAP, 0, 0, 100);
    expect_event(&list, 1, MT_EVENT_SEGMENT_MAP, 0, 100, 100);
    expect_event(&list, 2, MT_EVENT_ALLOC, 0, 0, 180);
    expect_event(&list, 5, MT_EVENT_SEGMENT_UNMAP, 0, 100, 100);
    expect_event(&list, 6, MT_EVENT_SEGMENT_MAP, 1, 0, 100);
    expect_event(&list, 7, MT_EVENT_SEGMENT_MAP, 2, 0, 100);
    mt_foreign_destroy(foreign);
}

static void what_cannot_be_is_refused_and_counted(void **state)
{
    (void)state;
    struct list list = {0};
    const struct mt_sink sink = {.context = &list, .emit = list_emit};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    const struct mt_foreign_block empty = {.address = 4096, .label = 1},
                                  beyond = {.address = MT_FOREIGN_MOST_ADDRESS - 1, .block_bytes = 2, .label = 1},
                                  wraps = {.address = 4096, .requested_bytes = UINT64_MAX - 100, .label = 1};
    mt_foreign_take(foreign, 0, &empty);
    mt_foreign_take(foreign, 0, &beyond);
    mt_foreign_take(foreign, 0, &wraps);
    mt_foreign_map(foreign, 0, UINT64_MAX - 1, 4, 0);
    mt_foreign_unmap(foreign, 0, UINT64_MAX - 1, 4);
    mt_foreign_give(foreign, 0, UINT64_MAX);
    assert_false(mt_foreign_reserve(foreign, UINT64_MAX, 1, 0));
    assert_int_equal(mt_foreign_counts(foreign).refused, 5);
    assert_int_equal(mt_foreign_counts(foreign).unseen_gives, 1);
    assert_int_equal(list.count, 0);
    mt_foreign_destroy(foreign);
}

static void marks_keep_order_whatever_their_times(void **state)
{
    (void)state;
    static const mt_event_kind kinds[] = {MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_END, MT_EVENT_PHASE,
                                          MT_EVENT_STEP_END,   MT_EVENT_STEP_BEGIN, MT_EVENT_STEP_END};
    struct list list = {0};
    const struct mt_sink sink = {.context = &list, .emit = list_emit, .kernel = list_kernel};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    mt_foreign_step_end(foreign, 1);
    assert_int_equal(mt_foreign_step_begin(foreign, 10), 0);
    mt_foreign_span_begin(foreign, 20, 3);
    mt_foreign_span_end(foreign, 15, 3);
    mt_foreign_phase(foreign, 30, MT_PHASE_BACKWARD);
    assert_int_equal(mt_foreign_step_begin(foreign, 40), 1);
    assert_int_equal(mt_foreign_step(foreign), 1);
    mt_foreign_step_end(foreign, 50);
    assert_int_equal(mt_foreign_step(foreign), MT_NO_STEP);
    mt_foreign_kernel(foreign, &(struct mt_kernel){.name = "k"});
    assert_int_equal(list.count, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(list.events[i].kind, kinds[i]);
        assert_true(i == 0 || list.events[i].time_ns >= list.events[i - 1].time_ns);
    }
    assert_int_equal(list.events[2].time_ns, 20);
    assert_int_equal(list.events[5].value, 1);
    assert_int_equal(mt_foreign_counts(foreign).times_back, 1);
    assert_int_equal(mt_foreign_counts(foreign).unmatched_steps, 2);
    assert_int_equal(list.kernels, 1);
    mt_foreign_destroy(foreign);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_without_an_allocator_is_segment_and_block),
        cmocka_unit_test(a_reserved_range_is_one_segment_that_grows_and_shrinks),
        cmocka_unit_test(what_cannot_be_is_refused_and_counted),
        cmocka_unit_test(marks_keep_order_whatever_their_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
