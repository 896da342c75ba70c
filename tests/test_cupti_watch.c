/* The watch of kernels against a CUPTI of our own, which does what a test tells it: the calls that the watch makes are
 * defined here, so no card and no library is needed. */
#include "base/memory.h"
#include "base/random.h"
#include "device/cupti/cupti_watch.h"
#include "device/kernel_log.h"

#include <cupti.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_KERNELS = 4000, CLOCK_SHIFT = 1000000000 };

/* What CUPTI is, and what it was asked. */
static struct {
    uint32_t version;
    const char *other_tool; /* NULL: none is there */
    CUpti_CallbackFunc on_launch;
    void *context;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    size_t callbacks, dropped;
    bool enabled, subscribed, pinned;
    CUpti_ActivityKernel10 pending[MOST_KERNELS]; /* ran since the last flush */
    size_t pending_count;
} cupti;

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = cupti.version;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    (void)result;
    *text = "as the test says";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *context,
                              CUpti_SubscriberParams *params)
{
    if (cupti.other_tool != NULL) {
        strncpy(params->oldSubscriberName, cupti.other_tool, params->oldSubscriberSize);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    *subscriber = (CUpti_SubscriberHandle)&cupti;
    cupti.on_launch = callback;
    cupti.context = context;
    cupti.subscribed = true;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    assert_ptr_equal(subscriber, &cupti);
    cupti.subscribed = false;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId function)
{
    (void)subscriber;
    (void)function;
    assert_true(domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API);
    cupti.callbacks += enable;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    cupti.pinned =
        attribute == CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED && *bytes == 1 && *(const uint8_t *)value == 1;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    cupti.request = request;
    cupti.complete = complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    assert_int_equal(kind, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cupti.enabled = true;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    assert_int_equal(kind, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cupti.enabled = false;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    uint8_t *next = *record == NULL ? buffer : (uint8_t *)*record + sizeof(CUpti_ActivityKernel10);
    if (next + sizeof(CUpti_ActivityKernel10) > buffer + valid_bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    return CUPTI_SUCCESS;
}

/* Fills as many buffers as it takes, of a few records each. */
CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    assert_int_equal(flags, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (size_t done = 0, some; done < cupti.pending_count; done += some) {
        uint8_t *buffer = NULL;
        size_t bytes = 0, most = 1;
        cupti.request(&buffer, &bytes, &most);
        some = cupti.pending_count - done < 7 ? cupti.pending_count - done : 7;
        assert_true(bytes >= 7 * sizeof cupti.pending[0] && most == 0 && (uintptr_t)buffer % 8 == 0);
        memcpy(buffer, &cupti.pending[done], some * sizeof cupti.pending[0]);
        cupti.complete(NULL, 0, buffer, bytes, some * sizeof cupti.pending[0]);
    }
    cupti.pending_count = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = CLOCK_SHIFT;
    return CUPTI_SUCCESS;
}

/* A launch: called from the runtime, and from the driver inside it, as real ones are; then it runs. */
static void launch(uint32_t number, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    CUpti_CallbackData data = {.callbackSite = CUPTI_API_ENTER, .correlationId = number};
    cupti.on_launch(cupti.context, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, &data);
    cupti.on_launch(cupti.context, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
    data.callbackSite = CUPTI_API_EXIT;
    cupti.on_launch(cupti.context, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, &data);
    cupti.pending[cupti.pending_count++] = (CUpti_ActivityKernel10){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                                    .start = start_ns,
                                                                    .end = end_ns,
                                                                    .correlationId = number,
                                                                    .streamId = 7,
                                                                    .name = name};
}

/* What a collect handed over. */
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
    memset(&cupti, 0, sizeof cupti);
    cupti.version = CUPTI_API_VERSION;
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
    assert_true(mt_device_watches_kernels(device) && cupti.enabled && cupti.pinned && cupti.callbacks > 8);
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

/* Steps that are over, and one that is under way, collected at once and by CUPTI's own deliveries before. */
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
    cupti.dropped = 3;
    collect();
    assert_int_equal(taken.count, 1);
    assert_int_equal(mt_device_lost_kernels(device), 4);
}

static void another_tool_is_named_and_left_alone(void **state)
{
    (void)state;
    cupti.other_tool = "Nsight Systems";
    cupti.enabled = true;
    assert_int_equal(mt_cupti_watch(device, &device->watch), MT_FAILED);
    assert_non_null(strstr(mt_last_error(), "Nsight Systems"));
    assert_true(cupti.enabled);
    assert_false(mt_device_watches_kernels(device));
}

static void another_version_is_declined(void **state)
{
    (void)state;
    cupti.version = CUPTI_API_VERSION + 1;
    assert_int_equal(mt_cupti_watch(device, &device->watch), MT_FAILED);
    assert_false(cupti.subscribed);
}

static void a_watch_ends_with_its_device_and_another_may_begin(void **state)
{
    (void)state;
    struct mt_kernel_watch *second;
    begin();
    assert_int_equal(mt_cupti_watch(device, &second), MT_FAILED);
    mt_device_close(device);
    assert_false(cupti.subscribed || cupti.enabled);
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
    uint64_t seed = (uint64_t)getpid(), drawn = 0;
    print_message("seed %" PRIu64 "\n", seed);
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

/* Two kernels of one stream overlap, because the second took its place early; one of another stream runs beside them. */
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
        cmocka_unit_test_setup_teardown(another_tool_is_named_and_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_version_is_declined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_watch_ends_with_its_device_and_another_may_begin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kernels_time_begins_with_its_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_launches_find_their_labels_and_steps, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
