/* Training at the smallest sizes: one of everything, heads of one feature, one token, one layer. All ways to compute
 * the model give the losses and gradients of the one that goes op by op. */
#include "producers/model/parameter.h"
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { STEPS = 2, MOST_PARAMETERS = 32 };

static const struct size {
    int64_t d_model, heads, d_ff, layers, seq, batch, vocab;
    bool rope;
} sizes[] = {
    {1, 1, 1, 1, 1, 1, 2, false},   {1, 1, 5, 1, 33, 3, 7, false},   {2, 2, 1, 2, 2, 3, 33, false},
    {3, 3, 5, 1, 5, 2, 7, false},   {2, 1, 3, 1, 3, 1, 2, true},     {4, 2, 1, 1, 1, 3, 3, true},
    {16, 1, 24, 1, 1, 1, 2, true},  {17, 1, 1, 2, 33, 1, 7, false},  {16, 1, 5, 1, 31, 3, 257, false},
    {80, 1, 7, 1, 65, 1, 2, true},  {128, 1, 1, 1, 33, 1, 3, false}, {72, 3, 24, 1, 33, 1, 33, true},
    {160, 2, 5, 1, 1, 3, 7, true},  {34, 2, 5, 1, 2, 3, 33, false},  {5, 5, 300, 1, 63, 1, 300, false},
    {272, 17, 9, 1, 3, 1, 5, true},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static const struct way {
    const char *name;
    mt_implementation_kind implementation;
    mt_attention_kind attention;
    mt_checkpoint checkpoint;
    mt_optimizer_in_backward optimizer_in_backward;
} ways[] = {
    {"custom", MT_IMPLEMENTATION_EAGER, MT_ATTENTION_CUSTOM, MT_CHECKPOINT_OFF, MT_OPTIMIZER_IN_BACKWARD_OFF},
    {"softmax", MT_IMPLEMENTATION_EAGER, MT_ATTENTION_SOFTMAX, MT_CHECKPOINT_OFF, MT_OPTIMIZER_IN_BACKWARD_OFF},
    {"weights", MT_IMPLEMENTATION_EAGER, MT_ATTENTION_WEIGHTS, MT_CHECKPOINT_OFF, MT_OPTIMIZER_IN_BACKWARD_OFF},
    {"flash", MT_IMPLEMENTATION_EAGER, MT_ATTENTION_FLASH, MT_CHECKPOINT_OFF, MT_OPTIMIZER_IN_BACKWARD_OFF},
    {"fused weights", MT_IMPLEMENTATION_FUSED, MT_ATTENTION_WEIGHTS, MT_CHECKPOINT_BLOCK, MT_OPTIMIZER_IN_BACKWARD_ON},
    {"fused flash", MT_IMPLEMENTATION_FUSED, MT_ATTENTION_FLASH, MT_CHECKPOINT_OFF, MT_OPTIMIZER_IN_BACKWARD_BESIDE},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Uses fp64 and the reference's values, so that ways differ only by rounding. */
static struct mt_training_config config_of(const struct size *size, const struct way *way)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){.name = "custom",
                                            .vocab = size->vocab,
                                            .d_model = size->d_model,
                                            .d_ff = size->d_ff,
                                            .layers = size->layers,
                                            .heads = size->heads,
                                            .rope = size->rope};
    config.batch = size->batch;
    config.seq = size->seq;
    config.steps = STEPS;
    config.parameter_dtype = MT_F64;
    config.init = MT_INIT_REFERENCE;
    config.data = MT_DATA_REFERENCE;
    config.implementation = way->implementation;
    config.attention = way->attention;
    config.checkpoint = way->checkpoint;
    config.optimizer_in_backward = way->optimizer_in_backward;
    return config;
}

/* The results of a run: losses, and the gradients' norms by name. */
struct told {
    double losses[STEPS], norms[MOST_PARAMETERS];
    char names[MOST_PARAMETERS][MT_PARAMETER_NAME];
    int count;
};

static void keep_loss(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)step_ms;
    ((struct told *)context)->losses[step] = loss;
}

static void keep_norm(void *context, const char *parameter, double norm)
{
    struct told *told = context;
    assert_true(told->count < MOST_PARAMETERS);
    snprintf(told->names[told->count], MT_PARAMETER_NAME, "%s", parameter);
    told->norms[told->count++] = norm;
}

static mt_status train(const struct mt_training_config *config, struct told *out)
{
    struct recording recording;
    *out = (struct told){0};
    const struct mt_training_observer observer = {.context = out, .step_done = keep_loss, .grad_norm = keep_norm};
    recording_open(&recording);
    mt_status status = recording_train(&recording, "cpu:1GiB", "", config, &observer, NULL);
    recording_close(&recording);
    return status;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b) + 1e-12;
}

static double norm_of(const struct told *told, const char *name)
{
    for (int i = 0; i < told->count; i++)
        if (strcmp(told->names[i], name) == 0)
            return told->norms[i];
    fail_msg("%s has no gradient", name);
    return 0;
}

static void expect_alike(size_t size, const struct way *way, const struct told *got, const struct told *expected)
{
    for (int step = 0; step < STEPS; step++)
        if (!is_near(got->losses[step], expected->losses[step]))
            fail_msg("size %zu, %s, step %d: a loss of %.12g, op by op %.12g", size, way->name, step, got->losses[step],
                     expected->losses[step]);
    assert_int_equal(got->count, expected->count);
    for (int i = 0; i < expected->count; i++)
        if (!is_near(norm_of(got, expected->names[i]), expected->norms[i]))
            fail_msg("size %zu, %s, %s: a gradient of %.12g, op by op %.12g", size, way->name, expected->names[i],
                     norm_of(got, expected->names[i]), expected->norms[i]);
}

static void all_ways_are_alike_at_odd_sizes(void **state)
{
    (void)state;
    int compared = 0;
    for (size_t i = 0; i < SIZES; i++) {
        struct told op_by_op, told;
        struct mt_training_config config = config_of(&sizes[i], &ways[0]);
        if (train(&config, &op_by_op) != MT_OK)
            fail_msg("size %zu: %s", i, mt_last_error());
        for (size_t w = 1; w < WAYS; w++) {
            config = config_of(&sizes[i], &ways[w]);
            if (config.attention == MT_ATTENTION_FLASH && !mt_attention_takes_flash(&config.model))
                continue;
            if (train(&config, &told) != MT_OK)
                fail_msg("size %zu, %s: %s", i, ways[w].name, mt_last_error());
            expect_alike(i, &ways[w], &told, &op_by_op);
            compared++;
        }
    }
    assert_true(compared > 3 * SIZES);
}

/* In bf16 so small a model is too inexact to compare; the test only checks that it trains. */
static void autocast_trains_at_odd_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t w = 0; w < WAYS; w++) {
            struct told told;
            struct mt_training_config config = config_of(&sizes[i], &ways[w]);
            config.parameter_dtype = MT_F32;
            config.autocast = true;
            if (config.attention == MT_ATTENTION_FLASH && !mt_attention_takes_flash(&config.model))
                continue;
            if (train(&config, &told) != MT_OK)
                fail_msg("size %zu, %s: %s", i, ways[w].name, mt_last_error());
            assert_true(isfinite(told.losses[STEPS - 1]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_are_alike_at_odd_sizes),
        cmocka_unit_test(autocast_trains_at_odd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
