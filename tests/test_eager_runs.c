/* Tests of every run of the eager model: the same events on every device, a label for every block, correct roles,
 * and out of memory as an ordinary outcome. With "cuda" as argument it tests runs on a card. */
#include "device/backend.h"
#include "gpu.h"
#include "model_device.h"
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Small models of odd sizes, in every mode. */
static const struct {
    const char *alloc;
    mt_mode mode;
    bool autocast, rope;
    mt_zero_grad zero_grad;
    mt_data data;
    int64_t batch, seq, d_model, heads, d_ff, layers;
    mt_attention_kind attention;
} setups[] = {
    {"", MT_MODE_FWD_BWD, false, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 2, 16, 32, 4, 64, 2,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_FWD_BWD, true, true, MT_ZERO_GRAD_BEFORE_FORWARD, MT_DATA_REFERENCE, 3, 13, 40, 5, 72, 3,
     MT_ATTENTION_CUSTOM},
    {"policy=torch", MT_MODE_FWD_BWD, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_REFERENCE, 1, 33, 24, 2, 20, 1,
     MT_ATTENTION_CUSTOM},
    {"policy=torch", MT_MODE_FWD_BWD, false, true, MT_ZERO_GRAD_BEFORE_FORWARD, MT_DATA_RANDOM, 5, 300, 6, 3, 7, 2,
     MT_ATTENTION_CUSTOM},
    {"policy=torch", MT_MODE_FWD, true, true, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 2, 64, 64, 4, 128, 2,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_FWD_BWD, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 3, 9, 10, 1, 12, 2,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_FWD_BWD, false, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 4, 1, 10, 2, 12, 2,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_INFER, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 1, 7, 8, 1, 9, 4,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_INFER, false, true, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 4, 1, 8, 2, 9, 2,
     MT_ATTENTION_CUSTOM},
    {"", MT_MODE_FWD_BWD, false, true, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_REFERENCE, 2, 19, 32, 4, 64, 2,
     MT_ATTENTION_SOFTMAX},
    {"", MT_MODE_FWD_BWD, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_REFERENCE, 2, 12, 10, 1, 64, 2,
     MT_ATTENTION_SOFTMAX},
    {"policy=torch", MT_MODE_FWD_BWD, false, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 1, 14, 12, 3, 20, 2,
     MT_ATTENTION_WEIGHTS},
    {"", MT_MODE_FWD_BWD, true, true, MT_ZERO_GRAD_BEFORE_FORWARD, MT_DATA_RANDOM, 2, 33, 32, 4, 64, 2,
     MT_ATTENTION_WEIGHTS},
    {"", MT_MODE_FWD_BWD, false, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_REFERENCE, 2, 37, 48, 3, 64, 2,
     MT_ATTENTION_FLASH},
    {"policy=torch", MT_MODE_FWD_BWD, true, true, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_REFERENCE, 2, 70, 160, 2, 64, 2,
     MT_ATTENTION_FLASH},
    {"", MT_MODE_FWD_BWD, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 1, 1, 24, 1, 64, 1,
     MT_ATTENTION_FLASH},
    {"", MT_MODE_INFER, true, false, MT_ZERO_GRAD_BEFORE_BACKWARD, MT_DATA_RANDOM, 1, 9, 32, 2, 9, 2,
     MT_ATTENTION_FLASH},
};

enum { SETUPS = sizeof setups / sizeof setups[0] };

static struct mt_training_config config_of(size_t i)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){.name = "custom",
                                            .vocab = 97,
                                            .d_model = setups[i].d_model,
                                            .d_ff = setups[i].d_ff,
                                            .layers = setups[i].layers,
                                            .heads = setups[i].heads,
                                            .rope = setups[i].rope};
    config.mode = setups[i].mode;
    config.autocast = setups[i].autocast;
    config.attention = setups[i].attention;
    config.zero_grad = setups[i].zero_grad;
    config.data = setups[i].data;
    config.batch = setups[i].batch;
    config.seq = setups[i].seq;
    config.warmup = 1;
    return config;
}

static void record(struct recording *recording, size_t setup, const char *device)
{
    struct mt_training_config config = config_of(setup);
    recording_open(recording);
    if (recording_train(recording, device, setups[setup].alloc, &config, NULL, NULL) != MT_OK)
        fail_msg("setup %zu on %s: %s", setup, device, mt_last_error());
}

/* `sim` and `device` have the same capacity, since `tight` uses smaller segments on a small device. */
static void expect_one_sequence(const char *sim, const char *device)
{
    for (size_t setup = 0; setup < SETUPS; setup++) {
        struct recording planned, executed;
        record(&planned, setup, sim);
        record(&executed, setup, device);
        long differs = recording_first_difference(&planned, &executed);
        if (differs >= 0)
            fail_msg("setup %zu: event %ld differs", setup, differs);
        print_message("setup %zu: %zu events\n", setup, planned.count);
        recording_close(&planned);
        recording_close(&executed);
    }
}

