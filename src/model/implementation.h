/* What a training run asks of a model, whichever way that is implemented: a table of functions over a model that only
 * they look inside.
 *
 * Failure is the runtime's: after one, functions do nothing more, and a model that was made in part is destroyed as a
 * whole one. */
#ifndef MT_MODEL_IMPLEMENTATION_H
#define MT_MODEL_IMPLEMENTATION_H

#include "model/config.h"
#include "model/tensor.h"

/* Who is told of each parameter's gradient once it is complete, at the end of backward at the latest; `grad` is
 * contiguous and borrowed. Invariant: no visit, nobody is told. */
struct mt_gradient_watch {
    void (*visit)(void *context, const char *parameter, const struct mt_tensor *grad);
    void *context;
};

struct mt_implementation {
    /* Takes and initializes every parameter. Borrows config, which outlives the model. */
    void *(*create)(struct mt_runtime *rt, const struct mt_training_config *config);
    void (*destroy)(struct mt_runtime *rt, void *model);

    /* Logits of inputs (B,T) and, with targets (NULL: without), in phase loss their loss. */
    void (*forward)(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets);

    /* The loss, a scalar, or NULL. Borrowed, until end_step. */
    const struct mt_tensor *(*loss)(const void *model);

    /* Adds the loss's gradients to the parameters' (or makes them, where there are none). Unless optimizer_in_backward
     * is off, update number `step` (from 1) is made on the way. */
    void (*backward)(struct mt_runtime *rt, void *model, int64_t step, struct mt_gradient_watch watch);

    /* Update number `step` of the parameters that have a gradient; and letting go of those. */
    void (*update)(struct mt_runtime *rt, void *model, int64_t step);
    void (*zero_grad)(struct mt_runtime *rt, void *model);

    /* Where the gradients are that have not been let go, as one number: all that moves of what a model holds between
     * steps, and by addresses, since it tells of work that was queued with them. */
    uint64_t (*gradient_places)(const void *model);

    /* Lets go of what the step made. */
    void (*end_step)(struct mt_runtime *rt, void *model);
};

extern const struct mt_implementation mt_eager_implementation;
extern const struct mt_implementation mt_fused_implementation;

#endif
