/* The ops of the CUDA table, one file each, twins of those in kernels/cpu; formulas and shapes are at
 * kernels/kernels.h. cuda_table.c puts them together.
 *
 * Addresses are the device's. All of it is queued: a launcher chooses the grid, allocates nothing, waits for nothing,
 * and returns the launch's error with its name and numbers. Errors inside of a kernel show at a later call, as CUDA has
 * it.
 *
 * Numbers: fp32 where no operand is fp64 or int64, else fp64; one rounding, to the dtype of the output. A copy between
 * equal dtypes keeps every bit but of a bf16 nan. Nothing depends on the order in which blocks run, so equal inputs
 * give equal bits. */
#ifndef MTK_CUDA_OPS_H
#define MTK_CUDA_OPS_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

mt_status mtk_cuda_fill(double value, const struct mtk_view *out, struct mtk_queue *queue);
mt_status mtk_cuda_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue);
mt_status mtk_cuda_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, struct mtk_queue *queue);
mt_status mtk_cuda_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                           const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue);
mt_status mtk_cuda_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                          struct mtk_queue *queue);
mt_status mtk_cuda_lower_triangle(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cuda_matmul(const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes,
                          struct mtk_queue *queue);
mt_status mtk_cuda_gather_rows(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                               struct mtk_queue *queue);
mt_status mtk_cuda_scatter_add_rows(const struct mtk_view *table, const struct mtk_view *index,
                                    const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cuda_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                        struct mtk_queue *queue);
mt_status mtk_cuda_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                             struct mtk_queue *queue);
mt_status mtk_cuda_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                          struct mtk_queue *queue);
mt_status mtk_cuda_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                            const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                            const struct mtk_view *weight, struct mtk_queue *queue);
mt_status mtk_cuda_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue);
mt_status mtk_cuda_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cuda_swiglu_grad(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue);
mt_status mtk_cuda_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                 const struct mtk_view *target, struct mtk_queue *queue);
mt_status mtk_cuda_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                         struct mtk_queue *queue);
mt_status mtk_cuda_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                           const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cuda_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                                const struct mtk_view *kept, const struct mtk_view *lse, struct mtk_queue *queue);
mt_status mtk_cuda_attention(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                             const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                             struct mtk_queue *queue);
mt_status mtk_cuda_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue);
mt_status mtk_cuda_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                          struct mtk_queue *queue);

/* The table of CUDA kernels and cuBLAS, for addresses of a CUDA device and a queue that it made. */
extern const struct mtk_table mtk_cuda;

#ifdef __cplusplus
}
#endif

#endif
