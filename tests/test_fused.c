/* The fused model: it computes the results of the golden file and of the eager model, with the same sequence of events
 * on every device. The device (cpu) and the golden file may be given as arguments. */
#include "fused_bench.h"
#include "golden_cases.h"
#include "gpu.h"
#include "producers/model/graph.h"
#include "producers/model/optimizer.h"
#include "producers/model/transformer.h"

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
        recording_expect_labels(&recording);
        recording_close(&recording);
    }
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
