/* Settings of the fused model without a card: what they take at their peaks, and which are refused. */
#include "alloc_opening.h"
#include "fused_bench.h"

/* ---- peaks ---- */

/* Parameters, gradients and two moments are 16 bytes a parameter; a step needs all of them at its end. */
static uint64_t state_bytes(const struct mt_training_config *config)
{
    return 16 * mt_model_parameter_count(&config->model);
}

static void a_step_takes_less_than_the_eager_one(void **state)
{
    (void)state;
    for (int64_t seq = 128; seq <= 512; seq *= 2)
        for (int autocast = 0; autocast < 2; autocast++) {
            struct mt_training_config fused = course_config(seq), eager = mt_training_config_default();
            fused.autocast = eager.autocast = autocast == 1;
            eager.seq = seq;
            eager.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD;
            uint64_t ours = peak_of(fused), theirs = peak_of(eager);
            print_message("seq %lld, %s: %.2f GiB, eager %.2f, state %.2f\n", (long long)seq,
                          autocast == 1 ? "bf16" : "fp32", (double)ours / 0x1p30, (double)theirs / 0x1p30,
                          (double)state_bytes(&fused) / 0x1p30);
            assert_true(ours < theirs);
        }
}

/* The memory of a step beyond the state, if casts live for one product: the last block's tensors, and workspaces. */
static void casts_of_a_layer_leave_the_peak_to_the_state(void **state)
{
    (void)state;
    struct mt_training_config config = course_config(512);
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    uint64_t layer = peak_of(config), least = state_bytes(&config);
    config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
    uint64_t persistent = peak_of(config), casts = 2 * mt_model_parameter_count(&config.model);
    print_message("layer %.2f GiB, persistent %.2f, state %.2f\n", (double)layer / 0x1p30, (double)persistent / 0x1p30,
                  (double)least / 0x1p30);
    assert_true(layer - least < (uint64_t)700 << 20);
    assert_true(persistent < layer + casts);
}

/* ---- refusals ---- */

/* A table that lacks an op is refused before anything is taken from the device. */
static void a_device_without_the_kernels_is_refused(void **state)
{
    (void)state;
    struct mtk_table without = mtk_cpu;
    struct mt_training_config config = small_config();
    struct recording recording;
    struct mt_sink sink;
    without.adamw = NULL;
    recording_open(&recording);
    sink = recording_sink(&recording);
    struct mt_device *device = open_device("cpu:64MiB");
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    device->kernels = &without;
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "impl eager"));
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    recording_close(&recording);
}

static void expect_refused(const struct mt_training_config *config, const char *hint)
{
    assert_int_equal(mt_training_config_check(config), MT_USAGE);
    if (strstr(mt_last_error(), hint) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", mt_last_error(), hint);
}

static void slices_are_of_the_fused_model(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    config.loss_slices = 8;
    assert_int_equal(mt_training_config_check(&config), MT_OK);
    config.implementation = MT_IMPLEMENTATION_EAGER;
    expect_refused(&config, "impl fused knows loss-slices");
    config.loss_slices = 0;
    expect_refused(&config, "it must be from 1 to");
}

static void moments_that_nobody_keeps_are_refused(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    for (config.moments = MTK_MOMENTS_BF16; config.moments <= MTK_MOMENTS_8BIT; config.moments++) {
        assert_int_equal(mt_training_config_check(&config), MT_OK);
        config.implementation = MT_IMPLEMENTATION_EAGER;
        expect_refused(&config, "impl fused knows moments bf16 and 8bit");
        config.implementation = MT_IMPLEMENTATION_FUSED;
        config.optimizer = MT_OPTIMIZER_NONE;
        expect_refused(&config, "it needs moments fp32");
        config.optimizer = MT_OPTIMIZER_ADAMW;
        config.parameter_dtype = MT_F64;
        expect_refused(&config, "not fp64");
        config.parameter_dtype = MT_F32;
    }
}

static void settings_that_exclude_each_other_are_refused(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    config.attention = MT_ATTENTION_CUSTOM;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    config.implementation = MT_IMPLEMENTATION_EAGER;
    assert_int_equal(mt_training_config_check(&config), MT_OK);
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    config.autocast = false;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "impl fused"));
    config.checkpoint = MT_CHECKPOINT_OFF;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "impl fused"));
    config = small_config();
    config.cuda_graph = true;
    assert_int_equal(mt_training_config_check(&config), MT_OK);
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "cuda-graph on"));
}

static void fp8_takes_bf16_sizes_in_sixteens_and_a_card_with_units(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    config.math = MTK_MATH_FP8;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "autocast bf16"));
    config.autocast = MT_AUTOCAST_BF16;
    assert_int_equal(mt_training_config_check(&config), MT_OK);
    config.model.d_ff += 8;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "d_ff 88"));
    config.model.d_ff -= 8;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim:a100-80gb", "", &config, NULL, NULL), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "compute capability 8.0"));
    assert_int_equal(recording_train(&recording, "sim:l4", "", &config, NULL, NULL), MT_OK);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_less_than_the_eager_one),
        cmocka_unit_test(casts_of_a_layer_leave_the_peak_to_the_state),
        cmocka_unit_test(a_device_without_the_kernels_is_refused),
        cmocka_unit_test(settings_that_exclude_each_other_are_refused),
        cmocka_unit_test(slices_are_of_the_fused_model),
        cmocka_unit_test(moments_that_nobody_keeps_are_refused),
        cmocka_unit_test(fp8_takes_bf16_sizes_in_sixteens_and_a_card_with_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
