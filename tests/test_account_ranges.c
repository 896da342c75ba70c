/* Ranges of NVTX, by thread of a recorded program. Its blocks and kernels belong to them, and they are events that
 * nest. */
#include "account_fixture.h"
#include "seed.h"

#include <string.h>

enum { DEFAULT, LIBRARY, OTHER, DOMAINS, NAMES = 4, OPERATIONS = 2000, MOST_OPEN = 12 };

static void enter(struct mt_account_thread *thread, uint64_t domain, const char *name)
{
    mt_account_enter(account, thread, domain, now_ns++, name);
}

static void leave(struct mt_account_thread *thread, uint64_t domain)
{
    mt_account_leave(account, thread, domain, now_ns++);
}

/* Returns the path of a block that the thread allocates now. */
static const char *path_of(const struct mt_account_thread *thread)
{
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, MIB, 10);
    mt_account_take(account, thread, &call);
    mt_span_id span = last_label()->span;
    return span != 0 ? mt_interner_find_span(recording.interner, span)->path : "";
}

static void a_block_belongs_to_the_ranges_of_its_thread(void **state)
{
    (void)state;
    enter(&main_thread, DEFAULT, "model");
    enter(&main_thread, DEFAULT, "layer");
    enter(&other_thread, DEFAULT, "loader");
    take(MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model.layer");
    leave(&main_thread, DEFAULT);
    take(2 * MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model");
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, 3 * MIB, 10);
    mt_account_take(account, &other_thread, &call);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "loader");
    leave(&main_thread, DEFAULT);
    leave(&main_thread, DEFAULT); /* one too many */
    take(4 * MIB, 10);
    assert_int_equal(last_label()->span, 0);
}

/* Only one thread's ranges are events, so that they nest, whatever another thread does in between. */
static void ranges_are_events_of_one_thread(void **state)
{
    (void)state;
    enter(&main_thread, DEFAULT, "a");
    enter(&other_thread, DEFAULT, "b");
    leave(&main_thread, DEFAULT);
    leave(&other_thread, DEFAULT);
    assert_int_equal(recording.count, 2);
    assert_int_equal(recording.events[0].kind, MT_EVENT_SPAN_BEGIN);
    assert_int_equal(recording.events[1].kind, MT_EVENT_SPAN_END);
    assert_int_equal(recording.events[0].span, recording.events[1].span);
}

/* Otherwise later events would be part of these ranges, and of their step. */
static void a_thread_that_ends_within_its_ranges_ends_them(void **state)
{
    (void)state;
    enter(&main_thread, DEFAULT, "step");
    enter(&main_thread, DEFAULT, "a");
    enter(&main_thread, DEFAULT, "b");
    mt_account_forget_thread(account, &main_thread, now_ns++);
    static const mt_event_kind kinds[] = {MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_BEGIN,
                                          MT_EVENT_SPAN_END,   MT_EVENT_SPAN_END,   MT_EVENT_STEP_END};
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < recording.count; i++)
        assert_int_equal(recording.events[i].kind, kinds[i]);
    assert_int_equal(recording.events[1].span, recording.events[4].span);
    enter(&other_thread, DEFAULT, "c");
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0] + 1);
}

static void ranges_of_a_name_are_steps_and_no_part_of_the_path(void **state)
{
    (void)state;
    for (int step = 0; step < 2; step++) {
        enter(&main_thread, DEFAULT, step == 0 ? "step 0" : "step 1");
        enter(&main_thread, DEFAULT, "forward");
        take((uint64_t)(step + 1) * MIB, 10);
        assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "forward");
        leave(&main_thread, DEFAULT);
        leave(&main_thread, DEFAULT);
        assert_int_equal(recording.events[recording.count - 1].kind, MT_EVENT_STEP_END);
        assert_int_equal(recording.events[recording.count - 1].value, step);
    }
}

static void assert_marks(const mt_event_kind *kinds, size_t count)
{
    size_t seen = 0;
    for (size_t i = 0; i < recording.count; i++) {
        mt_event_kind kind = (mt_event_kind)recording.events[i].kind;
        if (kind != MT_EVENT_SPAN_BEGIN && kind != MT_EVENT_SPAN_END && kind != MT_EVENT_STEP_BEGIN &&
            kind != MT_EVENT_STEP_END)
            continue;
        assert_in_range(seen, 0, count - 1);
        assert_int_equal(kind, kinds[seen++]);
    }
    assert_int_equal(seen, count);
}

static void a_range_ends_by_its_own_domain(void **state)
{
    (void)state;
    static const mt_event_kind marks[] = {MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_END,
                                          MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_END,   MT_EVENT_SPAN_END,
                                          MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_END};
    enter(&main_thread, DEFAULT, "model");
    enter(&main_thread, LIBRARY, "send");
    leave(&main_thread, LIBRARY);
    leave(&main_thread, LIBRARY); /* one too many */
    leave(&main_thread, OTHER);
    assert_string_equal(path_of(&main_thread), "model");
    enter(&main_thread, LIBRARY, "wait");
    assert_string_equal(path_of(&main_thread), "model.wait");
    leave(&main_thread, DEFAULT);
    assert_string_equal(path_of(&main_thread), "wait");
    leave(&main_thread, LIBRARY);
    assert_string_equal(path_of(&main_thread), "");
    assert_marks(marks, sizeof marks / sizeof marks[0]);
}

