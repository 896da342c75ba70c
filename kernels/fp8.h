/* 8-bit floating-point numbers, for the fastest products of a card: e4m3 (MT_F8_E4M3FN: 4 bits of exponent, 3 of
 * fraction, up to 448) for weights and activations, e5m2 (up to 57,344) for gradients. Micikevicius et al., "FP8
 * formats for deep learning", 2022. Only the ops `cast_fp8` and `matmul` support them.
 *
 * A tensor in fp8 has one scale, in fp32: an element is code * scale. The scale is derived from the tensor's current
 * largest magnitude. So it depends only on the tensor: repeating a cast gives equal bits, and nothing is kept between
 * steps. Scales are powers of two. They lose no precision, since fp8 has equally many digits in every binade, and all
 * devices compute exactly the same scales. */
#pragma once

#include "base/types.h"

#ifdef __CUDACC__
#define MTK_ANYWHERE static __host__ __device__ __forceinline__
#else
#define MTK_ANYWHERE static inline
#endif

/* Rows and columns of the matrices in products of fp8 are multiples of 16, and cublasLt chooses its kernels for
 * addresses that are multiples of 256 bytes. */
enum { MTK_FP8_UNIT = 16, MTK_FP8_ALIGNMENT = 256 };

/* The numbers of a scale in memory: the scale itself, and scratch for the largest magnitudes of parts of the tensor. */
enum { MTK_FP8_PARTS = 511, MTK_FP8_NUMBERS = MTK_FP8_PARTS + 1 };

/* Returns `count`, rounded up to a multiple of 16. */
MTK_ANYWHERE int64_t mtk_fp8_padded(int64_t count)
{
    return (count + MTK_FP8_UNIT - 1) / MTK_FP8_UNIT * MTK_FP8_UNIT;
}

/* Returns the bits of the scale of a tensor in `dtype` from the bits of its largest magnitude, both in fp32: the
 * smallest power of two with which that becomes at most 448 or 57,344, which are 1.75 * 2^8 and 1.75 * 2^15. It is at
 * least 2^-126, and 1 for zeros. If the magnitude is infinite or nan, the scale is nan, and so is the product. */
MTK_ANYWHERE uint32_t mtk_fp8_scale_bits(mt_dtype dtype, uint32_t largest_bits)
{
    const uint32_t nan = 0x7FC00000, one = 0x3F800000, most_fraction = 0x600000;
    const uint32_t range = dtype == MT_F8_E4M3FN ? 8 : 15;
    uint32_t exponent = largest_bits >> 23, fraction = largest_bits & 0x7FFFFF;
    if (exponent == 0xFF)
        return nan;
    if (largest_bits == 0)
        return one;
    exponent += fraction > most_fraction ? 1 : 0;
    return (exponent > range ? exponent - range : 1) << 23;
}

/* Returns the bits of 1 / scale. */
MTK_ANYWHERE uint32_t mtk_fp8_inverse_bits(uint32_t scale_bits)
{
    const uint32_t twice_one = 254u << 23;
    return scale_bits > twice_one ? scale_bits : twice_one - scale_bits;
}
