/* What threads of a recorded program are in, by the ranges of NVTX, is what their blocks and kernels belong to; and it is
 * events that nest. */
#include "account_fixture.h"

static void a_block_belongs_to_the_ranges_of_its_thread(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "model");
    mt_account_enter(account, &main_thread, now_ns++, "layer");
    mt_account_enter(account, &other_thread, now_ns++, "loader");
    take(MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model.layer");
    mt_account_leave(account, &main_thread, now_ns++);
    take(2 * MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model");
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, 3 * MIB, 10);
    mt_account_take(account, &other_thread, &call);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "loader");
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &main_thread, now_ns++); /* one too many */
    take(4 * MIB, 10);
    assert_int_equal(last_label()->span, 0);
}

/* Their events are those of one thread, so that they nest, whatever another one does in between. */
static void ranges_are_events_of_one_thread(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "a");
    mt_account_enter(account, &other_thread, now_ns++, "b");
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &other_thread, now_ns++);
    assert_int_equal(recording.count, 2);
    assert_int_equal(recording.events[0].kind, MT_EVENT_SPAN_BEGIN);
    assert_int_equal(recording.events[1].kind, MT_EVENT_SPAN_END);
    assert_int_equal(recording.events[0].span, recording.events[1].span);
}

/* What comes after it would be part of them, and of their step. */
static void a_thread_that_ends_within_its_ranges_ends_them(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "step");
    mt_account_enter(account, &main_thread, now_ns++, "a");
    mt_account_enter(account, &main_thread, now_ns++, "b");
    mt_account_forget_thread(account, &main_thread, now_ns++);
    static const mt_event_kind kinds[] = {MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_BEGIN,
                                          MT_EVENT_SPAN_END,   MT_EVENT_SPAN_END,   MT_EVENT_STEP_END};
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < recording.count; i++)
        assert_int_equal(recording.events[i].kind, kinds[i]);
    assert_int_equal(recording.events[1].span, recording.events[4].span);
    mt_account_enter(account, &other_thread, now_ns++, "c");
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0] + 1);
}

static void ranges_of_a_name_are_steps_and_no_part_of_the_path(void **state)
{
    (void)state;
    for (int step = 0; step < 2; step++) {
        mt_account_enter(account, &main_thread, now_ns++, step == 0 ? "step 0" : "step 1");
        mt_account_enter(account, &main_thread, now_ns++, "forward");
        take((uint64_t)(step + 1) * MIB, 10);
        assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "forward");
        mt_account_leave(account, &main_thread, now_ns++);
        mt_account_leave(account, &main_thread, now_ns++);
        assert_int_equal(recording.events[recording.count - 1].kind, MT_EVENT_STEP_END);
        assert_int_equal(recording.events[recording.count - 1].value, step);
    }
}

static void launch(struct mt_account_thread *thread, uint32_t number)
{
    if (mt_account_launch_changed(thread))
        mt_account_launch_label(account, thread);
    mt_account_launch(account, number, thread->launch_label);
}

static void run_kernel(uint32_t number, const char *name, uint64_t start_ns)
{
    const struct mt_kernel_run run = {
        .start_ns = start_ns, .end_ns = start_ns + 5, .name = name, .launch = number, .stream = number};
    mt_account_ran(account, &run);
}

static void tell_kernel(void *context, const struct mt_kernel *kernel)
{
    mt_account_kernel(context, kernel);
}

/* The records come when the step and the range are long over, in two deliveries. */
static void kernels_belong_to_the_range_and_step_of_their_launch(void **state)
{
    (void)state;
    launch(&main_thread, 1);
    mt_account_enter(account, &main_thread, now_ns++, "step");
    mt_account_enter(account, &main_thread, now_ns++, "forward");
    launch(&main_thread, 2);
    launch(&other_thread, 3);
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &main_thread, now_ns++);
    run_kernel(3, "c", 1300);
    run_kernel(2, "b", 1200);
    mt_account_take_kernels(account, -1000, tell_kernel, account);
    run_kernel(1, "a", 1100);
    run_kernel(99, "nobody's", 1400);
    run_kernel(0, "of no call", 1500);
    mt_account_take_kernels(account, -1000, tell_kernel, account);
    static const struct {
        const char *name, *path;
        int64_t step;
        uint64_t start_ns;
    } expected[] = {{"b", "forward", 0, 200},
                    {"c", "", 0, 300},
                    {"a", "", -1, 100},
                    {"nobody's", "", -1, 400},
                    {"of no call", "", -1, 500}};
    assert_int_equal(ran.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct mt_label *label = mt_interner_find_label(recording.interner, ran.kernels[i].label);
        assert_string_equal(ran.names[i], expected[i].name);
        assert_int_equal(ran.kernels[i].step, expected[i].step);
        assert_int_equal(ran.kernels[i].start_ns, expected[i].start_ns);
        assert_string_equal(label->op, "kernel");
        if (expected[i].path[0] == '\0')
            assert_int_equal(label->span, 0);
        else
            assert_string_equal(mt_interner_find_span(recording.interner, label->span)->path, expected[i].path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCOUNT_TEST(a_block_belongs_to_the_ranges_of_its_thread),
        ACCOUNT_TEST(ranges_are_events_of_one_thread),
        ACCOUNT_TEST(a_thread_that_ends_within_its_ranges_ends_them),
        ACCOUNT_TEST(ranges_of_a_name_are_steps_and_no_part_of_the_path),
        ACCOUNT_TEST(kernels_belong_to_the_range_and_step_of_their_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
