/* Copies whose fastest dimensions differ: in tiles through shared memory, so that both sides are read and written along
 * their dense dimension. */
#ifndef MTK_CUDA_COPY_H
#define MTK_CUDA_COPY_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this copy is one of those: `in` is dense along another dimension than `out`, and both are long enough. */
bool mtk_copy_transposes(const struct mtk_view *out, const struct mtk_view *in);

/* out = in, converted, for views of which mtk_copy_transposes says so. An int64 is copied by way of a double. */
mt_status mtk_copy_transposing(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