static void sim_and_cpu_emit_one_sequence(void **state)
{
    (void)state;
    expect_one_sequence("sim:1GiB", "cpu:1GiB");
}

static void sim_and_cuda_emit_one_sequence(void **state)
{
    (void)state;
    struct mt_device *device;
    char sim[MT_DEVICE_NAME];
    assert_int_equal(mt_model_device_open("cuda", &device), MT_OK);
    mt_device_spell_simulated(&device->card, device->capacity_bytes, sim);
    mt_device_close(device);
    expect_one_sequence(sim, "cuda");
}

static void every_block_is_known(void **state)
{
    (void)state;
    for (size_t setup = 0; setup < SETUPS; setup++) {
        struct recording recording;
        record(&recording, setup, "sim");
        recording_expect_labels(&recording);
        recording_close(&recording);
    }
}

/* Lists the blocks that are live when a step's backward begins, by their alloc events. */
static size_t live_at_backward(const struct recording *recording, const struct mt_event **live)
{
    size_t count = 0;
    uint64_t step = UINT64_MAX;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_STEP_BEGIN)
            step = event->value;
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD && step == 1)
            return count;
        if (event->kind == MT_EVENT_ALLOC)
            live[count++] = event;
        for (size_t j = 0; event->kind == MT_EVENT_FREE && j < count; j++)
            if (live[j]->segment == event->segment && live[j]->offset == event->offset)
                live[j] = live[--count];
    }
    return 0;
}

/* Blocks that forward labelled activation or weight cast are live when backward begins. Of its temporaries only the
 * loss is. */
static void saved_blocks_are_those_that_backward_finds(void **state)
{
    (void)state;
    for (size_t setup = 0; setup < SETUPS; setup++) {
        struct recording recording;
        if (setups[setup].mode != MT_MODE_FWD_BWD)
            continue;
        record(&recording, setup, "sim");
        const struct mt_event **live = mt_host_alloc(recording.count * sizeof *live), *step;
        size_t count = live_at_backward(&recording, live), saved_live = 0, saved_made = 0;
        for (size_t i = 0; i < count; i++) {
            const struct mt_label *label = recording_label_of(&recording, live[i]);
            if (label->role == MT_ROLE_TEMPORARY)
                assert_string_equal(label->op, "cross_entropy.mean");
            saved_live += label->role == MT_ROLE_ACTIVATION || label->role == MT_ROLE_WEIGHT_CAST;
        }
        for (size_t left = recording_step(&recording, 1, &step); left > 0; left--, step++) {
            if (step->kind != MT_EVENT_ALLOC)
                continue;
            const struct mt_label *label = recording_label_of(&recording, step);
            saved_made += label->role == MT_ROLE_ACTIVATION || label->role == MT_ROLE_WEIGHT_CAST;
        }
        assert_true(saved_live > 0);
        assert_int_equal(saved_live, saved_made);
        free(live);
        recording_close(&recording);
    }
}

static void count_steps(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    double *last = context;
    assert_int_equal(total, 4);
    assert_true(step_ms > 0);
    assert_true(step == 0 || isnan(loss) || isnan(*last) || loss < *last);
    *last = loss;
}

/* The same batch at every step: the loss must fall on a device that computes, and is absent on one that does not. */
static double last_loss(const char *device)
{
    double last = 0;
    struct recording recording;
    struct mt_training_config config = config_of(1);
    struct mt_training_observer observer = {.context = &last, .step_done = count_steps};
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, device, "", &config, &observer, NULL), MT_OK);
    recording_close(&recording);
    return last;
}

static void a_loss_is_computed_or_absent(void **state)
{
    (void)state;
    assert_false(isnan(last_loss("cpu:1GiB")));
    assert_true(isnan(last_loss("sim")));
}

static void a_loss_is_computed_on_a_card(void **state)
{
    (void)state;
    assert_false(isnan(last_loss("cuda")));
}

static void running_out_of_memory_gives_everything_back(void **state)
{
    (void)state;
    static const char *const devices[] = {"sim:1GiB", "sim:14GiB", "sim:20GiB", "sim:44GiB", "sim:60GiB"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        struct recording recording;
        struct mt_alloc_stats stats;
        struct mt_training_config config = mt_training_config_default();
        recording_open(&recording);
        assert_int_equal(recording_train(&recording, devices[i], "", &config, NULL, &stats), MT_OUT_OF_MEMORY);
        assert_int_equal(stats.all.blocks, 0);
        assert_int_equal(stats.ooms, 1);
        recording_close(&recording);
    }
}

