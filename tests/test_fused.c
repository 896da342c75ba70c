/* The fused model: it computes the results of the golden file and of the eager model, in less memory, with the same
 * sequence of events on every device. The device (cpu) and the golden file may be given as arguments. */
#include "fused_bench.h"
#include "golden_cases.h"
#include "gpu.h"
#include "model/graph.h"
#include "model/optimizer.h"
#include "model/transformer.h"

/* ---- against the golden file ---- */

struct comparison {
    const json_t *golden;
    struct golden_tolerance tolerance; /* the eager model's */
    bool gradients;
    int64_t step;
};

static void compare_parts(struct bench_model *m, const struct comparison *c)
{
    const json_t *all = json_object_get(c->golden, c->gradients ? "grads" : "params_after");
    assert_int_equal(m->model.part_count, json_object_size(all));
    for (int64_t i = 0; i < m->model.part_count; i++) {
        const struct mt_fused_part *part = &m->model.parts[i];
        double *values = read_part(m, part, c->gradients);
        golden_expect_values(part->name, json_object_get(all, part->name), values, part_count(part), &c->tolerance);
        free(values);
    }
}

static void compare_gradients(struct bench_model *m, void *context)
{
    const struct comparison *c = context;
    if (c->step == 0)
        compare_parts(m, c);
}

static void check_golden(const json_t *golden, const struct mt_training_config *config)
{
    struct comparison c = {.golden = golden, .gradients = true, .tolerance = golden_tolerance_of(config)};
    struct bench_model m;
    open_model(&m, config);
    for (c.step = 0; c.step < GOLDEN_STEPS; c.step++)
        golden_expect_loss(golden, c.step, train_step(&m, c.step, compare_gradients, &c), &c.tolerance);
    c.gradients = false;
    compare_parts(&m, &c);
    close_model(&m);
}

static void every_case_of_the_golden_file_is_followed(void **state)
{
    (void)state;
    json_t *cases = golden_load(), *golden;
    size_t i, with_flash = 0;
    json_array_foreach(cases, i, golden)
    {
        struct mt_training_config config = golden_config(golden);
        config.implementation = MT_IMPLEMENTATION_FUSED;
        config.attention = MT_ATTENTION_WEIGHTS;
        print_message("%s\n", json_string_value(json_object_get(golden, "name")));
        check_golden(golden, &config);
        config.loss_slices = 3;
        check_golden(golden, &config);
        config.loss_slices = 1;
        if (!mt_attention_takes_flash(&config.model))
            continue;
        config.attention = MT_ATTENTION_FLASH;
        check_golden(golden, &config);
        with_flash++;
    }
    print_message("%zu cases, %zu of them with flash attention, too\n", i, with_flash);
    assert_true(i >= GOLDEN_LEAST_CASES);
    json_decref(cases);
}

/* ---- against the eager model, and itself ---- */

/* The gradients of the eager model after its first backward, in the order of its parameters. */
struct eager_gradients {
    int64_t count;
    char (*names)[MT_PARAMETER_NAME];
    double **values;
};

static void run_eager(struct bench_model *m, struct mt_transformer *model, struct eager_gradients *out)
{
    struct mt_tensor *inputs, *targets;
    mt_token_source_next(&m->rt, m->tokens, 0, &inputs, &targets);
    struct mt_tensor *logits = mt_transformer_forward(&m->rt, model, inputs);
    struct mt_tensor *loss = mt_cross_entropy(&m->rt, logits, targets);
    mt_graph_backward(&m->rt, loss);
    assert_int_equal(m->rt.status, MT_OK);
    out->count = model->parameter_count;
    out->names = mt_host_alloc((size_t)out->count * sizeof *out->names);
    out->values = mt_host_alloc((size_t)out->count * sizeof *out->values);
    for (int64_t i = 0; i < out->count; i++) {
        snprintf(out->names[i], sizeof out->names[i], "%s", model->parameters[i].name);
        out->values[i] = read_all(&m->rt, model->parameters[i].grad);
    }
    mt_tensor_release(&m->rt, inputs);
    mt_tensor_release(&m->rt, targets);
    mt_tensor_release(&m->rt, logits);
    mt_tensor_release(&m->rt, loss);
}

