/* Training with --cuda-graph on a card: the losses are those without, bit by bit; the events are the simulation's;
 * steps are really replayed, and not only when they should not be; and one that fails while it is captured is not
 * launched. */
#include "alloc_opening.h"
#include "device/backend.h"
#include "gpu.h"
#include "recorded_training.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STEPS = 20, FIRST_REPLAYED = 6 };

/* A run's events and losses, and the allocations in each step while a graph did the work. Invariant: recording comes
 * first, since its functions are called with this. */
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
    *run = (struct run){0};
    recording_open(&run->recording);
    struct mt_sink sink = recording_sink(&run->recording);
    sink.emit = watch_event;
    const struct mt_training_observer observer = {.context = run, .step_done = keep_loss};
    struct mt_device *device = open_device(spelling);
    run->device = device;
    struct mt_alloc *allocator = create_alloc(device, alloc, &sink);
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
    int64_t loss_slices;
} setups[] = {
    {MT_IMPLEMENTATION_FUSED, false, MTK_MATH_FP32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, "", 1},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP32, MT_WEIGHT_CAST_PERSISTENT, MT_CHECKPOINT_OFF, "", 1},
    {MT_IMPLEMENTATION_FUSED, false, MTK_MATH_TF32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, "policy=torch", 1},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP32, MT_WEIGHT_CAST_LAYER, MT_CHECKPOINT_BLOCK, "", 1},
    {MT_IMPLEMENTATION_EAGER, false, MTK_MATH_FP32, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, "", 1},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP32, MT_WEIGHT_CAST_LAYER, MT_CHECKPOINT_OFF, "", 4},
    {MT_IMPLEMENTATION_FUSED, true, MTK_MATH_FP8, MT_WEIGHT_CAST_REGION, MT_CHECKPOINT_OFF, "", 1},
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
    config.loss_slices = setups[setup].loss_slices;
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
        if (config.math == MTK_MATH_FP8 && !takes_fp8("cuda"))
            continue;
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
        if (config.math == MTK_MATH_FP8 && !takes_fp8("cuda"))
            continue;
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

/* A card whose graphs are watched. In the begin of number `breaks_at` (0: in none) the third product finds no
 * memory; what the first one of the step before wrote is then another pattern, which is still there afterwards if
 * nothing was launched. */
enum { PATTERN_BYTES = 4096, PATTERN = 0x5A };
static struct {
    const struct mt_device_table *card; /* the device's own */
    const struct mtk_table *card_kernels;
    struct mt_device_table table;
    struct mtk_table kernels;
    int begins, first_repeated, breaks_at;
    int products; /* since begin */
    mt_addr first_product;
    bool is_intact;
} watch;

static mt_status watched_product(const struct mtk_product *product, const struct mtk_view *out,
                                 const struct mtk_view *a, const struct mtk_view *b, mt_addr workspace,
                                 uint64_t workspace_bytes, struct mtk_queue *queue)
{
    if (++watch.products == 1)
        watch.first_product = out->address;
    if (watch.products == 3 && watch.begins == watch.breaks_at)
        return mt_fail(MT_OUT_OF_MEMORY, "the third product was made to find no memory");
    return watch.card_kernels->matmul(product, out, a, b, workspace, workspace_bytes, queue);
}

static mt_status watched_begin(struct mt_device *device, uint64_t key)
{
    uint8_t pattern[PATTERN_BYTES];
    memset(pattern, PATTERN, sizeof pattern);
    watch.products = 0;
    if (++watch.begins == watch.breaks_at)
        assert_int_equal(watch.card->write(device, watch.first_product, pattern, sizeof pattern, 0), MT_OK);
    mt_status status = watch.card->graph_begin(device, key);
    if (device->kernels != NULL)
        device->kernels = &watch.kernels;
    else if (watch.first_repeated == 0)
        watch.first_repeated = watch.begins;
    return status;
}

static void look_at_pattern(struct mt_device *device)
{
    uint8_t found[PATTERN_BYTES];
    watch.is_intact = watch.begins == watch.breaks_at && watch.card->synchronize(device) == MT_OK &&
                      watch.card->read(device, found, watch.first_product, sizeof found, 0) == MT_OK;
    for (int i = 0; i < PATTERN_BYTES; i++)
        watch.is_intact = watch.is_intact && found[i] == PATTERN;
}

static mt_status watched_end(struct mt_device *device)
{
    mt_status status = watch.card->graph_end(device);
    look_at_pattern(device);
    return status;
}

static mt_status watched_drop(struct mt_device *device)
{
    mt_status status = watch.card->graph_drop(device);
    look_at_pattern(device);
    return status;
}

static void watch_graphs(struct mt_device *device, int breaks_at)
{
    watch.card = device->table;
    watch.card_kernels = device->kernels;
    watch.table = *device->table;
    watch.table.graph_begin = watched_begin;
    watch.table.graph_end = watched_end;
    watch.table.graph_drop = watched_drop;
    watch.kernels = *device->kernels;
    watch.kernels.matmul = watched_product;
    watch.begins = watch.first_repeated = 0;
    watch.breaks_at = breaks_at;
    device->table = &watch.table;
}

/* Trains on a card that is open; afterwards the allocator is whole, and all is given back. */
static mt_status train_on(struct mt_device *device, const struct mt_training_config *config)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_alloc_stats stats;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    mt_status status = mt_training_run(device, alloc, config, NULL);
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(alloc);
    mt_interner_destroy(interner);
    return status;
}

static void a_step_that_fails_while_it_is_captured_is_not_launched(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_training_config config = config_of(0);
    config.cuda_graph = true;
    assert_int_equal(mt_device_open("cuda", &device), MT_OK);
    const struct mt_device_table *card = device->table;
    watch_graphs(device, 0);
    assert_int_equal(train_on(device, &config), MT_OK);
    assert_true(watch.first_repeated > 1);
    device->table = card;
    watch_graphs(device, watch.first_repeated - 1); /* which captured what is repeated then */
    assert_int_equal(train_on(device, &config), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(mt_last_error(), "the third product was made to find no memory"));
    assert_int_equal(watch.first_repeated, 0);
    assert_true(watch.is_intact);
    device->table = card;
    assert_int_equal(train_on(device, &config), MT_OK); /* the queue works as before */
    mt_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_without_a_graph),
        cmocka_unit_test(the_events_are_the_simulations),
        cmocka_unit_test(phases_of_a_replayed_step_are_timed),
        cmocka_unit_test(a_step_that_fails_while_it_is_captured_is_not_launched),
    };
    if (!gpu_is_there())
        return SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
