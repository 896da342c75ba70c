/* The settings of a training run, and the sizes of its model. */
#pragma once

#include "base/status.h"
#include "base/types.h"
#include "kernels/kernels.h"

#include <stdbool.h>

/* A decoder-only transformer: RMSNorm, multi-head causal attention, SwiGLU, untied head, no biases. */
struct mt_model_config {
    char name[64]; /* "2.7B"; "custom" for sizes given one by one */
    int64_t vocab, d_model, d_ff, layers, heads;
    bool rope;
};

/* Constants of every model: the epsilon of norms, added to the mean square under the root, and the base of RoPE's
 * angles. */
static const double MT_NORM_EPSILON = 1e-5, MT_ROPE_THETA = 10000;

typedef enum mt_mode { MT_MODE_INFER, MT_MODE_FWD, MT_MODE_FWD_BWD } mt_mode;
typedef enum mt_optimizer { MT_OPTIMIZER_ADAMW, MT_OPTIMIZER_NONE } mt_optimizer;
typedef enum mt_zero_grad { MT_ZERO_GRAD_BEFORE_BACKWARD, MT_ZERO_GRAD_BEFORE_FORWARD } mt_zero_grad;
typedef enum mt_implementation_kind { MT_IMPLEMENTATION_EAGER, MT_IMPLEMENTATION_FUSED } mt_implementation_kind;

/* The lifetime of autocast's copies of weights. */
typedef enum mt_weight_cast {
    MT_WEIGHT_CAST_REGION,     /* from the first product with a weight to the last of the step, like autocast's cache */
    MT_WEIGHT_CAST_LAYER,      /* one product; cast again for the next */
    MT_WEIGHT_CAST_PERSISTENT, /* the run; the optimizer writes them, too */
} mt_weight_cast;

/* The dtype of matrix products in an autocast region. fp16 uses a loss scaler, and is only simulated. */
typedef enum mt_autocast { MT_AUTOCAST_OFF, MT_AUTOCAST_BF16, MT_AUTOCAST_FP16 } mt_autocast;

/* The end of the eager model's autocast region. A region that includes backward keeps its copies of weights until
 * then. */
typedef enum mt_region_end { MT_REGION_END_BEFORE_BACKWARD, MT_REGION_END_AFTER_BACKWARD } mt_region_end;

/* The ways to compute attention, and the tensors of size T² that each keeps for backward (docs/attention.md). */
typedef enum mt_attention_kind {
    MT_ATTENTION_CUSTOM, /* op by op: the masked scores, their exponentials, the weights */
    MT_ATTENTION_SOFTMAX, /* softmax as one op, like torch.softmax: the weights, and the mask; autocast casts the weights */
    MT_ATTENTION_WEIGHTS, /* scale, mask and softmax as one op: the weights */
    MT_ATTENTION_FLASH,   /* all of it as one op: none */
} mt_attention_kind;

/* The tensors that the fused model recomputes in backward instead of keeping them. */
typedef enum mt_checkpoint {
    MT_CHECKPOINT_OFF,   /* none */
    MT_CHECKPOINT_BLOCK, /* the tensors of a block, from its input, which is kept */
} mt_checkpoint;

/* The time at which the fused model's parameters are updated. */
typedef enum mt_optimizer_in_backward {
    MT_OPTIMIZER_IN_BACKWARD_OFF,    /* all after backward */
    MT_OPTIMIZER_IN_BACKWARD_ON,     /* each as soon as its gradient is complete; the gradient is released then */
    MT_OPTIMIZER_IN_BACKWARD_BESIDE, /* all of a block once its gradients are complete, on another stream */
} mt_optimizer_in_backward;

typedef enum mt_init { MT_INIT_RANDOM, MT_INIT_REFERENCE } mt_init;
typedef enum mt_data { MT_DATA_RANDOM, MT_DATA_REFERENCE, MT_DATA_FILE } mt_data;

struct mt_training_config {
    struct mt_model_config model;
    mt_mode mode;
    int64_t batch, seq;
    int64_t steps, warmup;    /* warmup steps come first and are not among the steps */
    mt_dtype parameter_dtype; /* MT_F32; MT_F64 for checks of the formulas */
    mt_autocast autocast;
    mt_region_end autocast_end;
    mtk_math math; /* of matrix products of fp32; fp8: of the fused model's layers, under bf16 autocast */
    mt_implementation_kind implementation;
    mt_weight_cast weight_cast; /* of autocast; the eager model supports only `region` */
    mt_attention_kind attention;
    mt_checkpoint checkpoint;
    int64_t loss_slices; /* the parts of the tokens; the fused model holds one part's logits at a time */
    bool cuda_graph;     /* a card launches forward and backward as one graph, once it has captured them */
    mt_optimizer_in_backward optimizer_in_backward;
    mt_optimizer optimizer;
    mtk_moments moments;    /* of AdamW */
    mt_zero_grad zero_grad; /* the time at which gradients of the last step are released */
    bool keep_output;       /* eager: logits and loss, and the graph they hold, live until the next ones exist */
    mt_init init;
    mt_data data;
    const char *data_file; /* borrowed; MT_DATA_FILE */
    uint64_t seed;
};

/* Returns the default: 2.7B, batch 4, sequence 256, fwd_bwd, 3 steps, fp32, zero_grad before backward, random init
 * and data, seed 0. */
struct mt_training_config mt_training_config_default(void);

/* The names of the models from the smallest to the largest ("small", "medium", "large", "xl", "2.7B"), ending with
 * NULL. */
extern const char *const mt_model_names[];

/* Sets *out to the model with a name. Fails with MT_USAGE, the list of names and the nearest one if there is none. */
mt_status mt_model_config_named(const char *name, struct mt_model_config *out);

/* Reads {"vocab":…, "d_model":…, "d_ff":…, "layers":…, "heads":…, "rope":…} from a JSON file into *out. `rope` is false
 * if absent. Fails with MT_USAGE if the file can't be read, lacks a size or has an unknown key. */
mt_status mt_model_config_read(const char *path, struct mt_model_config *out);

/* Fails with MT_USAGE and the numbers if sizes are out of range, heads do not divide d_model, the head size is odd
 * with RoPE or not supported by flash attention, a tensor's bytes overflow, or settings exclude each other. */
mt_status mt_training_config_check(const struct mt_training_config *config);

/* True if flash attention supports the model's head size. */
bool mt_attention_takes_flash(const struct mt_model_config *model);

/* Counts the model's parameters. */
uint64_t mt_model_parameter_count(const struct mt_model_config *model);
