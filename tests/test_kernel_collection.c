/* The times at which training collects watched kernels, and the steps that the kernels belong to. A fake watch counts
 * one kernel for each label that it gets. */
#include "device/backend.h"
#include "model_device.h"
#include "producers/model/training.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_STEPS = 8, WARMUP = 1, STEPS = 2, KERNELS_BEFORE = MOST_STEPS };

/* The model's parameters take 26 MiB, its gradients as much, and the state of the optimizer twice as much. */
#define ENOUGH "cpu:1GiB"
#define TOO_LITTLE "cpu:80MiB"

/* Invariant: `waiting` is the sum of `launched` since the last collect. `launched` and `taken` are by step, with those
 * outside of steps last. */
struct counting_watch {
    struct mt_kernel_watch watch;
    int64_t step;
    uint64_t launched[MOST_STEPS + 1], taken[MOST_STEPS + 1];
    uint64_t waiting, surplus; /* surplus: more kernels for each label */
    int collects;
    bool refuses; /* to collect */
};

static struct counting_watch counting;

static size_t place_of(int64_t step)
{
    return step == MT_NO_STEP ? KERNELS_BEFORE : (size_t)step;
}

static void tag(struct mt_kernel_watch *watch, mt_label_id label)
{
    (void)watch;
    assert_int_not_equal(label, 0);
    counting.launched[place_of(counting.step)]++;
    counting.waiting += 1 + counting.surplus;
}

static void tag_step(struct mt_kernel_watch *watch, int64_t step)
{
    (void)watch;
    assert_in_range(step + 1, 0, MOST_STEPS);
    counting.step = step;
}

static uint64_t waiting(struct mt_kernel_watch *watch)
{
    (void)watch;
    return counting.waiting;
}

static mt_status collect(struct mt_kernel_watch *watch, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context)
{
    (void)watch;
    assert_int_equal(counting.step, MT_NO_STEP);
    counting.collects++;
    counting.waiting = 0;
    if (counting.refuses)
        return mt_fail(MT_FAILED, "nothing can be collected");
    for (size_t i = 0; i <= MOST_STEPS; i++)
        for (; counting.taken[i] < counting.launched[i]; counting.taken[i]++)
            take(context, &(struct mt_kernel){.name = "k", .step = i == KERNELS_BEFORE ? MT_NO_STEP : (int64_t)i});
    return MT_OK;
}

static void end(struct mt_kernel_watch *watch)
{
    (void)watch;
}

static const struct mt_kernel_watch_table counting_table = {
    .tag = tag, .tag_step = tag_step, .waiting = waiting, .collect = collect, .end = end};

/* The kernels that the sink got, by step. */
static uint64_t stored[MOST_STEPS + 1];

static void store(void *context, const struct mt_kernel *kernel)
{
    (void)context;
    stored[place_of(kernel->step)]++;
}

static struct mt_training_config small_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){.name = "custom",
                                            .vocab = 97,
                                            .d_model = 256,
                                            .d_ff = 4096,
                                            .layers = 2,
                                            .heads = 2,
                                            .rope = config.model.rope};
    config.mode = MT_MODE_FWD_BWD;
    config.batch = 2;
    config.seq = 8;
    config.warmup = WARMUP;
    config.steps = STEPS;
    return config;
}

static mt_status train(const char *spelling)
{
    struct mt_training_config config = small_config();
    struct recording recording;
    recording_open(&recording);
    struct mt_sink sink = recording_sink(&recording);
    sink.kernel = store;
    struct mt_device *device = open_model_device(spelling);
    device->watch = &counting.watch;
    struct mt_alloc *alloc = create_alloc(device, "policy=torch", &sink);
    mt_status status = mt_training_run(device, alloc, &config, NULL);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    recording_close(&recording);
    return status;
}

static int set_up(void **state)
{
    (void)state;
    counting = (struct counting_watch){.watch.table = &counting_table, .step = MT_NO_STEP};
    memset(stored, 0, sizeof stored);
    return 0;
}

static void kernels_are_collected_once_and_know_their_step(void **state)
{
    (void)state;
    assert_int_equal(train(ENOUGH), MT_OK);
    assert_int_equal(counting.collects, 1);
    for (size_t step = 0; step < WARMUP + STEPS; step++) {
        assert_true(stored[step] > 100);
        assert_int_equal(stored[step], counting.launched[step]);
    }
    assert_int_equal(stored[WARMUP + STEPS], 0);
    assert_int_equal(stored[KERNELS_BEFORE], counting.launched[KERNELS_BEFORE]);
}

/* Each label counts as so many kernels that those of a step are too many to wait. Those of the last step wait for the
 * end. */
static void too_many_kernels_do_not_wait_for_the_end(void **state)
{
    (void)state;
    counting.surplus = 1 << 18;
    assert_int_equal(train(ENOUGH), MT_OK);
    assert_in_range(counting.collects, WARMUP + STEPS, WARMUP + STEPS + 1);
    for (size_t step = 0; step < WARMUP + STEPS; step++)
        assert_int_equal(stored[step], counting.launched[step]);
}

static void kernels_of_a_run_that_ran_out_of_memory_are_kept(void **state)
{
    (void)state;
    assert_int_equal(train(TOO_LITTLE), MT_OUT_OF_MEMORY);
    assert_int_equal(counting.collects, 1);
    assert_true(stored[0] > 10);
    assert_int_equal(stored[0], counting.launched[0]);
}

static void a_collection_that_fails_leaves_the_first_failures_words(void **state)
{
    (void)state;
    counting.refuses = true;
    assert_int_equal(train(TOO_LITTLE), MT_OUT_OF_MEMORY);
    assert_int_equal(counting.collects, 1);
    assert_non_null(strstr(mt_last_error(), "asked for"));
    set_up(NULL);
    counting.refuses = true;
    assert_int_equal(train(ENOUGH), MT_FAILED);
    assert_non_null(strstr(mt_last_error(), "nothing can be collected"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kernels_are_collected_once_and_know_their_step, set_up),
        cmocka_unit_test_setup(too_many_kernels_do_not_wait_for_the_end, set_up),
        cmocka_unit_test_setup(kernels_of_a_run_that_ran_out_of_memory_are_kept, set_up),
        cmocka_unit_test_setup(a_collection_that_fails_leaves_the_first_failures_words, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
