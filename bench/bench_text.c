/* How far the fused model's losses are from the eager model's over 200 steps of training on real text, byte by byte, in
 * fp32, TF32 and under bf16 autocast, with everything kept and with the least. Beside it stands how far the eager model's
 * own losses are from those in fp32.
 *
 *   bench_text [FILE [DEVICE]]
 *
 * FILE is the text, the project's documentation unless given; DEVICE is cuda. Where there is no usable card nothing is
 * measured. */
#include "bench/report.h"
#include "tests/text_training.h"

#include <stdio.h>

static const struct {
    const char *name;
    bool autocast;
    mtk_math math;
} precisions[] = {{"fp32", false, MTK_MATH_FP32}, {"TF32", false, MTK_MATH_TF32}, {"bf16", true, MTK_MATH_FP32}};

enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* What both implementations train, and where. */
struct text_subject {
    const char *device, *file;
};

static struct mt_training_config config_of(const struct text_subject *subject, int precision)
{
    struct mt_training_config config = text_config_large(subject->file);
    config.autocast = precisions[precision].autocast;
    config.math = precisions[precision].math;
    return config;
}

/* The figures of one precision. `exact` are the eager model's losses in fp32, which the first precision fills: what its
 * losses are away from those, in another, is the precision's own doing. */
static mt_status compare(const struct text_subject *subject, int precision, struct text_losses *exact)
{
    struct text_losses eager, fused, least;
    struct mt_training_config config = config_of(subject, precision);
    char what[128];
    int step, other_step;
    mt_status status = text_train(subject->device, &config, &eager);
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    if (status == MT_OK)
        status = text_train(subject->device, &config, &fused);
    if (precision == 0)
        *exact = eager;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    if (status == MT_OK)
        status = text_train(subject->device, &config, &least);
    if (status != MT_OK)
        return status;
    const char *name = precisions[precision].name;
    double deviation = text_deviation(&eager, &fused, &step);
    snprintf(what, sizeof what, "text: fused losses beside eager ones, %s, farthest of %d steps", name, TEXT_STEPS);
    double own = precision == 0 ? NAN : text_deviation(exact, &eager, &other_step);
    bench_report(what, "relative", deviation, own, BENCH_AT_MOST, TEXT_MOST_DEVIATION);
    fprintf(stderr, "text: %s: loss %.4f, at the end %.4f, eager %.4f; farthest at step %d, by %.2g of %.4f\n", name,
            fused.of[0], text_last_loss(&fused), text_last_loss(&eager), step, deviation, eager.of[step]);
    snprintf(what, sizeof what, "text: recomputed and updated early beside kept, %s", name);
    bench_report(what, "relative", text_deviation(&fused, &least, &other_step), NAN, BENCH_AT_MOST, 0);
    return MT_OK;
}

int main(int count, char **arguments)
{
    const struct text_subject subject = {.file = count > 1 ? arguments[1] : MT_TEST_DATA "/../../docs/schema.md",
                                         .device = count > 2 ? arguments[2] : "cuda"};
    struct text_losses exact;
    for (int i = 0; i < PRECISIONS; i++) {
        mt_status status = compare(&subject, i, &exact);
        if (status == MT_NO_DEVICE)
            break;
        if (status == MT_OK)
            continue;
        fprintf(stderr, "text: %s\n", mt_last_error());
        return 1;
    }
    return 0;
}
