/* A parameter: the weights, their gradient, and who they are. */
#ifndef MT_MODEL_PARAMETER_H
#define MT_MODEL_PARAMETER_H

#include "model/config.h"
#include "model/tensor.h"

enum { MT_PARAMETER_NAME = 64 };

struct mt_parameter {
    char name[MT_PARAMETER_NAME]; /* "layers.0.attn.q_proj.weight" */
    mt_span_id span;              /* of the module that it belongs to */
    int layer;                    /* -1 outside of one */
    uint64_t number;              /* generator of its reference values: counts in the order of the reference */
    struct mt_tensor *value;      /* held */
    struct mt_tensor *cast;       /* in bf16, held by an autocast region (autocast.h); NULL outside of one */
    struct mt_tensor *grad;       /* held; NULL: none since zero_grad */
    struct mt_tensor *moments[2]; /* of AdamW: exp_avg and exp_avg_sq, held; NULL before its first step */
};

/* What a parameter's values are drawn for. */
typedef enum mt_parameter_kind { MT_PARAMETER_EMBEDDING, MT_PARAMETER_LINEAR, MT_PARAMETER_NORM } mt_parameter_kind;

/* The name of the weight of `module` in block `layer`, -1 outside of one: "layers.0.attn.q_proj.weight". */
void mt_parameter_name(int layer, const char *module, char name[MT_PARAMETER_NAME]);

/* Fills `values`, contiguous, with what parameter number `number`, counted in the order of the reference data, begins
 * with: a linear map (outputs, inputs) uniformly with variance 1 / inputs, norms with 1, or about 1 by config->init. */
void mt_parameter_draw(struct mt_runtime *rt, const struct mt_training_config *config, mt_parameter_kind kind,
                       uint64_t number, struct mt_tensor *values);

/* A parameter that is to be made. */
struct mt_parameter_shape {
    mt_parameter_kind kind;
    uint64_t number;       /* in the order of the reference data */
    int64_t rows, columns; /* rows 0: of one dimension */
};

/* Takes a parameter for `module` of the current scope, and draws its values. Release it in any case. */
void mt_parameter_create(struct mt_runtime *rt, const struct mt_training_config *config, const char *module,
                         const struct mt_parameter_shape *shape, struct mt_parameter *out);

/* `sum`, with the address of the gradient folded in: another number for another place, or for none. */
uint64_t mt_parameter_fold_place(uint64_t sum, const struct mt_parameter *parameter);

/* Lets go of its tensors. */
void mt_parameter_release(struct mt_runtime *rt, struct mt_parameter *parameter);

#endif
