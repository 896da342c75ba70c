/* The choice of cuBLAS's kernel for a product. cuBLAS guesses the fastest from the sizes. The products of a training
 * step come again in each of thousands of steps, so it pays to ask cuBLAS for several kernels and to measure them
 * once.
 *
 * Measuring must not change results. Of a product, all candidates with the same bits as the first that sums in one go
 * are alike, and time alone decides among them. A candidate that sums in another order is taken only if it is faster by
 * more than measurements of one run differ from another's. */
#pragma once

#include "base/status.h"
#include "kernels/cuda/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c (m,n) = alpha a (m,k) b (k,n) + beta c, by columns that lie `leading` elements apart. a and b are read as they are
 * or transposed. Operands in fp8 are multiplied by their scales, which are on the card. */
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

/* Queues the product on the kernel that was measured to be the fastest. The first product of its sizes is measured
 * here, which waits for the queue. The workspace is used. Returns false, with nothing queued, if the product is too
 * small to be worth it, if its layout does not allow to compare candidates, or if it is not measured yet and can't be
 * now, since c is added to or the queue is being captured. */
bool mtk_choice_multiply(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                         uint64_t workspace_bytes);

/* Queues the product on the kernel that cuBLAS thinks the fastest, which it is asked once: for operands that only
 * cublasLt multiplies. The workspace is used. Fails with MT_FAILED if there is no kernel for it. */
mt_status mtk_choice_guess(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                           uint64_t workspace_bytes);

/* Frees what was measured. `choices` may be NULL. */
void mtk_choices_destroy(struct mtk_choice *choices);

#ifdef __cplusplus
}
#endif
