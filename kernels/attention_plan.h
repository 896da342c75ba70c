/* The workspace of attention on a card, by its shape: the same for a card, a simulated card and the host. */
#pragma once

#include "kernels/kernels.h"

/* Queries per tile in the kernel that computes all gradients in one pass, and the narrowest heads that it supports. */
enum { MTK_ONE_PASS_QUERIES = 64, MTK_ONE_PASS_FEATURES = 40 };

/* True if cards of this compute capability, times ten, have special attention kernels for heads like q. These use
 * Hopper's matrix units and copy engine. */
static inline bool mtk_attention_on_hopper(int capability, const struct mtk_view *q)
{
    return capability == 90 && q->dtype == MT_BF16 && q->shape[3] >= MTK_ONE_PASS_FEATURES;
}

/* Returns the columns that those kernels compute for heads with this many features. */
static inline int64_t mtk_hopper_width(int64_t features)
{
    return features <= 64 ? 64 : features <= 80 ? 80 : MTK_MOST_HEAD_FEATURES;
}

/* Returns the tiles of queries of all heads. */
static inline int64_t mtk_one_pass_tiles(const struct mtk_view *q)
{
    return q->shape[0] * q->shape[1] * ((q->shape[2] + MTK_ONE_PASS_QUERIES - 1) / MTK_ONE_PASS_QUERIES);
}

/* Returns the bytes of the workspace of attention_grad, 0 if it needs none: for each query, the sums of its gradient,
 * lse and delta in fp32; for each tile of queries a count, and one for all. */
static inline uint64_t mtk_attention_grad_bytes(int capability, const struct mtk_view *q)
{
    if (!mtk_attention_on_hopper(capability, q))
        return 0;
    int64_t tile = MTK_ONE_PASS_QUERIES * (mtk_hopper_width(q->shape[3]) + 2) + 1;
    return (uint64_t)(mtk_one_pass_tiles(q) * tile + 1) * sizeof(float);
}
