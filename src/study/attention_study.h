/* One attention layer alone: what it takes, and how long, forward and backward, at sizes that a whole model would hide.
 *
 *   input (B,T,C) ─▶ q, k, v ─▶ causal attention ─▶ output projection ─▶ output (B,T,C)
 *
 * Input and weights are of the case's precision, without autocast. Backward starts from a gradient of ones, as that of the
 * output's sum is, and goes to the weights and to the input, as inside of a model. Gradients are gone before the next
 * repetition. B batch, T sequence, C d_model, H heads. */
#ifndef MT_STUDY_ATTENTION_STUDY_H
#define MT_STUDY_ATTENTION_STUDY_H

#include "model/training.h"

/* What is run. */
struct mt_attention_case {
    int64_t batch, heads, d_model, seq;
    mt_attention_kind attention;
    mt_dtype dtype;  /* MT_F32 or MT_BF16: of everything */
    mtk_math math;   /* of matrix products of fp32 */
    int64_t repeats; /* after one to warm up, which is step 0 */
    uint64_t seed;
};

/* MT_USAGE with the numbers for a case that can't be run. */
mt_status mt_attention_case_check(const struct mt_attention_case *study);

/* What was live just before backward, workspaces of matrix products aside: weights, input, output, and what forward kept. */
struct mt_attention_kept {
    bool is_known; /* forward came to its end */
    uint64_t requested_bytes, allocated_bytes;
};

/* Runs a case (checked first) on `device` with every block from `alloc`, which must have been made for that device and be
 * new. The observer, which may be NULL, is told each step but the first: its phases forward and backward, and that it is
 * done. *out is of the last step; MT_FAILED if it was not the same in each. On MT_OUT_OF_MEMORY everything that was taken
 * is given back first. */
mt_status mt_attention_study_run(struct mt_device *device, struct mt_alloc *alloc,
                                 const struct mt_attention_case *study, const struct mt_training_observer *observer,
                                 struct mt_attention_kept *out);

/* A part of what is kept for backward. */
struct mt_attention_term {
    const char *what;    /* "masked scores" */
    const char *formula; /* "B·H·T²·w", w being the bytes of an element */
    uint64_t bytes;
    bool is_square; /* of size T² */
};

enum { MT_ATTENTION_MOST_TERMS = 12 };

/* The bytes of struct mt_attention_kept by formula, term by term, into `out` of MT_ATTENTION_MOST_TERMS; how many there
 * are. The case must have been checked. */
size_t mt_attention_account(const struct mt_attention_case *study, struct mt_attention_term *out);

/* Their sum; and that of the terms of size T². */
uint64_t mt_attention_account_bytes(const struct mt_attention_case *study, uint64_t *out_square_bytes);

#endif
