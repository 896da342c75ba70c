/* The fused transformer: the same model as the eager one (transformer.h), as one would write it by hand for speed and size.
 *
 *   tokens ─▶ embedding ─▶ x ─▶ L × block ─▶ norm ─▶ head ─▶ logits, which the loss turns into their gradient
 *   block: middle = x + attention(norm(x));  next x = middle + ffn(norm(middle)), each sum made by the norm after it
 *
 * There is no tape. Forward keeps in each layer what backward will need, and backward lets go of it on its way. What can
 * be made again over something that has served is not kept: the norms' outputs and the gate's. With config->checkpoint
 * forward keeps a layer's input alone, norm1.x, and backward first makes the rest again; with
 * config->optimizer_in_backward on no gradient outlives the moment in which it is complete; with it beside, updates are
 * queued on another stream on the way, so that what is bound by memory goes beside what is bound by arithmetic.
 *
 * Weights that read the same input are stored side by side, so that they are one product: the reference model's names are
 * parts of them. B batch, T sequence, C d_model, H heads, D = C/H, F d_ff, V vocabulary. */
#ifndef MT_MODEL_FUSED_MODEL_H
#define MT_MODEL_FUSED_MODEL_H

#include "model/config.h"
#include "model/implementation.h"
#include "model/parameter.h"
#include "model/tensor.h"

/* A stored parameter, and its copy in bf16: held where and as long as config->weight_cast says, NULL at other times. */
struct mt_fused_weight {
    struct mt_parameter parameter; /* its `number` is not used: parts have their own */
    struct mt_tensor *cast;
    int64_t first_part, part_count; /* in the model's list of parts */
    bool is_multiplied;             /* read by products, so that autocast casts it */
};

/* A parameter of the reference model: `rows` rows of a weight from `first_row` on. */
struct mt_fused_part {
    char name[MT_PARAMETER_NAME];
    const struct mt_fused_weight *weight; /* borrowed */
    int64_t first_row, rows;              /* of a norm, which is one row: 0 and 1 */
};

/* What a norm keeps: what it normalized, and by how much it was scaled. Both held, NULL between steps. */
struct mt_fused_norm {
    struct mt_tensor *x;    /* (B,T,C) */
    struct mt_tensor *rstd; /* (B,T,1) */
};

/* One block: its weights, borrowed from the model's list, and what it keeps for backward, held; NULL between steps. */
struct mt_fused_layer {
    struct mt_fused_weight *ln1, *qkv, *output_proj; /* (C), (3C, C), (C, C) */
    struct mt_fused_weight *ln2, *gate_up, *down;    /* (C), (2F, C), (C, F) */
    struct mt_fused_norm norm1, norm2;
    struct mt_tensor *projected; /* (B,T,3C): Q, K and V, rotated if the model has RoPE */
    struct mt_tensor *weights;   /* of attention, (B,H,T,T); NULL with flash */
    struct mt_tensor *lse;       /* of flash attention, (B,H,T,1); NULL without */
    struct mt_tensor *context;   /* (B,T,C): of attention, heads side by side */
    struct mt_tensor *gates;     /* (B,T,2F): both operands of the gate */
};

struct mt_fused_model {
    const struct mt_training_config *config; /* borrowed */
    mt_dtype compute;                        /* of what products read */
    int64_t weight_count, part_count;
    struct mt_fused_weight *weights; /* in the order in which they were taken */
    struct mt_fused_part *parts;     /* in the order of the reference model's list */
    struct mt_fused_layer *layers;
    struct mt_fused_weight *token_embeddings, *ln_final, *lm_head; /* (V, C), (C), (V, C) */
    struct mt_fused_norm norm_final;
    struct mt_tensor *inputs;       /* (B,T), held for the embedding's backward */
    struct mt_tensor *logits;       /* (B,T,V), held until backward has used them; after the loss, their gradient */
    struct mt_tensor *loss;         /* a scalar, held until the step ends */
    struct mtk_adamw adamw;         /* the numbers of the step's update, whichever op makes it */
    struct mt_gradient_watch watch; /* of the backward that runs */
    bool has_updates_beside;        /* that the model's stream does not follow yet */
};

/* Takes and initializes every parameter. Borrows config. On failure (the runtime's status) it is partly filled and still
 * has to be destroyed. */
void mt_fused_create(struct mt_runtime *rt, const struct mt_training_config *config, struct mt_fused_model *out);
void mt_fused_destroy(struct mt_runtime *rt, struct mt_fused_model *model);

/* Logits of inputs (B,T), kept in the model; their mean loss against targets (B,T), which takes the logits for their
 * gradient; backward from that gradient, which adds to the gradients that are there, and with optimizer_in_backward on or beside makes
 * AdamW number `step` (from 1) of them on the way; and what the step leaves behind. */
void mt_fused_forward(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *inputs);
void mt_fused_loss(struct mt_runtime *rt, struct mt_fused_model *model, const struct mt_tensor *targets);
void mt_fused_backward(struct mt_runtime *rt, struct mt_fused_model *model, int64_t step,
                       struct mt_gradient_watch watch);
void mt_fused_end_step(struct mt_runtime *rt, struct mt_fused_model *model);

/* The gradient of a part, as a view (a new reference), or NULL if it has none. */
struct mt_tensor *mt_fused_part_view(struct mt_runtime *rt, const struct mt_fused_part *part, struct mt_tensor *of);

/* AdamW number `step` (from 1) over all parameters that have a gradient, as one op; or, where updates go beside backward,
 * what is queued from now on follows them, also after a failure. */
void mt_fused_update(struct mt_runtime *rt, struct mt_fused_model *model, int64_t step);
void mt_fused_zero_grad(struct mt_runtime *rt, struct mt_fused_model *model);

#endif
