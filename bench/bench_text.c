/* Differences between the losses of the fused and the eager model over 200 steps of training on real text, byte by
 * byte. Both train in fp32, in TF32 and under bf16 autocast; the fused model also with the least kept, with the loss in
 * slices, and with moments of fewer bits. For comparison, the losses of both models are set beside those of the eager
 * model in fp32. Last comes the fused model in fp8, beside itself in bf16.
 *
 *   bench_text [FILE [DEVICE]]
 *
 * FILE is the text, the project's documentation unless given; DEVICE is cuda. Without a usable card nothing is
 * measured. */
#include "bench/report.h"
#include "tests/text_training.h"

#include <stdio.h>

static const struct {
    const char *name;
    bool autocast;
    mtk_math math;
} precisions[] = {{"fp32", false, MTK_MATH_FP32}, {"TF32", false, MTK_MATH_TF32}, {"bf16", true, MTK_MATH_FP32}};

enum { BF16 = 2, PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* The device and the text that both implementations train on. */
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

/* The losses of one precision: of the eager model, of the fused one, of that with the least kept, of that with the
 * loss in slices, and of that with moments in bf16 and in 8 bits. */
struct text_kinds {
    struct text_losses eager, fused, least, sliced, bf16_moments, codes;
};

static mt_status train_smaller(const struct text_subject *subject, struct mt_training_config config,
                               struct text_kinds *out)
{
    config.loss_slices = 8;
    mt_status status = text_train(subject->device, &config, &out->sliced);
    config.loss_slices = 1;
    config.moments = MTK_MOMENTS_BF16;
    if (status == MT_OK)
        status = text_train(subject->device, &config, &out->bf16_moments);
    config.moments = MTK_MOMENTS_8BIT;
    return status == MT_OK ? text_train(subject->device, &config, &out->codes) : status;
}

static mt_status train_all(const struct text_subject *subject, int precision, struct text_kinds *out)
{
    struct mt_training_config config = config_of(subject, precision);
    mt_status status = text_train(subject->device, &config, &out->eager);
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    if (status == MT_OK)
        status = text_train(subject->device, &config, &out->fused);
    if (status == MT_OK)
        status = train_smaller(subject, config, out);
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    return status == MT_OK ? text_train(subject->device, &config, &out->least) : status;
}

/* Reports how far losses with narrow moments are from those with full ones, and in their end. */
static void report_moments(const char *name, const char *form, const struct text_losses *full,
                           const struct text_losses *narrow)
{
    char what[128];
    int step;
    snprintf(what, sizeof what, "text: moments %s beside fp32, %s, farthest of %d steps", form, name, TEXT_STEPS);
    bench_report(what, "relative", text_deviation(full, narrow, &step), NAN, "", 0);
    snprintf(what, sizeof what, "text: moments %s beside fp32, %s, last %d losses", form, name, TEXT_LAST_STEPS);
    bench_report(what, "relative", fabs(text_last_loss(narrow) / text_last_loss(full) - 1), NAN, BENCH_AT_MOST, 0.01);
}

/* `exact` are the eager model's losses in fp32: what its losses are away from those, in another precision, is the
 * precision's own doing. */
static void report(const char *name, const struct text_kinds *losses, const struct text_losses *exact)
{
    char what[128];
    int step, other_step;
    double deviation = text_deviation(&losses->eager, &losses->fused, &step);
    double own = text_deviation(exact, &losses->eager, &other_step);
    bool is_exact = own == 0;
    snprintf(what, sizeof what, "text: fused losses beside eager ones, %s, farthest of %d steps", name, TEXT_STEPS);
    bench_report(what, "relative", deviation, is_exact ? NAN : own, BENCH_AT_MOST, TEXT_MOST_DEVIATION);
    snprintf(what, sizeof what, "text: fused losses beside eager ones in fp32, %s", name);
    if (!is_exact)
        bench_report(what, "relative", text_deviation(exact, &losses->fused, &other_step), own, "", 0);
    fprintf(stderr, "text: %s: loss %.4f, at the end %.4f, eager %.4f; farthest at step %d, by %.2g of %.4f\n", name,
            losses->fused.of[0], text_last_loss(&losses->fused), text_last_loss(&losses->eager), step, deviation,
            losses->eager.of[step]);
    snprintf(what, sizeof what, "text: recomputed and updated early beside kept, %s", name);
    bench_report(what, "relative", text_deviation(&losses->fused, &losses->least, &other_step), NAN, BENCH_AT_MOST, 0);
    snprintf(what, sizeof what, "text: loss in 8 slices beside whole, %s, farthest of %d steps", name, TEXT_STEPS);
    bench_report(what, "relative", text_deviation(&losses->fused, &losses->sliced, &other_step), NAN, "", 0);
    report_moments(name, "bf16", &losses->fused, &losses->bf16_moments);
    report_moments(name, "8bit", &losses->fused, &losses->codes);
}

static mt_status report_fp8(const struct text_subject *subject)
{
    struct text_losses bf16 = {{0}}, fp8 = {{0}};
    struct mt_training_config config = config_of(subject, BF16);
    int step;
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    MT_TRY(text_train(subject->device, &config, &bf16));
    config.math = MTK_MATH_FP8;
    MT_TRY(text_train(subject->device, &config, &fp8));
    double deviation = text_deviation(&bf16, &fp8, &step);
    bench_report("text: losses in fp8 beside those in bf16, farthest", "relative", deviation, NAN, "", 0);
    bench_report("text: losses in fp8 beside those in bf16, mean of the last 20", "loss", text_last_loss(&fp8),
                 text_last_loss(&bf16), "", 0);
    fprintf(stderr, "text: fp8: farthest at step %d, by %.2g of %.4f\n", step, deviation, bf16.of[step]);
    return MT_OK;
}

int main(int count, char **arguments)
{
    const struct text_subject subject = {.file = count > 1 ? arguments[1] : MT_TEST_DATA "/../../docs/schema.md",
                                         .device = count > 2 ? arguments[2] : "cuda"};
    struct text_losses exact = {{0}};
    struct text_kinds losses;
    for (int i = 0; i < PRECISIONS; i++) {
        mt_status status = train_all(&subject, i, &losses);
        if (status == MT_NO_DEVICE)
            return 0;
        if (status != MT_OK) {
            fprintf(stderr, "text: %s\n", mt_last_error());
            return 1;
        }
        if (i == 0)
            exact = losses.eager;
        report(precisions[i].name, &losses, &exact);
    }
    if (report_fp8(&subject) == MT_OK)
        return 0;
    fprintf(stderr, "text: %s\n", mt_last_error());
    return 1;
}
