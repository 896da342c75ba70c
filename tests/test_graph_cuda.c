/* Training with --cuda-graph on a card: the losses are those without, bit by bit; the events are the simulation's; and steps
 * are really replayed, and not only when they should not be. */
#include "gpu.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STEPS = 20, FIRST_REPLAYED = 6 };

/* What a run told, with the steps in which events came while a graph did the work. Invariant: recording comes first, since
 * its functions are called with this. */
struct run {
    struct recording recording;
    const struct mt_device *device;
    uint64_t step;
    int replayed[STEPS];
    double losses[STEPS];
};

static void watch_event(void *context, const struct mt_event *event)
{
    struct run *run = context;
    if (event->kind == MT_EVENT_STEP_BEGIN)
        run->step = event->value;
    if (event->kind == MT_EVENT_ALLOC && run->device->kernels == NULL)
        run->replayed[run->step]++;
    recording_emit(context, event);
}

static void keep_loss(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)step_ms;
    ((struct run *)context)->losses[step] = loss;
}

static void train(struct run *run, const char *spelling, const char *alloc, const struct mt_training_config *config)
{
    struct mt_device *device;
    struct mt_alloc *allocator;
    struct mt_alloc_settings settings;
    *run = (struct run){0};
    recording_open(&run->recording);
    struct mt_sink sink = recording_sink(&run->recording);
    sink.emit = watch_event;
    const struct mt_training_observer observer = {.context = run, .step_done = keep_loss};
    assert_int_equal(mt_alloc_settings_parse(alloc, &settings), MT_OK);
    assert_int_equal(mt_device_open(spelling, &device), MT_OK);
    run->device = device;
    assert_int_equal(mt_alloc_create(device, &sink, &settings, &allocator), MT_OK);
    if (mt_training_run(device, allocator, config, &observer) != MT_OK)
        fail_msg("on %s: %s", spelling, mt_last_error());
    mt_alloc_destroy(allocator);
    mt_device_close(device);
}

static const struct {
    mt_implementation_kind implementation;
    bool autocast;
    mtk_math math;
    mt_weight_cast weight_cast;
    mt_checkpoint checkpoint;
    const char *alloc;
} setups[] = {
    {MT_IMPLEMENTATION_FUSED, false, MTK_MATH_FP32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, ""},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP32, MT_WEIGHT_CAST_PERSISTENT, MT_CHECKPOINT_OFF, ""},
    {MT_IMPLEMENTATION_FUSED, false, MTK_MATH_TF32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, "policy=torch"},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP32, MT_WEIGHT_CAST_LAYER, MT_CHECKPOINT_BLOCK, ""},
    {MT_IMPLEMENTATION_EAGER, false, MTK_MATH_FP32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, ""},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static struct mt_training_config config_of(size_t setup)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 512, .d_model = 256, .d_ff = 1024, .layers = 3, .heads = 4, .rope = true};
    config.batch = 4;
    config.seq = 128;
    config.steps = STEPS;
    config.implementation = setups[setup].implementation;
    config.autocast = setups[setup].autocast;
    config.math = setups[setup].math;
    config.weight_cast = setups[setup].weight_cast;
    config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD /* else gradients move from step to step */;
    config.checkpoint = setups[setup].checkpoint;
    config.attention = config.implementation == MT_IMPLEMENTATION_FUSED ? MT_ATTENTION_FLASH : MT_ATTENTION_CUSTOM;
    return config;
}

static void close_run(struct run *run)
{
    recording_close(&run->recording);
}

static void losses_are_those_without_a_graph(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct mt_training_config config = config_of(i);
        struct run without, with;
        train(&without, "cuda", setups[i].alloc, &config);
        config.cuda_graph = true;
        train(&with, "cuda", setups[i].alloc, &config);
        assert_memory_equal(with.losses, without.losses, sizeof with.losses);
        assert_true(with.losses[STEPS - 1] < with.losses[0]);
        for (int step = 0; step < STEPS; step++) {
            assert_int_equal(without.replayed[step], 0);
            if (step >= FIRST_REPLAYED && with.replayed[step] == 0)
                fail_msg("setup %zu: step %d was not replayed", i, step);
        }
        assert_int_equal(with.replayed[0], 0);
        close_run(&without);
        close_run(&with);
    }
}

static void the_events_are_the_simulations(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        struct mt_training_config config = config_of(i);
        config.cuda_graph = true;
        struct run card, sim;
        train(&card, "cuda", setups[i].alloc, &config);
        train(&sim, "sim", setups[i].alloc, &config);
        long differs = recording_first_difference(&card.recording, &sim.recording);
        if (differs >= 0)
            fail_msg("setup %zu: event %ld differs", i, differs);
        close_run(&card);
        close_run(&sim);
    }
}

/* Each phase takes some time, and together they take the step's. */
struct phase_times {
    double sum[STEPS], step[STEPS];
};

static void add_phase(void *context, int64_t step, mt_phase phase, double ms)
{
    (void)phase;
    if (!(ms > 0))
        fail_msg("phase %d of step %d took %g ms", (int)phase, (int)step, ms);
    ((struct phase_times *)context)->sum[step] += ms;
}

static void keep_step(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)loss;
    ((struct phase_times *)context)->step[step] = step_ms;
}

static void phases_of_a_replayed_step_are_timed(void **state)
{
    (void)state;
    struct recording recording;
    struct phase_times times = {0};
    struct mt_training_config config = config_of(1);
    const struct mt_training_observer observer = {.context = &times, .phase_time = add_phase, .step_done = keep_step};
    config.cuda_graph = true;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "cuda", "", &config, &observer, NULL), MT_OK);
    for (int step = 0; step < STEPS; step++)
        if (!(times.sum[step] > times.step[step] * 0.99 && times.sum[step] < times.step[step] * 1.01))
            fail_msg("step %d: phases of %g ms in %g", step, times.sum[step], times.step[step]);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_without_a_graph),
        cmocka_unit_test(the_events_are_the_simulations),
        cmocka_unit_test(phases_of_a_replayed_step_are_timed),
    };
    if (!gpu_is_there())
        return SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
