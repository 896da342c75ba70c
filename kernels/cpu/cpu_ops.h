/* The ops of the CPU's table, one file each; formulas and shapes are at kernels/kernels.h. cpu_table.c puts them
 * together. All work at once on the calling thread (matrix products on OpenBLAS's as well), so `queue` is ignored. */
#ifndef MTK_CPU_OPS_H
#define MTK_CPU_OPS_H

#include "kernels/kernels.h"

mt_status mtk_cpu_fill(double value, const struct mtk_view *out, struct mtk_queue *queue);
mt_status mtk_cpu_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue);
mt_status mtk_cpu_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, struct mtk_queue *queue);
mt_status mtk_cpu_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                          const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue);
mt_status mtk_cpu_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue);
mt_status mtk_cpu_lower_triangle(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cpu_matmul(const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes,
                         struct mtk_queue *queue);
mt_status mtk_cpu_gather_rows(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                              struct mtk_queue *queue);
mt_status mtk_cpu_scatter_add_rows(const struct mtk_view *table, const struct mtk_view *index,
                                   const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cpu_pick(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                       struct mtk_queue *queue);
mt_status mtk_cpu_place_add(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                            struct mtk_queue *queue);
mt_status mtk_cpu_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue);
mt_status mtk_cpu_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                          const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cpu_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                               const struct mtk_view *kept, const struct mtk_view *lse, struct mtk_queue *queue);
mt_status mtk_cpu_attention(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                            const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                            struct mtk_queue *queue);
mt_status mtk_cpu_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue);
mt_status mtk_cpu_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                           const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                           const struct mtk_view *weight, struct mtk_queue *queue);
mt_status mtk_cpu_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue);
mt_status mtk_cpu_swiglu(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);
mt_status mtk_cpu_swiglu_grad(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue);
mt_status mtk_cpu_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                const struct mtk_view *target, struct mtk_queue *queue);
mt_status mtk_cpu_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                        struct mtk_queue *queue);
mt_status mtk_cpu_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                         struct mtk_queue *queue);

#endif
