/* The products around a gate that a card computes together with it, by their shape: the same for a card and a simulated
 * one. */
#pragma once

#include "kernels/kernels.h"

/* Elements of the gate's output from which on the kernel for both beats one for each: 256 blocks of 256 x 256, about two for
 * each multiprocessor. On an H100, 4,096 rows of 4,096 take 0.80 (forward) and 0.84 (backward) of the time of two kernels;
 * fewer than that were not measured, but for few that don't fill the card, and are slower. */
enum { MTK_LEAST_GATED = 256 * 256 * 256 };

/* True if a card of this compute capability, times ten, has a kernel for a gate of rows (n,F) and its products with
 * operands (n,C). It is made for Hopper's matrix units and copy engine, which reads rows of 16 bytes. */
static inline bool mtk_gate_fits_product(int capability, mt_dtype dtype, int64_t width, int64_t hidden)
{
    return capability == 90 && dtype == MT_BF16 && width % 8 == 0 && hidden % 8 == 0;
}

/* True if that kernel is the faster way. */
static inline bool mtk_gate_in_product(int capability, mt_dtype dtype, int64_t rows, int64_t width, int64_t hidden)
{
    return mtk_gate_fits_product(capability, dtype, width, hidden) && rows * hidden >= MTK_LEAST_GATED;
}
