/* What a training run asks of a model, whichever way that is implemented: a table of functions over a model that only
 * they look inside.
 *
 * Failure is the runtime's: after one, functions do nothing more, and a model that was made in part is destroyed as a
 * whole one. */
#ifndef MT_MODEL_IMPLEMENTATION_H
#define MT_MODEL_IMPLEMENTATION_H

#include "model/config.h"
#include "model/runtime.h"

/* Told of each parameter that has a gradient; `grad` is contiguous and borrowed. */
typedef void mt_gradient_visitor(void *context, const char *parameter, const struct mt_tensor *grad);

struct mt_implementation {
    /* Takes and initializes every parameter. Borrows config, which outlives the model. */
    void *(*create)(struct mt_runtime *rt, const struct mt_training_config *config);
    void (*destroy)(struct mt_runtime *rt, void *model);

    /* Logits of inputs (B,T) and, with targets (NULL: without), in phase loss their loss. */
    void (*forward)(struct mt_runtime *rt, void *model, struct mt_tensor *inputs, struct mt_tensor *targets);

    /* The loss, a scalar, or NULL. Borrowed, until end_step. */
    const struct mt_tensor *(*loss)(const void *model);

    /* Adds the loss's gradients to the parameters' (or makes them, where there are none). */
    void (*backward)(struct mt_runtime *rt, void *model);
    void (*visit_gradients)(struct mt_runtime *rt, void *model, mt_gradient_visitor *visit, void *context);

    /* Update number `step` (from 1) of the parameters; and letting go of their gradients. */
    void (*update)(struct mt_runtime *rt, void *model, int64_t step);
    void (*zero_grad)(struct mt_runtime *rt, void *model);

    /* Lets go of what the step made. */
    void (*end_step)(struct mt_runtime *rt, void *model);
};

extern const struct mt_implementation mt_eager_implementation;
extern const struct mt_implementation mt_fused_implementation;

#endif
