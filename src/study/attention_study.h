/* One attention layer alone: its memory and its times, forward and backward. In a whole model the rest would hide them.
 *
 *   input (B,T,C) ─▶ q, k, v ─▶ causal attention ─▶ output projection ─▶ output (B,T,C)
 *
 * Input and weights have the case's dtype, without autocast. Backward starts from a gradient of ones, that of the
 * output's sum, and goes to the weights and to the input, as inside of a model. Gradients are released before the next
 * repetition. B batch, T sequence, C d_model, H heads. */
#ifndef MT_STUDY_ATTENTION_STUDY_H
#define MT_STUDY_ATTENTION_STUDY_H

#include "model/training.h"

/* The settings of a study. */
struct mt_attention_case {
    int64_t batch, heads, d_model, seq;
    mt_attention_kind attention;
    mt_dtype dtype;  /* MT_F32 or MT_BF16: of everything */
    mtk_math math;   /* of matrix products of fp32 */
    int64_t repeats; /* after one to warm up, which is step 0 */
    uint64_t seed;
};

/* Fails with MT_USAGE and the numbers for a case that can't be run. */
mt_status mt_attention_case_check(const struct mt_attention_case *study);

/* The bytes that are live just before backward, without the workspaces of matrix products: weights, input, output,
 * and what forward kept. */
struct mt_attention_kept {
    bool is_known; /* forward has ended */
    uint64_t requested_bytes, allocated_bytes;
};

/* Runs a case (checked first) on `device` with every block from `alloc`, which must be new and have been made for
 * that device. For each step but the first the observer, which may be NULL, gets the times of forward and backward,
 * and that the step is done. *out is that of the last step. Fails with MT_FAILED if it differs between steps. Fails
 * with MT_OUT_OF_MEMORY after everything that was taken was given back. */
mt_status mt_attention_study_run(struct mt_device *device, struct mt_alloc *alloc,
                                 const struct mt_attention_case *study, const struct mt_training_observer *observer,
                                 struct mt_attention_kept *out);

/* A part of struct mt_attention_kept. */
struct mt_attention_term {
    const char *what;    /* "masked scores" */
    const char *formula; /* "B·H·T²·w", w being the bytes of an element */
    uint64_t bytes;
    bool is_square; /* of size T² */
};

enum { MT_ATTENTION_MOST_TERMS = 12 };

/* Writes the bytes of struct mt_attention_kept, term by term, by formula, to `out` of MT_ATTENTION_MOST_TERMS.
 * Returns the number of terms. The case must have been checked. */
size_t mt_attention_account(const struct mt_attention_case *study, struct mt_attention_term *out);

/* Returns the sum of the terms. *out_square_bytes is the sum of those of size T². */
uint64_t mt_attention_account_bytes(const struct mt_attention_case *study, uint64_t *out_square_bytes);

#endif
