/* Training on real text, the project's own documentation: over 200 steps the fused model's losses follow the eager
 * model's. What a few steps leave in the last digits has had time to grow by then. */
#include "text_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char device[] = "cpu:1GiB";

static struct text_losses train(const struct mt_training_config *config)
{
    struct text_losses losses = {{0}};
    if (text_train(device, config, &losses) != MT_OK)
        fail_msg("%s", mt_last_error());
    return losses;
}

static struct mt_training_config config_of_text(void)
{
    return text_config_small(MT_TEST_DATA "/../../docs/schema.md");
}

static struct mt_training_config config_of_flash(bool autocast)
{
    struct mt_training_config config = config_of_text();
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    config.autocast = autocast;
    return config;
}

/* Trains the fused model with flash attention. Several tests compare with it, so each precision is trained once. */
static const struct text_losses *train_flash(bool autocast)
{
    static struct text_losses losses[2];
    static bool is_trained[2];
    if (!is_trained[autocast]) {
        const struct mt_training_config config = config_of_flash(autocast);
        losses[autocast] = train(&config);
        is_trained[autocast] = true;
    }
    return &losses[autocast];
}

/* Trains as `config` says, eager, and then fused with some attentions. */
static void expect_fused_near_eager(struct mt_training_config config, const mt_attention_kind *attentions, int count,
                                    double most)
{
    const struct text_losses eager = train(&config);
    assert_true(text_last_loss(&eager) < TEXT_MOST_LEFT * eager.of[0]);
    config.implementation = MT_IMPLEMENTATION_FUSED;
    for (int i = 0; i < count; i++) {
        config.attention = attentions[i];
        const bool is_common = config.attention == MT_ATTENTION_FLASH && config.math == MTK_MATH_FP32;
        const struct text_losses fused = is_common ? *train_flash(config.autocast) : train(&config);
        int step;
        double deviation = text_deviation(&eager, &fused, &step);
        print_message("loss %.4f, at the end %.4f; farthest from eager at step %d, by %.2g of %.4f\n", fused.of[0],
                      text_last_loss(&fused), step, deviation, eager.of[step]);
        if (!(deviation <= most))
            fail_msg("%.3g where %.3g is allowed", deviation, most);
    }
}

static const mt_attention_kind attentions[] = {MT_ATTENTION_FLASH, MT_ATTENTION_WEIGHTS};

/* The CPU's kernels compute in double and round once, so there it is far below what holds everywhere. */
static void fused_losses_follow_eager_ones(void **state)
{
    (void)state;
    expect_fused_near_eager(config_of_text(), attentions, 2, 1e-5);
}

/* The bounds of these two are some times what two eager models are apart of which one began with other last bits:
 * docs/fused.md, "How near its losses are". */
static void fused_losses_follow_eager_ones_in_tf32(void **state)
{
    (void)state;
    struct mt_training_config config = config_of_text();
    config.math = MTK_MATH_TF32;
    expect_fused_near_eager(config, attentions, 1, 3e-4);
}

static void fused_losses_follow_eager_ones_in_bf16(void **state)
{
    (void)state;
    struct mt_training_config config = config_of_text();
    config.autocast = true;
    expect_fused_near_eager(config, attentions, 1, 3e-3);
}

/* Only the head's gradient is summed in another order. */
static void losses_of_a_sliced_loss_follow_those_of_the_whole(void **state)
{
    (void)state;
    struct mt_training_config config = config_of_flash(false);
    int step;
    const struct text_losses whole = *train_flash(false);
    config.loss_slices = 8;
    const struct text_losses sliced = train(&config);
    double deviation = text_deviation(&whole, &sliced, &step);
    print_message("loss in 8 slices: farthest at step %d, by %.2g of %.4f\n", step, deviation, whole.of[step]);
    if (!(deviation <= 1e-5))
        fail_msg("%.3g where 1e-5 is allowed", deviation);
}

/* Losses with narrow moments go their own way, since every step is a little different; what they reach does not. */
static void losses_with_narrow_moments_stay_near(void **state)
{
    (void)state;
    static const double most_ends[] = {[MTK_MOMENTS_BF16] = 0.01, [MTK_MOMENTS_8BIT] = 0.02};
    struct mt_training_config config = config_of_flash(false);
    const struct text_losses full = *train_flash(false);
    for (config.moments = MTK_MOMENTS_BF16; config.moments <= MTK_MOMENTS_8BIT; config.moments++) {
        const struct text_losses narrow = train(&config);
        int step;
        double deviation = text_deviation(&full, &narrow, &step), end = text_last_loss(&narrow) / text_last_loss(&full);
        print_message("moments of form %d: at the end %.4f, full %.4f; farthest at step %d, by %.2g of %.4f\n",
                      (int)config.moments, text_last_loss(&narrow), text_last_loss(&full), step, deviation,
                      full.of[step]);
        assert_true(deviation > 0); /* moments were rounded */
        if (!(fabs(end - 1) <= most_ends[config.moments]))
            fail_msg("the last losses are %.4f of those with full moments", end);
    }
}

/* Of what training in fp8 is away from bf16 in single losses, most is what training makes of any rounding; what it has
 * learned in the end is as much. */
static void fused_losses_in_fp8_follow_those_in_bf16(void **state)
{
    (void)state;
    struct mt_training_config config = config_of_flash(true);
    const struct text_losses bf16 = *train_flash(true);
    config.math = MTK_MATH_FP8;
    const struct text_losses fp8 = train(&config);
    int step;
    double deviation = text_deviation(&bf16, &fp8, &step);
    print_message("loss %.4f, at the end %.4f, and %.4f in bf16; farthest at step %d, by %.2g of %.4f\n", fp8.of[0],
                  text_last_loss(&fp8), text_last_loss(&bf16), step, deviation, bf16.of[step]);
    assert_true(deviation <= 0.03 && fabs(text_last_loss(&fp8) / text_last_loss(&bf16) - 1) <= 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_losses_follow_eager_ones),
        cmocka_unit_test(fused_losses_follow_eager_ones_in_tf32),
        cmocka_unit_test(fused_losses_follow_eager_ones_in_bf16),
        cmocka_unit_test(losses_of_a_sliced_loss_follow_those_of_the_whole),
        cmocka_unit_test(losses_with_narrow_moments_stay_near),
        cmocka_unit_test(fused_losses_in_fp8_follow_those_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
