/* The fused transformer: the same model as the eager one (transformer.h), written by hand for speed and size.
 *
 *   tokens ─▶ embedding ─▶ x ─▶ L × block ─▶ norm ─▶ head ─▶ logits, which the loss turns into their gradient
 *   block: middle = x + attention(norm(x));  next x = middle + ffn(norm(middle)); the norm after a sum computes the sum
 *
 * There is no tape. Forward keeps in each layer the tensors for backward, and backward releases them. The outputs of
 * the norms and of the gate are not kept: backward recomputes them in memory that is no longer needed. With
 * config->checkpoint, forward keeps only a layer's input, norm1.x, and backward first recomputes the rest. With
 * config->optimizer_in_backward set to on, backward updates a parameter and releases its gradient as soon as the
 * gradient is complete. With `beside`, backward queues updates on another stream: updates are bound by memory, and
 * backward by arithmetic. With config->loss_slices, the loss makes logits for some tokens at a time, and the gradients
 * of the head at once.
 *
 * Weights that read the same input are stored together, so that they are one product: the reference model's parameters
 * are parts of them. B batch, T sequence, C d_model, H heads, D = C/H, F d_ff, V vocabulary.
 *
 * The model's files are fused_model (parameters), fused_products (products with them), fused_fp8 (products in fp8),
 * fused_attention, fused_forward, fused_loss, fused_backward and fused_optimizer. Their functions do nothing, and
 * return NULL, once the runtime has failed. */
#pragma once

#include "producers/model/implementation.h"
#include "producers/model/parameter.h"

enum { MT_FUSED_WEIGHTS_PER_LAYER = 6 };

/* Copies of a matrix in fp8, and their scale. All held, or NULL. */
struct mt_fused_codes {
    struct mt_tensor *as_it_is;
    struct mt_tensor *transposed; /* with one column for each row of the matrix, rounded up to a multiple of 16 */
    struct mt_tensor *scale;
};

/* A stored parameter, and its copy in bf16. config->weight_cast decides how long the copy is held; it is NULL at other
 * times. */
struct mt_fused_weight {
    struct mt_parameter parameter; /* its `number` is not used: parts have their own */
    struct mt_tensor *cast;
    struct mt_fused_codes codes; /* of a layer's weight with matmul fp8, from its first product of a step to its last */
    struct mt_tensor *input_scale;  /* of the other operand then, from forward to the weight's gradient */
    int64_t first_part, part_count; /* in the model's list of parts */
    bool is_multiplied;             /* read by products, so that autocast casts it */
};

/* A parameter of the reference model: `rows` rows of a weight from `first_row` on. */
struct mt_fused_part {
    char name[MT_PARAMETER_NAME];
    const struct mt_fused_weight *weight; /* borrowed */
    int64_t first_row, rows;              /* of a norm, which is one row: 0 and 1 */
};

/* The tensors that a norm keeps for backward: its input and its scale. Both held, NULL between steps. */
struct mt_fused_norm {
    struct mt_tensor *x;    /* (B,T,C) */
    struct mt_tensor *rstd; /* (B,T,1) */
};

/* One block: its weights, borrowed from the model's list, and the tensors that it keeps for backward, held; NULL
 * between steps. */
struct mt_fused_layer {
    struct mt_fused_weight *ln1, *qkv, *output_proj; /* (C), (3C, C), (C, C) */
    struct mt_fused_weight *ln2, *gate_up, *down;    /* (C), (2F, C), (C, F) */
    struct mt_fused_norm norm1, norm2;
    struct mt_tensor *projected; /* (B,T,3C): Q, K and V, rotated if the model has RoPE */
    struct mt_tensor *weights;   /* of attention, (B,H,T,T); NULL with flash */
    struct mt_tensor *lse;       /* of flash attention, (B,H,T,1); NULL without */
    struct mt_tensor *context;   /* (B,T,C): of attention, concatenated heads */
    struct mt_tensor *gates;     /* (B,T,2F): both operands of the gate */
};

