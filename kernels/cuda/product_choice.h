/* The choice of cuBLAS's kernel for a product. cuBLAS chooses heuristically from the sizes. The products of a training
 * step recur in thousands of steps, so it is worth measuring several of cuBLAS's kernels once.
 *
 * Measuring must not change results. All candidates with the same bits as the first one that does not split the sums
 * are equivalent, and only time decides among them. A candidate with another order of sums is chosen only if it is
 * faster by more than the variation between measurements of different runs. */
#pragma once

#include "base/status.h"
#include "kernels/cuda/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c (m,n) = alpha a (m,k) b (k,n) + beta c, by columns, `leading` elements apart. a and b are read plain or transposed.
 * fp8 operands are multiplied by their scales, which are in the card's memory. */
struct mtk_blas_product {
    int64_t m, n, k, a_leading, b_leading, c_leading;
    cublasOperation_t turn_a, turn_b;
    cudaDataType_t a_type, b_type, out_type;
    cublasComputeType_t compute;
    float alpha, beta;
    const void *a, *b;
    void *c;
    const void *a_scale, *b_scale; /* NULL: none */
};

/* Queues the product with the kernel that was measured to be the fastest. The first product of its sizes is measured
 * here, which waits for the queue. Uses the workspace. Returns false, with nothing queued, if the product is too small,
 * if candidates can't be compared with its layout, or if it is not measured yet and can't be now, since c is added to
 * or the queue is being captured. */
bool mtk_choice_multiply(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                         uint64_t workspace_bytes);

/* Queues the product with cuBLAS's heuristic choice, which is queried once: for operands that only cublasLt supports.
 * Uses the workspace. Fails with MT_FAILED if there is no kernel for it. */
mt_status mtk_choice_guess(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                           uint64_t workspace_bytes);

/* Frees the measured choices. `choices` may be NULL. */
void mtk_choices_destroy(struct mtk_choice *choices);

#ifdef __cplusplus
}
#endif