/* Their events need not nest. */
static void a_step_and_a_range_of_another_domain_end_each_by_itself(void **state)
{
    (void)state;
    static const mt_event_kind marks[] = {MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_STEP_END,
                                          MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_END,   MT_EVENT_STEP_END};
    enter(&main_thread, DEFAULT, "step 0");
    enter(&main_thread, LIBRARY, "send");
    leave(&main_thread, DEFAULT);
    enter(&main_thread, DEFAULT, "step 1");
    assert_string_equal(path_of(&main_thread), "send");
    leave(&main_thread, LIBRARY);
    assert_string_equal(path_of(&main_thread), "");
    leave(&main_thread, DEFAULT);
    assert_marks(marks, sizeof marks / sizeof marks[0]);
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

static void report_kernel(void *context, const struct mt_kernel *kernel)
{
    mt_account_kernel(context, kernel);
}

/* The activity records arrive long after the step and the range have ended, in two deliveries. */
static void kernels_belong_to_the_range_and_step_of_their_launch(void **state)
{
    (void)state;
    launch(&main_thread, 1);
    enter(&main_thread, DEFAULT, "step");
    enter(&main_thread, DEFAULT, "forward");
    launch(&main_thread, 2);
    launch(&other_thread, 3);
    leave(&main_thread, DEFAULT);
    leave(&main_thread, DEFAULT);
    run_kernel(3, "c", 1300);
    run_kernel(2, "b", 1200);
    mt_account_take_kernels(account, -1000, report_kernel, account);
    run_kernel(1, "a", 1100);
    run_kernel(99, "nobody's", 1400);
    run_kernel(0, "of no call", 1500);
    mt_account_take_kernels(account, -1000, report_kernel, account);
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

/* ---- against a naive model ---- */

/* The ranges of a thread, in the order in which they began. */
struct naive_thread {
    struct {
        uint64_t domain;
        const char *name;
    } open[MOST_OPEN];
    size_t count;
};

static const char *const names[NAMES] = {"a", "b", "step", ""};

static void naive_leave(struct naive_thread *naive, uint64_t domain)
{
    for (size_t i = naive->count; i-- > 0;)
        if (naive->open[i].domain == domain) {
            memmove(&naive->open[i], &naive->open[i + 1], (--naive->count - i) * sizeof naive->open[0]);
            return;
        }
}

static const char *naive_path(const struct naive_thread *naive, char path[2 * MOST_OPEN + 1])
{
    size_t length = 0;
    for (size_t i = 0; i < naive->count; i++) {
        const char *name = naive->open[i].name;
        if (strcmp(name, "step") == 0)
            continue;
        path[length++] = '.';
        path[length++] = name[0] != '\0' ? name[0] : '?';
    }
    path[length] = '\0';
    return length > 0 ? path + 1 : path;
}

static void act(struct mt_account_thread *thread, struct naive_thread *naive, uint64_t random)
{
    uint64_t domain = random % DOMAINS;
    const char *name = names[random / 8 % NAMES];
    if (random / 64 % 2 == 0 || naive->count == MOST_OPEN) {
        naive_leave(naive, domain);
        leave(thread, domain);
        return;
    }
    naive->open[naive->count].domain = domain;
    naive->open[naive->count++].name = name;
    enter(thread, domain, name);
}

/* Checks that every span begins in the current one and ends before it. */
static void assert_spans_nest(void)
{
    mt_span_id at = 0;
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind != MT_EVENT_SPAN_BEGIN && event->kind != MT_EVENT_SPAN_END)
            continue;
        mt_span_id parent = mt_interner_find_span(recording.interner, event->span)->parent;
        assert_int_equal(at, event->kind == MT_EVENT_SPAN_BEGIN ? parent : event->span);
        at = event->kind == MT_EVENT_SPAN_BEGIN ? event->span : parent;
    }
    assert_int_equal(at, 0);
}

static void any_ranges_of_any_domains_are_paths_and_events_that_nest(void **state)
{
    (void)state;
    struct mt_account_thread *const threads[] = {&main_thread, &other_thread};
    struct naive_thread naive[2] = {0};
    char path[2 * MOST_OPEN + 1];
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < OPERATIONS; i++) {
        uint64_t random = mt_splitmix64(seed * 7919 + i), which = random >> 32 & 1;
        act(threads[which], &naive[which], random);
        assert_string_equal(path_of(threads[which]), naive_path(&naive[which], path));
    }
    mt_account_forget_thread(account, &main_thread, now_ns++);
    mt_account_forget_thread(account, &other_thread, now_ns++);
    assert_spans_nest();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCOUNT_TEST(a_block_belongs_to_the_ranges_of_its_thread),
        ACCOUNT_TEST(ranges_are_events_of_one_thread),
        ACCOUNT_TEST(a_thread_that_ends_within_its_ranges_ends_them),
        ACCOUNT_TEST(a_range_ends_by_its_own_domain),
        ACCOUNT_TEST(a_step_and_a_range_of_another_domain_end_each_by_itself),
        ACCOUNT_TEST(any_ranges_of_any_domains_are_paths_and_events_that_nest),
        ACCOUNT_TEST(ranges_of_a_name_are_steps_and_no_part_of_the_path),
        ACCOUNT_TEST(kernels_belong_to_the_range_and_step_of_their_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
