/* The graphs of a training run (--cuda-graph on), on a device that repeats steps: a step repeats an earlier one only if
 * all of its launches have the same addresses, and a step that failed or reserved memory becomes no graph. */
#include "repeating_device.h"

#include "alloc/alloc.h"
#include "alloc/plan.h"
#include "alloc/request_log.h"
#include "base/interner.h"
#include "producers/model/training.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STEPS = 300 };

static const struct setup {
    mt_implementation_kind implementation;
    bool autocast;
    mt_zero_grad zero_grad;
    const char *alloc;
    int64_t vocab, d_model, seq;
    bool has_plan;
    int64_t loss_slices;
} setups[] = {
    {MT_IMPLEMENTATION_EAGER, false, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=tight", 1024, 64, 128, false, 1},
    {MT_IMPLEMENTATION_EAGER, true, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=tight", 256, 128, 512, false, 1},
    {MT_IMPLEMENTATION_FUSED, true, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=tight", 64, 128, 32, false, 1},
    {MT_IMPLEMENTATION_FUSED, false, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=tight", 256, 128, 64, true, 1},
    {MT_IMPLEMENTATION_EAGER, true, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=torch", 256, 64, 64, true, 1},
    {MT_IMPLEMENTATION_EAGER, false, MT_ZERO_GRAD_BEFORE_FORWARD, "policy=torch", 1024, 64, 128, false, 1},
    {MT_IMPLEMENTATION_FUSED, true, MT_ZERO_GRAD_BEFORE_FORWARD, "policy=tight", 1024, 64, 128, false, 1},
    {MT_IMPLEMENTATION_FUSED, true, MT_ZERO_GRAD_BEFORE_BACKWARD, "policy=tight", 256, 128, 64, true, 3},
    {MT_IMPLEMENTATION_FUSED, false, MT_ZERO_GRAD_BEFORE_FORWARD, "policy=torch", 1024, 64, 128, false, 4},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static struct mt_training_config config_of(const struct setup *setup)
{
    bool is_fused = setup->implementation == MT_IMPLEMENTATION_FUSED;
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){.name = "custom",
                                            .vocab = setup->vocab,
                                            .d_model = setup->d_model,
                                            .d_ff = setup->d_model,
                                            .layers = 1,
                                            .heads = 1};
    config.batch = 1;
    config.seq = setup->seq;
    config.steps = STEPS;
    config.implementation = setup->implementation;
    config.autocast = setup->autocast;
    config.zero_grad = setup->zero_grad;
    config.attention = is_fused ? MT_ATTENTION_FLASH : MT_ATTENTION_CUSTOM;
    config.cuda_graph = true;
    config.loss_slices = setup->loss_slices;
    return config;
}

/* Computes the plan of such a run from its first steps. */
static struct mt_plan *make_plan(struct mt_training_config config, const struct mt_alloc_settings *settings)
{
    enum { PLANNED_STEPS = 4 };
    struct mt_request_log *log = mt_request_log_create(settings);
    const struct mt_sink sink = mt_request_log_sink(log);
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_plan *plan;
    size_t count;
    config.steps = PLANNED_STEPS;
    assert_int_equal(mt_device_open_simulated(NULL, UINT64_C(1) << 40, &device), MT_OK);
    assert_int_equal(mt_alloc_create(device, &sink, settings, &alloc), MT_OK);
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    const struct mt_plan_request *requests = mt_request_log_requests(log, &count);
    assert_int_equal(mt_plan_make(requests, count, &plan), MT_OK);
    mt_request_log_destroy(log);
    return plan;
}

/* The observer of a run, which may use its allocator. */
struct watcher {
    struct mt_training_observer observer;
    struct mt_alloc *alloc;
    struct mt_block *held;
    int norms;
};

/* Trains on such a device. Checks that the allocator is consistent afterwards and everything was freed. */
static mt_status train_watched(struct repeating_device *repeating, const struct setup *setup, struct watcher *watcher)
{
    const struct mt_training_config config = config_of(setup);
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_alloc_settings settings;
    struct mt_alloc_stats stats;
    struct mt_alloc *alloc;
    assert_int_equal(mt_alloc_settings_parse(setup->alloc, &settings), MT_OK);
    assert_int_equal(mt_alloc_create(&repeating->device, &sink, &settings, &alloc), MT_OK);
    struct mt_plan *plan = setup->has_plan ? make_plan(config, &settings) : NULL;
    if (plan != NULL)
        assert_int_equal(mt_alloc_follow(alloc, plan), MT_OK);
    watcher->alloc = alloc;
    mt_status status = mt_training_run(&repeating->device, alloc, &config, &watcher->observer);
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(alloc);
    if (plan != NULL)
        mt_plan_destroy(plan);
    mt_interner_destroy(interner);
    return status;
}

static mt_status train(struct repeating_device *repeating, const struct setup *setup)
{
    struct watcher nobody = {0};
    return train_watched(repeating, setup, &nobody);
}

static void steps_that_repeat_are_equal_to_the_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct repeating_device repeating;
        repeating_device_init(&repeating, UINT64_C(1) << 32);
        assert_int_equal(train(&repeating, &setups[i]), MT_OK);
        if (repeating.faults > 0)
            fail_msg("setup %zu: %d of %d steps were not as they were told", i, repeating.faults, repeating.begins);
        assert_true(repeating.repeats > 0);
        repeating_device_end(&repeating);
    }
}

static void count_norm(void *context, const char *parameter, double norm)
{
    (void)parameter;
    (void)norm;
    ((struct watcher *)context)->norms++;
}

/* Gradients are read while backward runs. */
static void a_step_whose_gradients_are_reported_is_none_that_repeats(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct repeating_device repeating;
        struct watcher watcher = {.observer = {.context = &watcher, .grad_norm = count_norm}};
        repeating_device_init(&repeating, UINT64_C(1) << 32);
        assert_int_equal(train_watched(&repeating, &setups[i], &watcher), MT_OK);
        assert_true(watcher.norms > 0);
        assert_int_equal(repeating.begins, STEPS - 1);
        assert_int_equal(repeating.faults, 0);
        repeating_device_end(&repeating);
    }
}

/* Allocates a block, or frees it, every few steps. */
static void come_and_go(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    enum { PERIOD = 40, BYTES = 3000 };
    struct watcher *watcher = context;
    (void)loss;
    (void)step_ms;
    if (watcher->held != NULL && (step % PERIOD == 0 || step + 1 == total)) {
        mt_alloc_give(watcher->alloc, watcher->held);
        watcher->held = NULL;
    } else if (step % PERIOD == 0) {
        assert_int_equal(mt_alloc_take(watcher->alloc, BYTES, 0, 1, 0, &watcher->held), MT_OK);
    }
}

/* Gradients may have the same addresses while the next blocks have others. */
static void a_block_of_somebody_else_makes_a_step_another(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct repeating_device repeating;
        struct watcher watcher = {.observer = {.context = &watcher, .step_done = come_and_go}};
        repeating_device_init(&repeating, UINT64_C(1) << 32);
        assert_int_equal(train_watched(&repeating, &setups[i], &watcher), MT_OK);
        assert_int_equal(repeating.faults, 0);
        assert_true(repeating.repeats > 0);
        repeating_device_end(&repeating);
    }
}

/* The first step allocates all memory, the second the memory that its optimizer has left. */
static void steps_that_take_memory_are_dropped(void **state)
{
    (void)state;
    struct repeating_device repeating;
    repeating_device_init(&repeating, UINT64_C(1) << 32);
    assert_int_equal(train(&repeating, &setups[SETUPS - 1]), MT_OK);
    assert_int_equal(repeating.faults, 0);
    assert_in_range(repeating.drops, 1, 2);
    assert_int_equal(repeating.begins, STEPS);
    repeating_device_end(&repeating);
}

static void a_step_that_fails_while_it_repeats_is_dropped(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct repeating_device repeating;
        repeating_device_init(&repeating, UINT64_C(1) << 32);
        repeating.fail_launch = 20;
        assert_int_equal(train(&repeating, &setups[i]), MT_OUT_OF_MEMORY);
        assert_non_null(strstr(mt_last_error(), "launch number 20 was made to find no memory"));
        assert_int_equal(repeating.repeats, 1);
        assert_true(repeating.has_failed);
        assert_false(repeating.has_begun);
        assert_int_equal(repeating.faults, 0);
        assert_true(repeating.drops > 0);
        repeating_device_end(&repeating);
    }
}

