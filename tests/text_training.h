/* Training on real text, byte by byte, by one implementation and another, and how far their losses are apart: what a test
 * holds on the CPU and a benchmark measures on a card. */
#ifndef MT_TESTS_TEXT_TRAINING_H
#define MT_TESTS_TEXT_TRAINING_H

#include "base/interner.h"
#include "model/training.h"

#include <math.h>

/* Under AddressSanitizer fewer: it takes ten times as long, and looks for what a few steps do as well. */
#ifdef __SANITIZE_ADDRESS__
enum { TEXT_STEPS = 40, TEXT_LAST_STEPS = 20 };
static const double TEXT_MOST_LEFT = 0.6;
#else
enum { TEXT_STEPS = 200, TEXT_LAST_STEPS = 20 };
static const double TEXT_MOST_LEFT = 0.5; /* of the first loss, in the last ones: it learns */
#endif

/* How far a loss may be from the eager model's, relatively. */
static const double TEXT_MOST_DEVIATION = 1e-3;

struct text_losses {
    double of[TEXT_STEPS];
};

/* A model of bytes for a processor, which takes seconds, and one for a card, of which a step has 4,096 tokens. */
static inline struct mt_training_config text_config_small(const char *file)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 256, .d_model = 64, .d_ff = 160, .layers = 2, .heads = 4, .rope = true};
    config.batch = 4;
    config.seq = 48;
    config.steps = TEXT_STEPS;
    config.data = MT_DATA_FILE;
    config.data_file = file;
    return config;
}

static inline struct mt_training_config text_config_large(const char *file)
{
    struct mt_training_config config = text_config_small(file);
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 256, .d_model = 384, .d_ff = 1024, .layers = 6, .heads = 6, .rope = true};
    config.batch = 16;
    config.seq = 256;
    return config;
}

static inline void text_keep_loss(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)step_ms;
    if (step < TEXT_STEPS)
        ((struct text_losses *)context)->of[step] = loss;
}

/* Every loss of a training on the device `spelling`. */
static inline mt_status text_train(const char *spelling, const struct mt_training_config *config,
                                   struct text_losses *out)
{
    struct mt_alloc_settings settings;
    struct mt_device *device = NULL;
    struct mt_alloc *alloc = NULL;
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    const struct mt_training_observer observer = {.context = out, .step_done = text_keep_loss};
    mt_status status = mt_alloc_settings_parse("", &settings);
    if (status == MT_OK)
        status = mt_device_open(spelling, &device);
    if (status == MT_OK)
        status = mt_alloc_create(device, &sink, &settings, &alloc);
    if (status == MT_OK)
        status = mt_training_run(device, alloc, config, &observer);
    if (alloc != NULL)
        mt_alloc_destroy(alloc);
    if (device != NULL)
        mt_device_close(device);
    mt_interner_destroy(interner);
    return status;
}

/* The mean of the last losses. */
static inline double text_last_loss(const struct text_losses *losses)
{
    double sum = 0;
    for (int i = TEXT_STEPS - TEXT_LAST_STEPS; i < TEXT_STEPS; i++)
        sum += losses->of[i];
    return sum / TEXT_LAST_STEPS;
}

/* How far the losses are apart where they are farthest, relatively; *out_step: where. NAN if a loss is none. */
static inline double text_deviation(const struct text_losses *eager, const struct text_losses *fused, int *out_step)
{
    double most = 0;
    *out_step = 0;
    for (int i = 0; i < TEXT_STEPS; i++) {
        double deviation = fabs(fused->of[i] - eager->of[i]) / eager->of[i];
        if (deviation <= most)
            continue;
        most = deviation;
        *out_step = i;
        if (isnan(deviation))
            break;
    }
    return most;
}

#endif