static const double *eager_gradient(const struct eager_gradients *eager, const char *name)
{
    for (int64_t i = 0; i < eager->count; i++)
        if (strcmp(eager->names[i], name) == 0)
            return eager->values[i];
    fail_msg("the eager model has no %s", name);
    return NULL;
}

static void compare_with_eager(struct bench_model *m, void *context)
{
    const struct eager_gradients *eager = context;
    assert_int_equal(m->model.part_count, eager->count);
    for (int64_t i = 0; i < m->model.part_count; i++) {
        const struct mt_fused_part *part = &m->model.parts[i];
        const double *expected = eager_gradient(eager, part->name);
        double *values = read_part(m, part, true);
        for (size_t j = 0; j < part_count(part); j++)
            if (!(fabs(values[j] - expected[j]) <= 1e-11 * (1 + fabs(expected[j]))))
                fail_msg("%s[%zu]: %.15g, eager %.15g", part->name, j, values[j], expected[j]);
        free(values);
    }
}

static void every_element_of_every_gradient_is_the_eager_models(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct eager_gradients eager;
    struct mt_transformer transformer;
    struct bench_model m;
    config.parameter_dtype = MT_F64;
    open_model(&m, &config);
    mt_transformer_create(&m.rt, &config, &transformer);
    run_eager(&m, &transformer, &eager);
    mt_transformer_destroy(&m.rt, &transformer);
    train_step(&m, 0, compare_with_eager, &eager);
    close_model(&m);
    config.loss_slices = 4;
    open_model(&m, &config);
    train_step(&m, 0, compare_with_eager, &eager);
    close_model(&m);
    config.loss_slices = 1;
    config.attention = MT_ATTENTION_FLASH;
    if (strcmp(test_device, "cuda") != 0) { /* whose flash attention knows no fp64; the golden cases test it in fp32 */
        open_model(&m, &config);
        train_step(&m, 0, compare_with_eager, &eager);
        close_model(&m);
    }
    for (int64_t i = 0; i < eager.count; i++)
        free(eager.values[i]);
    free(eager.values);
    free(eager.names);
}

static void backward_once_more(struct bench_model *m, void *context)
{
    struct mt_tensor *inputs, *targets;
    int64_t which = *(int *)context % 12 == 11 ? m->model.part_count - 1 : *(int *)context % 12; /* the head, too */
    const struct mt_fused_part *part = &m->model.parts[which];
    double *once = read_part(m, part, true), *twice;
    mt_fused_end_step(&m->rt, &m->model);
    mt_token_source_next(&m->rt, m->tokens, 0, &inputs, &targets);
    mt_fused_forward(&m->rt, &m->model, inputs);
    mt_fused_loss(&m->rt, &m->model, targets);
    mt_fused_backward(&m->rt, &m->model, 1, m->watch);
    assert_int_equal(m->rt.status, MT_OK);
    twice = read_part(m, part, true);
    for (size_t i = 0; i < part_count(part); i++)
        if (!(fabs(twice[i] - 2 * once[i]) <= 1e-13 * (1 + fabs(once[i]))))
            fail_msg("%s[%zu]: %.15g after %.15g", part->name, i, twice[i], once[i]);
    mt_tensor_release(&m->rt, inputs);
    mt_tensor_release(&m->rt, targets);
    free(once);
    free(twice);
}

static void a_second_backward_adds_to_the_gradients_that_are_there(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    config.parameter_dtype = MT_F64;
    config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD; /* a sliced loss would release what is there */
    for (int part = 0; part < 24; part++) {
        struct bench_model m;
        config.loss_slices = 1 + part / 12;
        open_model(&m, &config);
        train_step(&m, 0, backward_once_more, &part);
        close_model(&m);
    }
}

