/* Which products around a gate a card computes in one kernel with it, by their shape: the same for a card and a
 * simulated card. */
#pragma once

#include "kernels/kernels.h"

/* From this number of elements of the gate's output on, one kernel for both is faster than two: 256 blocks of 256 x
 * 256, about two per multiprocessor. On an H100, 4,096 rows of 4,096 take 0.80 (forward) and 0.84 (backward) of the
 * time of two kernels. Fewer elements were not measured, except for a few that do not fill the card, and are slower. */
enum { MTK_LEAST_GATED = 256 * 256 * 256 };

/* True if a card with this compute capability, times ten, has a kernel for a gate of rows (n,F) and its products with
 * operands (n,C). It uses Hopper's matrix units and copy engine, which reads rows in multiples of 16 bytes. */
static inline bool mtk_gate_fits_product(int capability, mt_dtype dtype, int64_t width, int64_t hidden)
{
    return capability == 90 && dtype == MT_BF16 && width % 8 == 0 && hidden % 8 == 0;
}

/* True if that kernel is faster. */
static inline bool mtk_gate_in_product(int capability, mt_dtype dtype, int64_t rows, int64_t width, int64_t hidden)
{
    return mtk_gate_fits_product(capability, dtype, width, hidden) && rows * hidden >= MTK_LEAST_GATED;
}
