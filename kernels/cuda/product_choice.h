/* Which of cuBLAS's kernels a product runs on. cuBLAS guesses the fastest from the sizes; for the products of a training
 * step, which come again in each of thousands of steps, it pays to ask it for several and to measure them once.
 *
 * What is measured must not change what is computed: of a product, all candidates whose result is that of the first which sums
 * in one go, bit by bit, are alike, and time alone decides among them. One that sums in another order is taken only if it is
 * faster by more than measurements of one sitting differ from another's. */
#ifndef MTK_CUDA_PRODUCT_CHOICE_H
#define MTK_CUDA_PRODUCT_CHOICE_H

#include "base/status.h"
#include "kernels/cuda/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c (m,n) = alpha a (m,k) b (k,n) + beta c, by columns that lie `leading` elements apart; a and b as they are or
 * transposed. */
struct mtk_blas_product {
    int64_t m, n, k, a_leading, b_leading, c_leading;
    cublasOperation_t turn_a, turn_b;
    cudaDataType_t type, out_type; /* of a and b; of c */
    cublasComputeType_t compute;
    float alpha, beta;
    const void *a, *b;
    void *c;
};

/* Queues the product on the kernel that was found to be the fastest. False if there is nothing to choose from: the product
 * is too small to be worth it, laid out so that candidates can't be compared, or unknown as yet and not to be measured now,
 * since c is to be added to or the queue is being captured. The first product of its sizes is measured here, which waits for
 * the queue. The workspace is used. */
bool mtk_choice_multiply(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                         uint64_t workspace_bytes);

/* Lets go of what was measured. NULL is allowed. */
void mtk_choices_destroy(struct mtk_choice *choices);

#ifdef __cplusplus
}
#endif

#endif
