/* A parameter: the weights, their gradient, and their place in the model. */
#pragma once

#include "producers/model/config.h"
#include "producers/model/tensor.h"

enum { MT_PARAMETER_NAME = 64 };

/* Invariants: the gradient and the moments have the shape of `value`; there are either both moments or none; 8-bit
 * moments have scales. */
struct mt_parameter {
    char name[MT_PARAMETER_NAME]; /* "layers.0.attn.q_proj.weight" */
    mt_span_id span;              /* of its module */
    int layer;                    /* -1 outside of one */
    uint64_t number;              /* generator of its reference values: counts in the order of the reference */
    struct mt_tensor *value;      /* held */
    struct mt_tensor *cast;       /* in bf16, held by an autocast region (autocast.h); NULL outside of one */
    struct mt_tensor *grad;       /* held; NULL: none since zero_grad */
    struct mt_tensor *moments[2]; /* of AdamW: exp_avg and exp_avg_sq, held; NULL before its first step */
    struct mt_tensor *scales;     /* of 8-bit moments: (blocks, 2) of F32, held; NULL without */
};

/* The use of a parameter, which determines its initial values. */
typedef enum mt_parameter_kind { MT_PARAMETER_EMBEDDING, MT_PARAMETER_LINEAR, MT_PARAMETER_NORM } mt_parameter_kind;

/* Writes the name of the weight of `module` in block `layer`, -1 outside of one: "layers.0.attn.q_proj.weight". */
void mt_parameter_name(int layer, const char *module, char name[MT_PARAMETER_NAME]);

/* Fills `values`, contiguous, with the initial values of parameter `number`, counted in the order of the reference
 * data. A linear map (outputs, inputs) is uniform with variance 1 / inputs; norms are 1 or near 1, depending on
 * config->init. */
void mt_parameter_draw(struct mt_runtime *rt, const struct mt_training_config *config, mt_parameter_kind kind,
                       uint64_t number, struct mt_tensor *values);

/* A parameter to create. */
struct mt_parameter_shape {
    mt_parameter_kind kind;
    uint64_t number;       /* in the order of the reference data */
    int64_t rows, columns; /* rows 0: of one dimension */
};

/* Allocates a parameter for `module` of the current scope, draws its values and makes it a leaf of the tape. Release it
 * in any case. */
void mt_parameter_create(struct mt_runtime *rt, const struct mt_training_config *config, const char *module,
                         const struct mt_parameter_shape *shape, struct mt_parameter *out);

/* Makes the value a leaf of the tape, so that backward adds to the parameter's gradient. The parameter must not
 * move. */
void mt_parameter_add_leaf(struct mt_runtime *rt, struct mt_parameter *parameter);

/* Returns the moments of AdamW. Before the first step, allocates them, as zeros for the current scope, and their scales
 * if `form` has some. */
struct mt_tensor *const *mt_parameter_moments(struct mt_runtime *rt, mtk_moments form, struct mt_parameter *parameter);

/* Releases the moments and their scales. */
void mt_parameter_release_moments(struct mt_runtime *rt, struct mt_parameter *parameter);

/* Folds the address of the gradient into `sum`. The result differs for another address, and for no gradient. */
uint64_t mt_parameter_fold_place(uint64_t sum, const struct mt_parameter *parameter);

/* Releases its tensors. */
void mt_parameter_release(struct mt_runtime *rt, struct mt_parameter *parameter);