/* A device whose nth reserve fails, for every n that a run reaches. */
static void any_refused_segment_is_an_ordinary_outcome(void **state)
{
    (void)state;
    struct mt_training_config config = config_of(1);
    config.model.d_model = 400;
    config.model.d_ff = 3000;
    for (uint64_t n = 1;; n++) {
        struct mt_alloc_stats stats;
        struct recording recording;
        recording_open(&recording);
        struct mt_sink sink = recording_sink(&recording);
        struct mt_device *device = open_model_device("sim");
        device->fail_reserve_at = n;
        struct mt_alloc *alloc = create_alloc(device, "policy=torch", &sink);
        mt_status status = mt_training_run(device, alloc, &config, NULL);
        mt_alloc_stats(alloc, &stats);
        bool was_reached = device->reserve_count >= n;
        assert_int_equal(stats.all.blocks, 0);
        assert_int_equal(mt_alloc_check(alloc), MT_OK);
        assert_true(status == MT_OK || status == MT_OUT_OF_MEMORY);
        mt_alloc_destroy(alloc);
        mt_device_close(device);
        recording_close(&recording);
        if (!was_reached) {
            assert_int_equal(status, MT_OK);
            assert_true(n > 20);
            return;
        }
    }
}

/* A table of kernels whose nth product fails, and marks that fail from then on, as a card's do after an error. */
static struct {
    const struct mtk_table *kernels;
    uint64_t countdown;
    bool broken;
} breakable;

static mt_status failing_matmul(const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,
                                const struct mtk_view *b, mt_addr workspace, uint64_t bytes, struct mtk_queue *queue)
{
    if (breakable.countdown > 0 && --breakable.countdown == 0)
        breakable.broken = true;
    if (breakable.broken)
        return mt_fail(MT_FAILED, "this product was made to fail");
    return breakable.kernels->matmul(product, out, a, b, workspace, bytes, queue);
}

static mt_status failing_mark(struct mt_device *device, int number)
{
    (void)device;
    (void)number;
    return breakable.broken ? mt_fail(MT_FAILED, "a mark after the failure") : MT_OK;
}

static mt_status no_time(struct mt_device *device, int from, int to, double *out_ms)
{
    (void)device;
    *out_ms = to - from;
    return MT_OK;
}

/* Trains with the nth product failing. Returns true if there was an nth product. */
static bool train_with_failing_product(uint64_t n)
{
    struct mt_training_config config = config_of(1);
    struct recording recording;
    struct mt_alloc_stats stats;
    recording_open(&recording);
    struct mt_sink sink = recording_sink(&recording);
    struct mt_device *device = open_model_device("cpu:1GiB");
    const struct mt_device_table *table = device->table;
    struct mt_device_table marked = *table;
    struct mtk_table kernels = *device->kernels;
    breakable.kernels = device->kernels;
    breakable.countdown = n;
    breakable.broken = false;
    kernels.matmul = failing_matmul;
    marked.mark = failing_mark;
    marked.elapsed_ms = no_time;
    device->kernels = &kernels;
    device->table = &marked;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    mt_status status = mt_training_run(device, alloc, &config, NULL);
    assert_int_equal(status, breakable.broken ? MT_FAILED : MT_OK);
    if (breakable.broken)
        assert_non_null(strstr(mt_last_error(), "matmul: this product was made to fail"));
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(alloc);
    device->table = table;
    mt_device_close(device);
    recording_close(&recording);
    return breakable.broken;
}

static void a_failing_kernel_ends_the_run_with_its_own_words(void **state)
{
    (void)state;
    uint64_t n = 1;
    while (train_with_failing_product(n))
        n += 7;
    assert_true(n > 100);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest on_a_card[] = {
        cmocka_unit_test(sim_and_cuda_emit_one_sequence),
        cmocka_unit_test(a_loss_is_computed_on_a_card),
    };
    if (count > 1 && strcmp(arguments[1], "cuda") == 0)
        return gpu_is_there() ? cmocka_run_group_tests(on_a_card, NULL, NULL) : SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_and_cpu_emit_one_sequence),
        cmocka_unit_test(every_block_is_known),
        cmocka_unit_test(saved_blocks_are_those_that_backward_finds),
        cmocka_unit_test(a_loss_is_computed_or_absent),
        cmocka_unit_test(running_out_of_memory_gives_everything_back),
        cmocka_unit_test(any_refused_segment_is_an_ordinary_outcome),
        cmocka_unit_test(a_failing_kernel_ends_the_run_with_its_own_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
