/* Views of one shape as few dimensions as they allow: what a kernel walks.
 *
 * Dimensions of one element are dropped, the rest sorted so that the first view's strides rise, and neighbours merged
 * wherever every view lays both out as one. A dense tensor is then one long row, however its dimensions are permuted.
 * Dimension 0 varies fastest. */
#ifndef MTK_CUDA_LAYOUT_H
#define MTK_CUDA_LAYOUT_H

#include "kernels/kernels.h"

enum { MTK_LAYOUT_VIEWS = 4 };

/* Invariant: 1 <= rank <= MT_MAX_DIMS; count is the product of shape[0 … rank - 1]. */
struct mtk_layout {
    int rank;
    int64_t count;
    int64_t shape[MT_MAX_DIMS];
    int64_t stride[MTK_LAYOUT_VIEWS][MT_MAX_DIMS]; /* in elements */
};

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of `views` views, all of the first one's shape. */
void mtk_layout_plan(int views, const struct mtk_view *const *view, struct mtk_layout *out);

#ifdef __cplusplus
}
#endif

#endif
