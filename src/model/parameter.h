/* A parameter: the weights, their gradient, and who they are. */
#ifndef MT_MODEL_PARAMETER_H
#define MT_MODEL_PARAMETER_H

#include "model/tensor.h"

enum { MT_PARAMETER_NAME = 64 };

struct mt_parameter {
    char name[MT_PARAMETER_NAME]; /* "layers.0.attn.q_proj.weight" */
    mt_span_id span;              /* of the module that it belongs to */
    int layer;                    /* -1 outside of one */
    uint64_t number;              /* generator of its reference values: counts in the order of the reference */
    struct mt_tensor *value;      /* held */
    struct mt_tensor *grad;       /* held; NULL: none since zero_grad */
    struct mt_tensor *moments[2]; /* of AdamW: exp_avg and exp_avg_sq, held; NULL before its first step */
};

#endif
