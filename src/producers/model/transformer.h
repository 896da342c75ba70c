/* The transformer, eager: op by op, every tensor in a separate block, like the reference in PyTorch's eager mode.
 *
 *   tokens (B,T) ─▶ embedding ─▶ (B,T,C) ─▶ L × block ─▶ norm ─▶ head ─▶ logits (B,T,V)
 *   block: x += attention(norm(x));  x += ffn(norm(x))
 *
 * B batch, T sequence, C d_model, H heads, D = C/H, F d_ff, V vocabulary. */
#pragma once

#include "producers/model/attention_layer.h"

/* Parameters of one block, borrowed from the model's list. */
struct mt_layer {
    struct mt_attention_layer attn;
    struct mt_parameter *w1, *w3;   /* (F, C): gate and value */
    struct mt_parameter *w2;        /* (C, F) */
    struct mt_parameter *ln1, *ln2; /* (C) */
    struct mt_tensor *positions;    /* int64 (T), held; nothing reads them, but the reference has them */
};

/* Invariant after creation: parameter_count is 9 per layer plus 3. */
struct mt_transformer {
    struct mt_model_config config;
    int64_t parameter_count;
    struct mt_parameter *parameters; /* in the order of the reference's modules and of its optimizer */
    struct mt_layer *layers;
    struct mt_parameter *token_embeddings, *ln_final, *lm_head; /* (V, C), (C), (V, C) */
};

/* Allocates and initializes every parameter for sequences of config->seq. After a failure of the runtime the model is
 * partly filled and must still be destroyed. */
void mt_transformer_create(struct mt_runtime *rt, const struct mt_training_config *config, struct mt_transformer *out);
void mt_transformer_destroy(struct mt_runtime *rt, struct mt_transformer *model);

/* Returns the logits (B,T,V) of tokens (B,T): a new reference, or NULL once the runtime has failed. */
struct mt_tensor *mt_transformer_forward(struct mt_runtime *rt, struct mt_transformer *model, struct mt_tensor *tokens);

/* Returns the mean cross entropy of logits (B,T,V) against targets (B,T), a scalar: a new reference, or NULL once
 * the runtime has failed. */
struct mt_tensor *mt_cross_entropy(struct mt_runtime *rt, struct mt_tensor *logits, struct mt_tensor *targets);
