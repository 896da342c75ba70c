/* The watch of kernels with a fake CUPTI (fake_cupti.h), which a test controls. Needs no card and no
 * library. */
#include "base/memory.h"
#include "base/random.h"
#include "device/cupti/cupti_watch.h"
#include "device/kernel_log.h"
#include "fake_cupti.h"
#include "seed.h"

#include <cupti.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_KERNELS = 4000, CLOCK_SHIFT = 1000000000 };

/* Launches a kernel through the runtime and, inside it, the driver, like real ones, and then runs it. */
static void launch(uint32_t number, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    CUpti_CallbackData data = {.callbackSite = CUPTI_API_ENTER, .correlationId = number};
    fake_cupti_call_back(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, &data);
    fake_cupti_call_back(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
    data.callbackSite = CUPTI_API_EXIT;
    fake_cupti_call_back(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, &data);
    fake_cupti_ran(number, name, start_ns, end_ns);
}

/* The kernels that a collect handed over. */
struct taken {
    struct mt_kernel kernels[MOST_KERNELS];
    size_t count;
};

static void take(void *context, const struct mt_kernel *kernel)
{
    struct taken *taken = context;
    taken->kernels[taken->count] = *kernel;
    taken->kernels[taken->count++].name = mt_host_strdup(kernel->name);
}

static void forget(struct taken *taken)
{
    while (taken->count > 0)
        free((char *)taken->kernels[--taken->count].name);
}

static struct taken taken;
static struct mt_device *device;

static int set_up(void **state)
{
    (void)state;
    memset(&fake_cupti, 0, sizeof fake_cupti);
    fake_cupti.version = CUPTI_API_VERSION;
    fake_cupti.now_ns = CLOCK_SHIFT;
    assert_int_equal(mt_device_open("cpu", &device), MT_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    forget(&taken);
    mt_device_close(device);
    return 0;
}

static void begin(void)
{
    if (mt_cupti_watch(device, &device->watch) != MT_OK)
        fail_msg("%s", mt_last_error());
}

static void collect(void)
{
    forget(&taken);
    assert_int_equal(mt_device_collect(device, take, &taken), MT_OK);
}

static void kernels_belong_to_the_label_at_their_launch(void **state)
{
    (void)state;
    begin();
    assert_true(mt_device_watches_kernels(device) && fake_cupti.records_kernels && fake_cupti.is_pinned &&
                fake_cupti.is_zeroed);
    launch(1, "early", CLOCK_SHIFT + 10, CLOCK_SHIFT + 20);
    mt_device_tag(device, 5);
    launch(3, "late", CLOCK_SHIFT + 400, CLOCK_SHIFT + 500);
    mt_device_tag(device, 6);
    launch(9, "_Z4copyIfEvPT_", CLOCK_SHIFT + 100, CLOCK_SHIFT + 130);
    collect();
    assert_int_equal(taken.count, 3);
    assert_string_equal(taken.kernels[0].name, "early");
    assert_string_equal(taken.kernels[1].name, "void copy<float>(float*)");
    assert_string_equal(taken.kernels[2].name, "late");
    assert_int_equal(taken.kernels[0].label, 0);
    assert_int_equal(taken.kernels[1].label, 6);
    assert_int_equal(taken.kernels[2].label, 5);
    assert_int_equal(taken.kernels[1].stream, 7);
    assert_int_equal(taken.kernels[1].end_ns - taken.kernels[1].start_ns, 30);
    collect();
    assert_int_equal(taken.count, 0);
}

/* Steps that have ended and one that has not, collected at once and delivered by CUPTI before. */
static void kernels_belong_to_the_step_at_their_launch(void **state)
{
    (void)state;
    static const int64_t steps[] = {MT_NO_STEP, 0, 0, 1, MT_NO_STEP, 2};
    enum { COUNT = sizeof steps / sizeof steps[0] };
    begin();
    for (uint32_t i = 0; i < COUNT; i++) {
        mt_device_tag_step(device, steps[i]);
        launch(i, "k", CLOCK_SHIFT + i * 10, CLOCK_SHIFT + i * 10 + 5);
        if (i == 2)
            assert_int_equal(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
        assert_int_equal(mt_device_waiting_kernels(device), i + 1);
    }
    collect();
    assert_int_equal(taken.count, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(taken.kernels[i].step, steps[i]);
    assert_int_equal(mt_device_waiting_kernels(device), 0);
}

static void times_are_on_the_clock_of_the_device(void **state)
{
    (void)state;
    begin();
    uint64_t before_ns = mt_device_now_ns(device);
    launch(1, "k", CLOCK_SHIFT, CLOCK_SHIFT + 1);
    collect();
    assert_in_range(taken.kernels[0].start_ns, before_ns, mt_device_now_ns(device));
}

static void records_that_are_missing_are_counted(void **state)
{
    (void)state;
    begin();
    launch(1, "k", CLOCK_SHIFT, CLOCK_SHIFT + 1);
    launch(2, "without times", 0, 0);
    fake_cupti.dropped = 3;
    collect();
    assert_int_equal(taken.count, 1);
    assert_int_equal(mt_device_lost_kernels(device), 4);
}

/* Buffers that come back are handed out again, zeroed like new ones. */
static void buffers_are_zeroed_before_they_are_used_again(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    begin();
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < COUNT; i++)
            launch(i, "k", CLOCK_SHIFT + i * 10, CLOCK_SHIFT + i * 10 + 5);
        collect();
        assert_int_equal(taken.count, COUNT);
    }
    assert_true(fake_cupti.buffers > 3 * COUNT / FAKE_RECORDS_A_BUFFER);
    assert_int_equal(fake_cupti.dirty_buffers, 0);
}

static sem_t reading;
static _Thread_local bool is_cupti;

/* CUPTI's thread is slow at each record, and posts when it reads the second. */
static void linger(void)
{
    static _Thread_local int records;
    if (is_cupti && ++records == 2)
        sem_post(&reading);
    if (is_cupti)
        usleep(20000);
}

static void *hand_over(void *context)
{
    (void)context;
    is_cupti = true;
    fake_cupti_hand_over(fake_cupti.records, sizeof fake_cupti.records[0] * fake_cupti.record_count);
    return NULL;
}

/* A buffer that is not completely read by then would be delivered by the next collect, after its launches are
 * forgotten. */
static void a_buffer_that_is_being_read_is_collected_whole(void **state)
{
    (void)state;
    pthread_t cupti;
    begin();
    mt_device_tag(device, 5);
    for (uint32_t i = 0; i < FAKE_RECORDS_A_BUFFER; i++)
        launch(i, "k", CLOCK_SHIFT + i * 10, CLOCK_SHIFT + i * 10 + 5);
    fake_cupti.on_next_record = linger;
    sem_init(&reading, 0, 0);
    assert_int_equal(pthread_create(&cupti, NULL, hand_over, NULL), 0);
    sem_wait(&reading);
    fake_cupti.record_count = 0; /* only those exist */
    collect();
    pthread_join(cupti, NULL);
    sem_destroy(&reading);
    assert_int_equal(taken.count, FAKE_RECORDS_A_BUFFER);
    for (size_t i = 0; i < taken.count; i++)
        assert_int_equal(taken.kernels[i].label, 5);
}

/* A whole domain would cause a callback at each call of the program. */
static void nothing_but_launches_is_heard(void **state)
{
    (void)state;
    int heard = 0;
    begin();
    for (int domain = 0; domain < FAKE_DOMAINS; domain++)
        for (int id = 0; id < FAKE_MOST_IDS; id++)
            heard += fake_cupti.hears[domain][id];
    assert_in_range(heard, 10, 20);
    assert_true(fake_cupti.hears[CUPTI_CB_DOMAIN_DRIVER_API][CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx]);
    assert_false(fake_cupti.hears[CUPTI_CB_DOMAIN_DRIVER_API][CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2]);
}

static void another_tool_is_named_and_left_alone(void **state)
{
    (void)state;
    fake_cupti.user = "Nsight Systems";
    fake_cupti.records_kernels = true;
    assert_int_equal(mt_cupti_watch(device, &device->watch), MT_FAILED);
    assert_non_null(strstr(mt_last_error(), "Nsight Systems"));
    assert_true(fake_cupti.records_kernels);
    assert_false(mt_device_watches_kernels(device));
}

static void another_version_is_declined(void **state)
{
    (void)state;
    fake_cupti.version = CUPTI_API_VERSION + 1;
    assert_int_equal(mt_cupti_watch(device, &device->watch), MT_FAILED);
    assert_false(fake_cupti.is_subscribed);
}

static void a_watch_ends_with_its_device_and_another_may_begin(void **state)
{
    (void)state;
    struct mt_kernel_watch *second;
    begin();
    assert_int_equal(mt_cupti_watch(device, &second), MT_FAILED);
    mt_device_close(device);
    assert_false(fake_cupti.is_subscribed || fake_cupti.records_kernels);
    assert_int_equal(mt_device_open("cpu", &device), MT_OK);
    begin();
    launch(1, "k", CLOCK_SHIFT, CLOCK_SHIFT + 1);
    collect();
    assert_int_equal(taken.count, 1);
}

static char *spell_nothing(const char *name)
{
    (void)name;
    return NULL;
}

/* Launches and runs in any order, against a table by number. */
static void random_launches_find_their_labels_and_steps(void **state)
{
    (void)state;
    static struct mt_kernel_launch launches[MOST_KERNELS];
    uint64_t seed = take_seed(), drawn = 0;
    for (uint32_t number = 0; number < MOST_KERNELS; number++)
        launches[number] = (struct mt_kernel_launch){.step = MT_NO_STEP};
    struct mt_kernel_log *log = mt_kernel_log_create(spell_nothing);
    for (uint32_t i = 0; i < MOST_KERNELS; i++) {
        uint32_t number = (uint32_t)(mt_splitmix64(seed + drawn++) % MOST_KERNELS);
        int64_t step = (int64_t)(mt_splitmix64(seed + drawn++) % 9) - 1;
        mt_label_id label = (mt_label_id)(mt_splitmix64(seed + drawn++) % 100);
        launches[number] = (struct mt_kernel_launch){.step = step, .label = label, .number = number};
        mt_kernel_log_launch(log, &launches[number]);
    }
    for (uint32_t number = 0; number < MOST_KERNELS; number++) {
        uint64_t start_ns = mt_splitmix64(seed + drawn++) % 1000;
        const struct mt_kernel_run run = {
            .start_ns = start_ns, .end_ns = start_ns + 1, .launch = number, .stream = number, .name = "k"};
        mt_kernel_log_ran(log, &run);
    }
    mt_kernel_log_take(log, -5, take, &taken);
    mt_kernel_log_destroy(log);
    assert_int_equal(taken.count, MOST_KERNELS);
    for (size_t i = 0; i < taken.count; i++) {
        const struct mt_kernel_launch *launch = &launches[taken.kernels[i].stream];
        assert_int_equal(taken.kernels[i].label, launch->label);
        assert_int_equal(taken.kernels[i].step, launch->step);
        assert_true(i == 0 || (int64_t)taken.kernels[i - 1].start_ns <= (int64_t)taken.kernels[i].start_ns);
    }
}

/* Two kernels of one stream overlap, because the second took its place early. One of another stream runs at the same
 * time. */
static void a_kernels_time_begins_with_its_turn(void **state)
{
    (void)state;
    static const struct mt_kernel_run runs[] = {
        {.start_ns = 100, .end_ns = 200, .launch = 1, .stream = 7, .name = "first"},
        {.start_ns = 110, .end_ns = 260, .launch = 2, .stream = 7, .name = "second"},
        {.start_ns = 120, .end_ns = 300, .launch = 3, .stream = 8, .name = "beside"},
    };
    static const uint64_t starts[] = {100, 200, 120};
    struct mt_kernel_log *log = mt_kernel_log_create(spell_nothing);
    for (size_t i = 0; i < 3; i++)
        mt_kernel_log_ran(log, &runs[i]);
    mt_kernel_log_take(log, 0, take, &taken);
    mt_kernel_log_destroy(log);
    assert_int_equal(taken.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(taken.kernels[i].start_ns, starts[i]);
        assert_int_equal(taken.kernels[i].end_ns, runs[i].end_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_belong_to_the_label_at_their_launch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_belong_to_the_step_at_their_launch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_are_on_the_clock_of_the_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_that_are_missing_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffers_are_zeroed_before_they_are_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_buffer_that_is_being_read_is_collected_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_but_launches_is_heard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_tool_is_named_and_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_version_is_declined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_watch_ends_with_its_device_and_another_may_begin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kernels_time_begins_with_its_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_launches_find_their_labels_and_steps, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
