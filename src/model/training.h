/* The training run: init, then steps of forward, loss, zero_grad, backward and AdamW, every byte from the allocator. */
#ifndef MT_MODEL_TRAINING_H
#define MT_MODEL_TRAINING_H

#include "alloc/alloc.h"
#include "model/config.h"

/* Told what a run measures while it runs. Any may be NULL. */
struct mt_training_observer {
    void *context;
    /* After step `step` (warm-up included) of `total`; loss is NAN where none was computed; ms by the device's clock. */
    void (*step_done)(void *context, int64_t step, int64_t total, double loss, double step_ms);
    /* After each step, for each of its phases: the time from its begin to the next one's, by the device's clock. */
    void (*phase_time)(void *context, int64_t step, mt_phase phase, double ms);
    /* In the first step, for each parameter, when its gradient is complete: its Euclidean norm; only where ops compute. */
    void (*grad_norm)(void *context, const char *parameter, double norm);
};

/* Runs `config` (checked first) on `device` with every block from `alloc`, which must have been made for that device.
 * On MT_OUT_OF_MEMORY everything that was taken is given back first; the trace tells what was live. `observer` may be
 * NULL. */
mt_status mt_training_run(struct mt_device *device, struct mt_alloc *alloc, const struct mt_training_config *config,
                          const struct mt_training_observer *observer);

#endif
