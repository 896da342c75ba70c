/* Training on real text, byte by byte, by two implementations, and the difference of their losses. A test checks it
 * on the CPU, and a benchmark measures it on a card. */
#pragma once

#include "base/interner.h"
#include "producers/model/training.h"

#include <math.h>

/* Fewer under AddressSanitizer: it takes ten times as long, and a few steps run the same code. */
#ifdef __SANITIZE_ADDRESS__
enum { TEXT_STEPS = 40, TEXT_LAST_STEPS = 20 };
static const double TEXT_MOST_LEFT = 0.6;
#else
enum { TEXT_STEPS = 200, TEXT_LAST_STEPS = 20 };
static const double TEXT_MOST_LEFT = 0.5; /* of the first loss: the last ones are below it if the model learns */
#endif

/* The relative tolerance between a loss and that of the eager model. */
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

/* Trains on the device `spelling` and writes every loss to *out. */
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
        status = mt_model_device_open(spelling, &device);
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

/* Returns the mean of the last losses. */
static inline double text_last_loss(const struct text_losses *losses)
{
    double sum = 0;
    for (int i = TEXT_STEPS - TEXT_LAST_STEPS; i < TEXT_STEPS; i++)
        sum += losses->of[i];
    return sum / TEXT_LAST_STEPS;
}

/* Returns the largest relative difference of two losses, and its step in *out_step. NAN if a loss is none. */
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
