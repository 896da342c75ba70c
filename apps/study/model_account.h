/* The account of a run: every live byte at the end of forward in the last full step, by formula and in the trace, term
 * by term.
 *
 *   parameters, gradients, moments ┐
 *   kept by forward for backward   ├─▶ terms: formula in B T C H V L F, its bytes, and the matching blocks
 *   logits, tokens                 ┘
 *
 * At that moment all state exists, including the last step's gradients unless they are cleared before forward,
 * everything that backward will read, and the logits. Workspaces of matrix products are separate, since they depend on
 * the card.
 *
 * The formulas describe the model in src/producers/model. They follow from the tensors that each op saves. A test
 * compares them with traces of random configurations. Ownership and failures as in trace.h. */
#pragma once

#include "producers/model/settings.h"
#include "trace/query/trace.h"

/* A kind of tensor. Bytes are as requested; rounding is the allocator's addition. */
struct mt_model_account_term {
    const char *what;    /* "residual stream" */
    const char *formula; /* "8·L·B·T·C" */
    uint64_t formula_bytes, trace_bytes, rounding_bytes;
    uint64_t blocks;
    int64_t difference_bytes; /* in the trace minus by formula */
};

enum { MT_MODEL_ACCOUNT_MOST_TERMS = 40 };

/* Bytes as a function of B and T: the sum of of[i][j]·Bⁱ·Tʲ. */
struct mt_model_account_polynomial {
    uint64_t of[2][3];
};

/* Invariants: the terms' trace_bytes, workspace_bytes and other_bytes sum to live_bytes; `sum` is the sum of the
 * terms. */
struct mt_model_account {
    struct mt_model_account_term terms[MT_MODEL_ACCOUNT_MOST_TERMS];
    size_t count;
    struct mt_model_account_term sum;             /* has no formula */
    struct mt_model_account_polynomial by_length; /* of the sum by formula, with the run's other sizes */
    uint64_t live_bytes;                          /* of all live blocks */
    uint64_t workspace_bytes;                     /* of matrix products */
    uint64_t other_bytes;                         /* of blocks without a term: 0 for built-in models */
    uint64_t parameters, element;                 /* N, and w: bytes per element of products */
    int64_t step;
};

/* The formula of N. */
extern const char mt_model_account_parameters_formula[];

/* True if there are terms for runs of this plan: with gradients, and without recomputation and updates in backward. */
bool mt_model_account_is_known(const struct mt_run_plan *plan);

/* Makes the account of a run of this plan, which must be known. Fails with MT_USAGE if the run has no full step or if a
 * formula overflows. */
mt_status mt_model_account_make(struct mt_trace *trace, const struct mt_run *run, const struct mt_run_plan *plan,
                                struct mt_model_account *out);
