/* The estimated times of training steps on sim beside those of the reference program in PyTorch's eager mode on H200s.
 *
 * Two sittings on two hosts, which take different times to launch a kernel. Each has a step of the small model
 * (sequence 128, fp32), which consists of launches: it gives the host's launch time, and the other rows have to follow.
 * PyTorch's memory history takes the host time, too. */
#include "alloc_opening.h"
#include "base/interner.h"
#include "device/device.h"
#include "producers/model/training.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 3, TOLERANCE_PERCENT = 20 };

/* Nanoseconds to launch a kernel: the first sitting, without and with PyTorch's memory history, and the second. */
enum { FIRST_HOST = 18000, FIRST_HOST_WITH_HISTORY = 21000, SECOND_HOST = 11300 };

struct times {
    double phase_ms[MT_PHASE_COUNT], step_ms; /* of the last step */
};

static void keep_phase(void *context, int64_t step, mt_phase phase, double ms)
{
    (void)step;
    ((struct times *)context)->phase_ms[phase] = ms;
}

static void keep_step(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)step;
    (void)total;
    (void)loss;
    ((struct times *)context)->step_ms = step_ms;
}

/* Estimates a step on an H200 whose host takes that long to launch a kernel. */
static struct times estimate(const struct mt_training_config *config, uint32_t launch_ns)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct times times = {0};
    const struct mt_training_observer observer = {.context = &times, .phase_time = keep_phase, .step_done = keep_step};
    struct mt_device *device = open_device("sim:h200");
    device->card.eager_launch_ns = launch_ns;
    struct mt_alloc *alloc = create_alloc(device, "policy=torch", &sink);
    assert_int_equal(mt_training_run(device, alloc, config, &observer), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    mt_interner_destroy(interner);
    return times;
}

static void expect(const char *what, double estimated_ms, double measured_ms)
{
    double percent = 100 * (estimated_ms / measured_ms - 1);
    print_message("  %-28s %7.1f ms, measured %7.1f, %+.1f %%\n", what, estimated_ms, measured_ms, percent);
    assert_true(fabs(percent) <= TOLERANCE_PERCENT);
}

static struct mt_training_config config_of(const char *model, int64_t seq, const char *mode, const char *autocast)
{
    struct mt_training_config config = mt_training_config_default();
    assert_int_equal(mt_model_config_named(model, &config.model), MT_OK);
    config.seq = seq;
    config.mode = strcmp(mode, "fwd") == 0 ? MT_MODE_FWD : MT_MODE_FWD_BWD;
    config.autocast = strcmp(autocast, "off") != 0;
    config.steps = STEPS;
    return config;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void check_reference(const json_t *row)
{
    char what[64];
    int64_t seq = json_integer_value(json_object_get(row, "seq"));
    const char *mode = text_of(row, "mode"), *autocast = text_of(row, "autocast"), *history = text_of(row, "history");
    const struct mt_training_config config = config_of(text_of(row, "model"), seq, mode, autocast);
    uint32_t launch_ns = strcmp(history, "off") == 0 ? FIRST_HOST : FIRST_HOST_WITH_HISTORY;
    snprintf(what, sizeof what, "%lld %s %s", (long long)seq, mode, autocast);
    expect(what, estimate(&config, launch_ns).step_ms, json_number_value(json_object_get(row, "step_ms")));
}

static void steps_of_the_reference_take_as_long_as_measured(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(MT_TEST_DATA "/pytorch_h200.json", 0, &error), *row;
    size_t i, checked = 0;
    if (root == NULL)
        fail_msg("%s", error.text);
    json_array_foreach(json_object_get(root, "cs336"), i, row)
    {
        check_reference(row);
        checked++;
    }
    assert_true(checked == 14);
    json_decref(root);
    const struct mt_training_config small = config_of("small", 128, "fwd_bwd", "off");
    expect("small", estimate(&small, FIRST_HOST).step_ms, 47);
}

/* The row of step_time with the same model. Its optimizer is another one, of twice as many passes over memory. */
static void forward_and_backward_of_the_timed_row_take_as_long_as_measured(void **state)
{
    (void)state;
    const struct mt_training_config config = config_of("2.7B", 256, "fwd_bwd", "bf16");
    const struct times times = estimate(&config, FIRST_HOST);
    expect("forward", times.phase_ms[MT_PHASE_FORWARD], 50.91);
    expect("backward", times.phase_ms[MT_PHASE_BACKWARD], 92.21);
}

/* docs/measurements.md, "A training step". */
static void steps_on_the_second_host_take_as_long_as_measured(void **state)
{
    (void)state;
    struct mt_training_config config = config_of("2.7B", 256, "fwd_bwd", "off");
    expect("256 fp32", estimate(&config, SECOND_HOST).step_ms, 606.8);
    config.math = MTK_MATH_TF32;
    expect("256 tf32", estimate(&config, SECOND_HOST).step_ms, 225.5);
    config = config_of("2.7B", 256, "fwd_bwd", "bf16");
    expect("256 bf16", estimate(&config, SECOND_HOST).step_ms, 187.6);
    config = config_of("small", 128, "fwd_bwd", "off");
    expect("small", estimate(&config, SECOND_HOST).step_ms, 29.4);
}

/* docs/measurements.md, "Steps of 16,384 tokens". */
static void long_steps_of_the_fused_model_take_as_long_as_measured(void **state)
{
    (void)state;
    enum { TOKENS = 16384, LENGTHS = 4, MODELS = 3 };
    static const int64_t lengths[LENGTHS] = {512, 1024, 4096, 8192};
    static const struct {
        const char *model;
        double ms[LENGTHS];
    } measured[MODELS] = {{"small", {26.6, 28.0, 35.1, 44.7}},
                          {"medium", {82.1, 85.9, 104.8, 130.0}},
                          {"2.7B", {571.1, 581.8, 648.2, 732.3}}};
    for (int i = 0; i < MODELS * LENGTHS; i++) {
        char what[64];
        int64_t seq = lengths[i % LENGTHS];
        struct mt_training_config config = config_of(measured[i / LENGTHS].model, seq, "fwd_bwd", "bf16");
        config.implementation = MT_IMPLEMENTATION_FUSED;
        config.attention = MT_ATTENTION_FLASH;
        config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE;
        config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD;
        config.batch = TOKENS / seq;
        snprintf(what, sizeof what, "%s %lld x %lld", measured[i / LENGTHS].model, (long long)seq,
                 (long long)config.batch);
        expect(what, estimate(&config, SECOND_HOST).step_ms, measured[i / LENGTHS].ms[i % LENGTHS]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_the_reference_take_as_long_as_measured),
        cmocka_unit_test(forward_and_backward_of_the_timed_row_take_as_long_as_measured),
        cmocka_unit_test(steps_on_the_second_host_take_as_long_as_measured),
        cmocka_unit_test(long_steps_of_the_fused_model_take_as_long_as_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
