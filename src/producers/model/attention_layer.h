/* Causal attention with its projections, eager: a layer of the transformer. It can also be run alone.
 *
 *   x (B,T,C) ─▶ q, k, v (B,H,T,D) ─▶ attention, in one of four ways ─▶ heads side by side (B,T,C) ─▶ output
 *
 * B batch, T sequence, C d_model, H heads, D = C/H. */
#pragma once

#include "producers/model/config.h"
#include "producers/model/parameter.h"
#include "producers/model/tensor.h"

/* Invariant: heads divides C. */
struct mt_attention_layer {
    int64_t heads;
    bool rope;
    mt_attention_kind kind;
    struct mt_parameter *q_proj, *k_proj, *v_proj, *output_proj; /* (C, C), borrowed */
};

/* Computes the output (B,T,C) of x (B,T,C), in a span "attn". Returns a new reference, or NULL once the runtime has
 * failed. */
struct mt_tensor *mt_attention_layer_forward(struct mt_runtime *rt, const struct mt_attention_layer *layer,
                                             struct mt_tensor *x);