/* The lifetime of casts changes the time at which they are computed, and nothing else. */
static void expect_losses_of_any_cast(mtk_math math)
{
    static const mt_weight_cast casts[] = {MT_WEIGHT_CAST_REGION, MT_WEIGHT_CAST_LAYER, MT_WEIGHT_CAST_PERSISTENT};
    double losses[3][GOLDEN_STEPS];
    for (int i = 0; i < 6; i++) {
        struct mt_training_config config = small_config();
        struct bench_model m;
        config.autocast = true;
        config.math = math;
        config.weight_cast = casts[i % 3];
        config.loss_slices = i < 3 ? 1 : 3;
        open_model(&m, &config);
        for (int64_t step = 0; step < GOLDEN_STEPS; step++)
            losses[i % 3][step] = train_step(&m, step, NULL, NULL);
        close_model(&m);
        assert_memory_equal(losses[i % 3], losses[0], sizeof losses[0]);
    }
    assert_true(losses[0][GOLDEN_STEPS - 1] < losses[0][0] - 0.2);
}

static void weights_that_are_cast_once_or_often_give_the_same_losses(void **state)
{
    (void)state;
    expect_losses_of_any_cast(MTK_MATH_FP32);
    if (takes_fp8(test_device))
        expect_losses_of_any_cast(MTK_MATH_FP8);
}

/* ---- runs ---- */

static const struct setup {
    mt_mode mode;
    bool autocast, rope;
    mt_weight_cast weight_cast;
    mt_attention_kind attention;
    mt_zero_grad zero_grad;
    const char *alloc;
    mt_checkpoint checkpoint;
    mt_optimizer_in_backward optimizer_in_backward;
    mtk_math math;
    mtk_moments moments;
    int64_t loss_slices; /* 0: 1 */
} setups[] = {
    {.mode = MT_MODE_FWD_BWD, .attention = MT_ATTENTION_WEIGHTS, .alloc = ""},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "policy=torch"},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = ""},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .rope = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_WEIGHTS,
     .alloc = ""},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = ""},
    {.mode = MT_MODE_FWD, .autocast = true, .attention = MT_ATTENTION_WEIGHTS, .alloc = ""},
    {.mode = MT_MODE_FWD, .attention = MT_ATTENTION_FLASH, .alloc = ""},
    {.mode = MT_MODE_INFER, .autocast = true, .rope = true, .attention = MT_ATTENTION_FLASH, .alloc = ""},
    {.mode = MT_MODE_INFER, .attention = MT_ATTENTION_WEIGHTS, .alloc = ""},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .rope = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .attention = MT_ATTENTION_WEIGHTS,
     .alloc = "",
     .checkpoint = MT_CHECKPOINT_BLOCK},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "policy=torch",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON},
    {.mode = MT_MODE_FWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .checkpoint = MT_CHECKPOINT_BLOCK},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .math = MTK_MATH_TF32},
    {.mode = MT_MODE_FWD_BWD,
     .attention = MT_ATTENTION_WEIGHTS,
     .alloc = "policy=torch",
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON,
     .math = MTK_MATH_TF32},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .moments = MTK_MOMENTS_BF16},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "policy=torch",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON,
     .moments = MTK_MOMENTS_8BIT},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .rope = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE,
     .moments = MTK_MOMENTS_8BIT},
    {.mode = MT_MODE_FWD_BWD,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .loss_slices = 4},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_REGION,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "policy=torch",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON,
     .loss_slices = 3},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_WEIGHTS,
     .alloc = "",
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE,
     .moments = MTK_MOMENTS_BF16,
     .loss_slices = 1000},
    {.mode = MT_MODE_FWD_BWD,
     .attention = MT_ATTENTION_WEIGHTS,
     .zero_grad = MT_ZERO_GRAD_BEFORE_BACKWARD,
     .alloc = "",
     .math = MTK_MATH_TF32,
     .loss_slices = 2},
    {.mode = MT_MODE_FWD, .attention = MT_ATTENTION_FLASH, .alloc = "", .loss_slices = 4},
    {.mode = MT_MODE_INFER, .autocast = true, .attention = MT_ATTENTION_FLASH, .alloc = "", .loss_slices = 4},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .rope = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .attention = MT_ATTENTION_FLASH,
     .zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD,
     .alloc = "",
     .math = MTK_MATH_FP8},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .attention = MT_ATTENTION_WEIGHTS,
     .alloc = "policy=torch",
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON,
     .math = MTK_MATH_FP8},
    {.mode = MT_MODE_FWD, .autocast = true, .attention = MT_ATTENTION_FLASH, .alloc = "", .math = MTK_MATH_FP8},
    {.mode = MT_MODE_INFER,
     .autocast = true,
     .rope = true,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .math = MTK_MATH_FP8},
    {.mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .attention = MT_ATTENTION_FLASH,
     .alloc = "",
     .math = MTK_MATH_FP8,
     .moments = MTK_MOMENTS_8BIT,
     .loss_slices = 3},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static struct mt_training_config config_of_setup(size_t i)
{
    struct mt_training_config config = small_config();
    config.mode = setups[i].mode;
    config.autocast = setups[i].autocast;
    config.model.rope = setups[i].rope;
    config.weight_cast = setups[i].weight_cast;
    config.attention = setups[i].attention;
    config.zero_grad = setups[i].zero_grad;
    config.checkpoint = setups[i].checkpoint;
    config.optimizer_in_backward = setups[i].optimizer_in_backward;
    config.math = setups[i].math;
    config.moments = setups[i].moments;
    if (setups[i].loss_slices != 0)
        config.loss_slices = setups[i].loss_slices;
    config.warmup = 1;
    return config;
}

