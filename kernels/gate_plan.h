/* The products around a gate that a card computes together with it, by their shape: the same for a card and a simulated
 * one. */
#ifndef MTK_GATE_PLAN_H
#define MTK_GATE_PLAN_H

#include "kernels/kernels.h"

/* Elements of the gate's output from which on the kernel for both beats one for each: fewer don't fill the card. The
 * number was measured on an H100, where twice as many blocks of 256 x 256 as it has multiprocessors are enough. */
enum { MTK_LEAST_GATED = 128 * 256 * 256 };

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

#endif