/* The parameters fit, and the workspace of the first product does not. */
static void a_first_step_that_finds_no_memory_is_dropped(void **state)
{
    (void)state;
    struct repeating_device repeating;
    repeating_device_init(&repeating, UINT64_C(8) << 20);
    assert_int_equal(train(&repeating, &setups[0]), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(mt_last_error(), "out of device memory"));
    assert_int_equal(repeating.begins, 1);
    assert_int_equal(repeating.drops, 1);
    assert_int_equal(repeating.known, 0);
    repeating_device_end(&repeating);
}

/* Another allocator counts its segments from 0, too, but has other segments. */
static void steps_of_another_run_are_not_repeated(void **state)
{
    (void)state;
    struct repeating_device repeating;
    repeating_device_init(&repeating, UINT64_C(1) << 32);
    for (int run = 0; run < 2; run++)
        assert_int_equal(train(&repeating, &setups[SETUPS - 1]), MT_OK);
    assert_int_equal(repeating.begins, 2 * STEPS);
    assert_true(repeating.repeats > STEPS);
    assert_int_equal(repeating.faults, 0);
    repeating_device_end(&repeating);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_repeat_are_equal_to_the_address),
        cmocka_unit_test(a_step_whose_gradients_are_reported_is_none_that_repeats),
        cmocka_unit_test(a_block_of_somebody_else_makes_a_step_another),
        cmocka_unit_test(steps_that_take_memory_are_dropped),
        cmocka_unit_test(a_step_that_fails_while_it_repeats_is_dropped),
        cmocka_unit_test(steps_of_another_run_are_not_repeated),
        cmocka_unit_test(a_first_step_that_finds_no_memory_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
