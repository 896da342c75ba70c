/* The implementations of a model for a training run: a table of functions, with a model that is opaque to the
 * run.
 *
 * Failures are kept in the runtime. After one, the functions do nothing more. A partly created model is
 * destroyed like a complete one. */
#pragma once

#include "producers/model/config.h"
#include "producers/model/runtime.h"

/* A function that is called with each parameter's gradient once it is complete, at the end of backward at the
 * latest; `grad` is contiguous and borrowed. If `visit` is NULL, nothing is called. */
struct mt_gradient_watch {
    void (*visit)(void *context, const char *parameter, const struct mt_tensor *grad);
    void *context;
};

struct mt_implementation {
    /* Allocates and initializes every parameter. Borrows config, which outlives the model. */
    void *(*create)(struct mt_runtime *rt, const struct mt_training_config *config);
    void (*destroy)(struct mt_runtime *rt, void *model);

    /* Computes the logits of inputs (B,T) and, unless targets are NULL, their loss, in phase loss. */
    void (*forward)(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets);

    /* Returns the loss, a scalar, or NULL. Borrowed, until end_step. */
    const struct mt_tensor *(*loss)(const void *model);

    /* Adds the loss's gradients to the parameters', or creates them if there are none. Also makes update number `step`
     * (from 1), unless optimizer_in_backward is off. */
    void (*backward)(struct mt_runtime *rt, void *model, int64_t step, struct mt_gradient_watch watch);

    /* Makes update number `step` of the parameters with a gradient. */
    void (*update)(struct mt_runtime *rt, void *model, int64_t step);

    /* Releases the gradients. */
    void (*zero_grad)(struct mt_runtime *rt, void *model);

    /* Returns a hash of the addresses of the live gradients. Queued work refers to addresses, and between
     * steps no other tensor of a model changes its address. */
    uint64_t (*gradient_places)(const void *model);

    /* Releases the tensors that the step made. */
    void (*end_step)(struct mt_runtime *rt, void *model);
};

extern const struct mt_implementation mt_eager_implementation;
extern const struct mt_implementation mt_fused_implementation;