static void sim_and_the_device_emit_one_sequence(void **state)
{
    (void)state;
    for (size_t setup = 0; setup < SETUPS; setup++) {
        if (setups[setup].math == MTK_MATH_FP8 && !takes_fp8(test_device))
            continue;
        struct mt_training_config config = config_of_setup(setup);
        long differs = first_difference(&config, setups[setup].alloc);
        if (differs >= 0)
            fail_msg("setup %zu: event %ld differs", setup, differs);
    }
}

/* Every block is labelled in full, and every block that a step took is given back in it, but gradients and moments. */
static void every_block_is_known(void **state)
{
    (void)state;
    for (size_t setup = 0; setup < SETUPS; setup++) {
        struct recording recording;
        struct mt_training_config config = config_of_setup(setup);
        record_training(&recording, &config, setups[setup].alloc, "sim");
        for (size_t i = 0; i < recording.count; i++) {
            const struct mt_event *event = &recording.events[i];
            if (event->kind != MT_EVENT_ALLOC && event->kind != MT_EVENT_FREE)
                continue;
            const struct mt_label *label = recording_label_of(&recording, event);
            assert_non_null(label);
            assert_true(label->op[0] != '\0' && label->category < MT_CATEGORY_COUNT && label->phase < MT_PHASE_COUNT);
            assert_true(label->span == event->span && event->span != 0);
        }
        recording_close(&recording);
    }
}

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

/* A table that lacks an op is refused before anything is taken from the device. */
static void a_device_without_the_kernels_is_refused(void **state)
{
    (void)state;
    struct mtk_table without = mtk_cpu;
    struct mt_training_config config = small_config();
    struct recording recording;
    struct mt_sink sink;
    struct mt_alloc_settings settings;
    struct mt_alloc *alloc;
    struct mt_device *device;
    without.adamw = NULL;
    recording_open(&recording);
    sink = recording_sink(&recording);
    assert_int_equal(mt_alloc_settings_parse("", &settings), MT_OK);
    assert_int_equal(mt_device_open("cpu:64MiB", &device), MT_OK);
    assert_int_equal(mt_alloc_create(device, &sink, &settings, &alloc), MT_OK);
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
        expect_refused(&config, "it takes moments fp32");
        config.optimizer = MT_OPTIMIZER_ADAMW;
        config.parameter_dtype = MT_F64;
        expect_refused(&config, "not of fp64");
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

int main(int count, char **arguments)
{
    if (count > 2)
        golden_path = arguments[2];
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_golden_file_is_followed),
        cmocka_unit_test(every_element_of_every_gradient_is_the_eager_models),
        cmocka_unit_test(a_second_backward_adds_to_the_gradients_that_are_there),
        cmocka_unit_test(weights_that_are_cast_once_or_often_give_the_same_losses),
        cmocka_unit_test(sim_and_the_device_emit_one_sequence),
        cmocka_unit_test(every_block_is_known),
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
