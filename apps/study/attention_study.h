/* One attention layer alone: the memory and the time of its forward and backward, at sizes that a whole model would
 * hide.
 *
 *   input (B,T,C) ─▶ q, k, v ─▶ causal attention ─▶ output projection ─▶ output (B,T,C)
 *
 * Input and weights have the case's precision, without autocast. Backward starts from a gradient of ones, the gradient
 * of the output's sum, and computes the gradients of the weights and the input, as inside a model. Gradients are
 * released before the next repetition. Without projections q, k and v are inputs, and the output is their attention. B
 * batch, T sequence, C d_model, H heads. */
#pragma once

#include "producers/model/training.h"

/* One layer and its input. */
struct mt_attention_case {
    int64_t batch, heads, d_model, seq;
    mt_attention_kind attention;
    bool without_projections, without_mask;
    mt_dtype dtype;  /* of everything: MT_F32 or MT_BF16 */
    mtk_math math;   /* of matrix products of fp32 */
    int64_t repeats; /* after one warm-up repetition, which is step 0 */
    uint64_t seed;
};

/* Fails with MT_USAGE, and a message with the numbers, for an invalid case. */
mt_status mt_attention_case_check(const struct mt_attention_case *study);

/* The bytes live just before backward, without workspaces of matrix products: weights, input, output, and all tensors
 * that forward saved. */
struct mt_attention_kept {
    bool is_known; /* forward has ended */
    uint64_t requested_bytes, allocated_bytes;
    uint64_t workspace_bytes; /* of the workspaces, requested */
};

/* Checks a case and runs it on `device`. Every block comes from `alloc`, a new allocator for the device. After each
 * step except the first, reports the times of forward and backward, and the step's end, to the observer, which may be
 * NULL. *out is from the last step. Fails with MT_FAILED if steps differ in it; on MT_OUT_OF_MEMORY all blocks are
 * freed first. */
mt_status mt_attention_study_run(struct mt_device *device, struct mt_alloc *alloc,
                                 const struct mt_attention_case *study, const struct mt_training_observer *observer,
                                 struct mt_attention_kept *out);

/* A tensor, or several of one kind, that is live before backward. */
struct mt_attention_term {
    const char *what;    /* "masked scores" */
    const char *formula; /* "B·H·T²·w"; w is the bytes of an element */
    uint64_t bytes;
    bool is_square; /* of size T² */
};

enum { MT_ATTENTION_MOST_TERMS = 12 };

/* Computes the bytes of struct mt_attention_kept by formula, term by term; `out` has room for MT_ATTENTION_MOST_TERMS.
 * Returns the number of terms. The case must be valid. docs/attention.md lists the terms; a test compares them with the
 * allocator's counters. */
size_t mt_attention_account(const struct mt_attention_case *study, struct mt_attention_term *out);

/* Returns the sum of the terms, and sets *out_square_bytes to the sum of the terms of size T². */
uint64_t mt_attention_account_bytes(const struct mt_attention_case *study, uint64_t *out_square_bytes);
