/* The training run: init, then steps of forward, loss, zero_grad, backward and AdamW. All memory is from the
 * allocator. */
#pragma once

#include "alloc/alloc.h"
#include "producers/model/config.h"

/* Functions that receive measurements while a run is running. Any of them may be NULL. */
struct mt_training_observer {
    void *context;
    /* Called after step `step` (warm-up included) of `total`. The loss is NAN if none was computed; ms by the
     * device's clock. */
    void (*step_done)(void *context, int64_t step, int64_t total, double loss, double step_ms);
    /* Called after each step for each of its phases: the time from its beginning to the next one's, by the device's
     * clock. */
    void (*phase_time)(void *context, int64_t step, mt_phase phase, double ms);
    /* Called in the first step for each parameter, once its gradient is complete, with the gradient's Euclidean norm.
     * Never on a device that computes nothing. */
    void (*grad_norm)(void *context, const char *parameter, double norm);
};

/* Opens a device like mt_device_open, with the kernels that compute on it. A GPU's module has its own; the
 * kernels of the host are added here. A device that mt_device_open opened on the host only has memory. */
mt_status mt_model_device_open(const char *spelling, struct mt_device **out);

/* Runs `config` (checked first) on `device` with every block from `alloc`, which must have been made for that device.
 * Fails with MT_OUT_OF_MEMORY after freeing everything; the trace has the blocks that were live.
 * `observer` may be NULL. */
mt_status mt_training_run(struct mt_device *device, struct mt_alloc *alloc, const struct mt_training_config *config,
                          const struct mt_training_observer *observer);
