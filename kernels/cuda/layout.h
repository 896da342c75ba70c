/* Layouts: views of one shape with as few dimensions as possible, for kernels.
 *
 * Dimensions of one element are dropped. The others are sorted so that the strides of the first view increase, and
 * neighbours are merged if they are contiguous in every view. A dense tensor is then one long row, however its
 * dimensions are permuted. Dimension 0 varies fastest. */
#pragma once

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

/* Plans the layout of `views` views, all with the shape of the first. */
void mtk_layout_plan(int views, const struct mtk_view *const *view, struct mtk_layout *out);

#ifdef __cplusplus
}
#endif
