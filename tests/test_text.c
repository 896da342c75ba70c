/* Training on real text, the project's own documentation: over 200 steps the fused model's losses follow the eager model's.
 * What a few steps leave in the last digits has had time to grow by then. */
#include "text_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char device[] = "cpu:1GiB";

/* The CPU's kernels compute in double and round once, so there it is far below what holds everywhere. */
static const double MOST_DEVIATION = 1e-5;

static struct text_losses train(const struct mt_training_config *config)
{
    struct text_losses losses = {{0}};
    if (text_train(device, config, &losses) != MT_OK)
        fail_msg("%s", mt_last_error());
    return losses;
}

static void fused_losses_follow_eager_ones(void **state)
{
    (void)state;
    static const mt_attention_kind attentions[] = {MT_ATTENTION_FLASH, MT_ATTENTION_WEIGHTS};
    struct mt_training_config config = text_config_small(MT_TEST_DATA "/../../docs/schema.md");
    const struct text_losses eager = train(&config);
    assert_true(text_last_loss(&eager) < TEXT_MOST_LEFT * eager.of[0]);
    config.implementation = MT_IMPLEMENTATION_FUSED;
    for (int i = 0; i < 2; i++) {
        config.attention = attentions[i];
        const struct text_losses fused = train(&config);
        int step;
        double deviation = text_deviation(&eager, &fused, &step);
        print_message("loss %.4f, at the end %.4f; farthest from eager at step %d, by %.2g of %.4f\n", fused.of[0],
                      text_last_loss(&fused), step, deviation, eager.of[step]);
        if (!(deviation <= MOST_DEVIATION))
            fail_msg("%.3g where %.3g is allowed", deviation, MOST_DEVIATION);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_losses_follow_eager_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