/* Invariants after creation: weight_count is 6 per layer plus 3, part_count is 9 per layer plus 3. */
struct mt_fused_model {
    const struct mt_training_config *config; /* borrowed */
    mt_dtype compute;                        /* of the operands of products */
    int64_t weight_count, part_count;
    struct mt_fused_weight *weights; /* in the order of allocation */
    struct mt_fused_part *parts;     /* in the order of the reference model's list */
    struct mt_fused_layer *layers;
    struct mt_fused_weight *token_embeddings, *ln_final, *lm_head; /* (V, C), (C), (V, C) */
    struct mt_fused_norm norm_final;
    struct mt_tensor *inputs;         /* (B,T), held for the embedding's backward */
    struct mt_tensor *logits;         /* (B,T,V), held until backward has used them; after the loss, their gradient */
    struct mt_tensor *head_input;     /* (B,T,C), of a sliced loss, held until backward; after the loss, its gradient */
    bool has_head_grad;               /* a sliced loss has added to the head's gradient, before backward */
    struct mt_tensor *loss;           /* a scalar, held until the step ends */
    struct mt_fused_codes grad_codes; /* of the gradient that the next weight's gradient reads, in backward */
    struct mtk_adamw adamw;           /* the numbers of the step's update */
    int64_t update;                   /* the step's, from 1 */
    struct mt_gradient_watch watch;   /* of the current backward */
    bool has_updates_beside;          /* the model's stream does not wait for them yet */
};

/* Allocates and initializes every parameter. Borrows config. After a failure of the runtime the model is partly filled
 * and must still be destroyed. */
void mt_fused_create(struct mt_runtime *rt, const struct mt_training_config *config, struct mt_fused_model *out);
void mt_fused_destroy(struct mt_runtime *rt, struct mt_fused_model *model);

/* True if the loss makes the logits, a slice at a time. */
static inline bool mt_fused_slices_loss(const struct mt_fused_model *model)
{
    return model->config->loss_slices > 1 && model->config->mode == MT_MODE_FWD_BWD;
}

/* Computes the logits of inputs (B,T), which the model keeps; if the loss is sliced, computes the input of the head. */
void mt_fused_forward(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *inputs);

/* Computes the mean loss against targets (B,T), and turns the logits into their gradient. A sliced loss turns the input
 * of the head into its gradient, and adds to the gradient of the head's weight; it first releases gradients that are
 * due before backward. */
void mt_fused_loss(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_tensor *targets);

/* The functions down to end_step are in the implementation's table, where `model` is opaque. */

/* Adds to the parameters' gradients, from the gradient of the logits, and reports each complete gradient to `watch`.
 * With optimizer_in_backward `on` or `beside`, also makes AdamW's update number `step` (from 1). */
void mt_fused_backward(struct mt_runtime *rt, void *model, int64_t step, struct mt_gradient_watch watch);

/* Makes AdamW's update number `step` (from 1) of all parameters with a gradient, as one op. With optimizer_in_backward
 * `beside`, only makes the model's stream wait for the updates on the other stream, even after a failure. */
void mt_fused_update(struct mt_runtime *rt, void *model, int64_t step);
/* Releases the gradients, if backward has not begun with a sliced loss. */
void mt_fused_zero_grad(struct mt_runtime *rt, void *model);

/* Releases the tensors that the step made. */
void mt_fused_end_step(struct mt_runtime *rt, void *model);

/* Returns the rows of a part in `of`, the value or the gradient of its weight, as a view; a new reference. NULL if `of`
 * is NULL. */
struct mt_tensor *mt_fused_part_view(struct mt_runtime *rt, const struct mt_fused_part *part, struct mt_tensor *of);

/* The rest is for the fused model's own files. */

/* Enters block number i, inside of "layers". */
static inline struct mt_scope mt_fused_enter_layer(struct mt_runtime *rt, int64_t i)
{
    return mt_scope_enter_layer(rt, i, MT_CATEGORY_BLOCK, "residual");
}

/* A matrix in a product: as stored, or transposed. */
typedef enum mt_fused_turn { MT_FUSED_AS_IT_IS, MT_FUSED_TRANSPOSED } mt_fused_turn;

/* Returns `tensor` as one matrix, its last dimension by all others; a new reference. NULL if `tensor` is NULL. */
struct mt_tensor *mt_fused_matrix_view(struct mt_runtime *rt, struct mt_tensor *tensor, mt_fused_turn turn);

/* Computes (B,T,out) = x (B,T,in) · weightᵀ, in a span `name`. */
struct mt_tensor *mt_fused_linear(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, mt_role role,
                                  struct mt_tensor *x, struct mt_fused_weight *weight);

/* Computes the gradient of a linear map's input, (B,T,in) = grad (B,T,out) · weight. Afterwards the weight's cast is
 * not needed. */
struct mt_tensor *mt_fused_input_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                      struct mt_tensor *grad, struct mt_fused_weight *weight);

/* Adds gradᵀ · x to the weight's gradient, and completes it. */
void mt_fused_weight_grad(struct mt_runtime *rt, struct mt_fused_model *model, const char *name, struct mt_tensor *grad,
                          struct mt_tensor *x, struct mt_fused_weight *weight);

