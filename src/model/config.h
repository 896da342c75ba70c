/* The configuration of a training run: the model's sizes and the settings of its training. */
#ifndef MT_MODEL_CONFIG_H
#define MT_MODEL_CONFIG_H

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

/* The number added to the mean square under the root of a norm, and the base of RoPE's angles: of every model. */
static const double MT_NORM_EPSILON = 1e-5, MT_ROPE_THETA = 10000;

typedef enum mt_mode { MT_MODE_INFER, MT_MODE_FWD, MT_MODE_FWD_BWD } mt_mode;
typedef enum mt_zero_grad { MT_ZERO_GRAD_BEFORE_BACKWARD, MT_ZERO_GRAD_BEFORE_FORWARD } mt_zero_grad;
typedef enum mt_implementation_kind { MT_IMPLEMENTATION_EAGER, MT_IMPLEMENTATION_FUSED } mt_implementation_kind;

/* The lifetime of the bf16 copies of weights under autocast. */
typedef enum mt_weight_cast {
    MT_WEIGHT_CAST_REGION, /* from the first product with a weight to the last of the step, as autocast caches them */
    MT_WEIGHT_CAST_LAYER,  /* for one product: made anew for the next */
    MT_WEIGHT_CAST_PERSISTENT, /* always: the optimizer writes them, too */
} mt_weight_cast;

/* The form of attention, by the tensors of size T² that it keeps for backward (docs/categories.md). */
typedef enum mt_attention_kind {
    MT_ATTENTION_CUSTOM,  /* op by op: the masked scores, their exponentials, the weights */
    MT_ATTENTION_SOFTMAX, /* softmax as one op: the masked scores, the weights */
    MT_ATTENTION_WEIGHTS, /* scale, mask and softmax as one op: the weights */
    MT_ATTENTION_FLASH,   /* all of it as one op: none */
} mt_attention_kind;

/* The part of a step that is computed again when backward needs it. Of the fused model. */
typedef enum mt_checkpoint {
    MT_CHECKPOINT_OFF,   /* none: all is kept */
    MT_CHECKPOINT_BLOCK, /* a block, from its input, which alone is kept of it */
} mt_checkpoint;

/* The moment at which the fused model's parameters are updated. */
typedef enum mt_optimizer_in_backward {
    MT_OPTIMIZER_IN_BACKWARD_OFF,    /* all after backward */
    MT_OPTIMIZER_IN_BACKWARD_ON,     /* each as soon as its gradient is complete, which then goes */
    MT_OPTIMIZER_IN_BACKWARD_BESIDE, /* a block's once its gradients are complete, on a stream beside backward's */
} mt_optimizer_in_backward;

typedef enum mt_init { MT_INIT_RANDOM, MT_INIT_REFERENCE } mt_init;
typedef enum mt_data { MT_DATA_RANDOM, MT_DATA_REFERENCE, MT_DATA_FILE } mt_data;

struct mt_training_config {
    struct mt_model_config model;
    mt_mode mode;
    int64_t batch, seq;
    int64_t steps, warmup;    /* warmup steps come first and are counted besides */
    mt_dtype parameter_dtype; /* MT_F32; MT_F64 for checks of the formulas */
    bool autocast;            /* bf16 */
    mtk_math math;            /* of matrix products of fp32 */
    mt_implementation_kind implementation;
    mt_weight_cast weight_cast; /* of autocast; the eager model knows region alone */
    mt_attention_kind attention;
    mt_checkpoint checkpoint;
    bool cuda_graph; /* a card queues forward and backward as one, once it has seen them */
    mt_optimizer_in_backward optimizer_in_backward;
    mt_zero_grad zero_grad; /* of gradients that are still there then */
    mt_init init;
    mt_data data;
    const char *data_file; /* borrowed; MT_DATA_FILE */
    uint64_t seed;
};

/* Returns 2.7B, batch 4, sequence 256, fwd_bwd, 3 steps, fp32, zero_grad before backward, random init and data, seed 0. */
struct mt_training_config mt_training_config_default(void);

/* The names of the models from the smallest to the largest ("small", "medium", "large", "xl", "2.7B"), ending with NULL. */
extern const char *const mt_model_names[];

/* Sets *out to the model of that name. Fails with MT_USAGE, the list and the nearest match. */
mt_status mt_model_config_named(const char *name, struct mt_model_config *out);

/* Reads {"vocab":…, "d_model":…, "d_ff":…, "layers":…, "heads":…, "rope":…} from a JSON file over *out: keys that are
 * absent keep their value, unknown ones are MT_USAGE. */
mt_status mt_model_config_read(const char *path, struct mt_model_config *out);

/* Fails with MT_USAGE and the numbers if sizes are out of range, heads do not divide d_model, RoPE meets an odd head size, flash
 * attention meets one that it does not take, a tensor's bytes would not fit, or settings exclude each other. */
mt_status mt_training_config_check(const struct mt_training_config *config);

/* True if flash attention takes heads of the model's size. */
bool mt_attention_takes_flash(const struct mt_model_config *model);

/* Returns the count of the model's parameters. */
uint64_t mt_model_parameter_count(const struct mt_model_config *model);

#endif
