/* Copies between views with different fastest dimensions. Tiles are copied through shared memory, so that both views
 * are accessed along their dense dimension. */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True if `in` is dense along another dimension than `out`, and both are large enough for tiles. */
bool mtk_copy_transposes(const struct mtk_view *out, const struct mtk_view *in);

/* Copies `in` to `out`, converted, if mtk_copy_transposes is true for them. An int64 is copied as a double. */
mt_status mtk_copy_transposing(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);

#ifdef __cplusplus
}
#endif