/* The same without completing it, in the current span. */
void mt_fused_weight_grad_add(struct mt_runtime *rt, struct mt_tensor *grad, struct mt_tensor *x,
                              struct mt_fused_weight *weight);

/* Returns a weight in the form that products read; a new reference. */
struct mt_tensor *mt_fused_operand(struct mt_runtime *rt, const struct mt_fused_model *model,
                                   struct mt_fused_weight *weight);

/* Call it when no product of the step reads the weight any more. */
void mt_fused_operand_done(struct mt_runtime *rt, const struct mt_fused_model *model, struct mt_fused_weight *weight);

/* Compute y = x · operandᵀ, and dx = grad · operand, in the current span, into existing tensors. */
void mt_fused_linear_into(struct mt_runtime *rt, struct mt_tensor *y, struct mt_tensor *x, struct mt_tensor *operand);
void mt_fused_input_grad_into(struct mt_runtime *rt, struct mt_tensor *dx, struct mt_tensor *grad,
                              struct mt_tensor *operand);

/* True if the products with a weight are computed in fp8. */
bool mt_fused_is_fp8(const struct mt_fused_model *model, const struct mt_fused_weight *weight);

/* Compute the three products above in fp8, from existing tensors. The gradient of the input also casts `grad` for
 * the gradient of the weight, which follows and no longer reads `grad`. */
struct mt_tensor *mt_fused_linear_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                      mt_role role, struct mt_tensor *x, struct mt_fused_weight *weight);
struct mt_tensor *mt_fused_input_grad_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                                          struct mt_tensor *grad, struct mt_fused_weight *weight);
void mt_fused_weight_grad_fp8(struct mt_runtime *rt, struct mt_fused_model *model, const char *name,
                              struct mt_tensor *x, struct mt_fused_weight *weight);

/* Releases copies in fp8, if there are some. */
void mt_fused_codes_drop(struct mt_runtime *rt, struct mt_fused_codes *codes);

/* Computes the operands of a layer's gate, which the layer keeps, and its output *gated, (B,T,F), a new reference. If
 * `gated` is NULL, the output is not computed. Takes `normed`, (B,T,C). */
void mt_fused_gate(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                   struct mt_tensor *normed, struct mt_tensor **gated);

/* Replaces the gate's operands by their gradient, from the gradient of the layer's output. Returns the gate's output
 * again, a new reference. */
struct mt_tensor *mt_fused_gate_grad(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer,
                                     struct mt_tensor *grad);

/* Returns the gradient of a weight, borrowed. Allocates it if there is none. *out_beta is its factor before the next
 * addition: 1, or 0 if it is new. */
struct mt_tensor *mt_fused_gradient(struct mt_runtime *rt, struct mt_fused_weight *weight, double *out_beta);

/* Call it when nothing more is added to a weight's gradient in this step, and nothing more reads the weight. Reports
 * the gradient to the model's watch and, with optimizer_in_backward `on`, updates the parameter and releases the
 * gradient. */
void mt_fused_gradient_complete(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_weight *weight);

/* Call it when all gradients of `count` weights are complete, at most MT_FUSED_WEIGHTS_PER_LAYER. With
 * optimizer_in_backward `beside`, queues their update, after all work queued so far. Borrows the list. */
void mt_fused_block_complete(struct mt_runtime *rt, struct mt_fused_model *model, int count,
                             struct mt_fused_weight *const *weights);

/* Sets the numbers of update number `step`, from 1. */
void mt_fused_update_begin(struct mt_fused_model *model, int64_t step);

/* Recomputes the tensors that a layer's backward needs from the layer's input. */
void mt_fused_recompute_layer(struct mt_runtime *rt, struct mt_fused_model *model, struct mt_fused_layer *layer);

/* Allocates the bf16 copy of a weight that is kept as long as the weight; in category Param. */
void mt_fused_cast_begin(struct mt_runtime *rt, struct mt_fused_weight *weight);

/* Computes the attention of a block, (B,T,C), from the layer's projections. Keeps the weights or the log-sum-exp. */
struct mt_tensor *mt_fused_attention(struct mt_runtime *rt, const struct mt_fused_model *model,
                                     struct mt_fused_layer *layer);

/* Computes the gradient of the projections, (B,T,3C), from the gradient of the context. Releases the tensors that
 * attention kept. */
struct mt_tensor *mt_fused_attention_grad(struct mt_runtime *rt, const struct mt_fused_model *model,
                                          struct mt_fused_layer *layer, struct mt_tensor *grad);
