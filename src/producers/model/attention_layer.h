/* Causal attention with its projections, eager: a layer of the transformer. It can also be run alone.
 *
 *   x (B,T,C) ─▶ q, k, v (B,H,T,D) ─▶ attention, in one of four ways ─▶ concatenated heads (B,T,C) ─▶ output
 *
 * B batch, T sequence, C d_model, H heads, D = C/H. */
#pragma once

#include "producers/model/config.h"
#include "producers/model/parameter.h"
#include "producers/model/tensor.h"

/* Invariants: heads divides C; without_mask only for MT_ATTENTION_CUSTOM and MT_ATTENTION_SOFTMAX. */
struct mt_attention_layer {
    int64_t heads;
    bool rope;
    bool without_mask; /* each position attends to all */
    mt_attention_kind kind;
    struct mt_parameter *q_proj, *k_proj, *v_proj, *output_proj; /* (C, C), borrowed */
};

/* Computes the output (B,T,C) of x (B,T,C), in a span "attn". Returns a new reference, or NULL once the runtime has
 * failed. */
struct mt_tensor *mt_attention_layer_forward(struct mt_runtime *rt, const struct mt_attention_layer *layer,
                                             struct mt_tensor *x);

/* Does the same without projections and RoPE: the output is the attention of q, k and v, each (B,T,C). The layer's
 * projections are not used. */
struct mt_tensor *mt_attention_layer_attend(struct mt_runtime *rt, const struct mt_attention_layer *layer,
                                            struct mt_tensor *q, struct mt_tensor *k, struct mt_tensor *v);
