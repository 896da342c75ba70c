/* The numbers in which AdamW keeps moments of less than 32 bits. The kernels of every device call these functions.
 *
 * bf16 has steps of 0.4 to 0.8 %. The square changes by at most 0.1 % a step where gradients are smaller than they were
 * (beta2 is 0.999), so rounding to the nearest would never let it fall, and its root would fall by half of that. Rounding
 * at random, up as often as the rest is large, is right on average. The random bits depend on the parameter, the step and
 * the element alone, so every run rounds alike.
 *
 * 8 bits are a code for a number from 0 to 1, or from -1 to 1, times the largest of its block. Numbers lie in 7 decades,
 * and in each of them in equal cells, twice as many as in the one below; a code stands for the middle of its cell:
 *
 *   mean     sign, 7 bits    decade d = 0 … 6 has 2^d cells, numbers 2^d … 2^(d+1) - 1; 0x80, which would be -0, is 1
 *   square   8 bits          decade d has 2^(d+1) cells, numbers 2^(d+1) - 1 … 2^(d+2) - 2; 255 is 1
 *
 *   10^(d-7)  |--- cell 0 ---|--- cell 1 ---| … |  10^(d-6)
 *
 * Code 0 is 0. Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", 2022. A square
 * above 0 never becomes 0, as it may there: the mean would be divided by epsilon alone. */
#ifndef MTK_MOMENTS_H
#define MTK_MOMENTS_H

#include "base/random.h"

enum { MTK_CODE_DECADES = 7, MTK_CODE_MEAN_ONE = 0x80, MTK_CODE_SQUARE_ONE = 255 };

/* Returns 64 random bits for a pair of neighbours, elements 2 * pair and 2 * pair + 1: 16 bits for the mean of either,
 * each followed by 16 for its square. */
MT_ON_DEVICE_TOO static inline uint64_t mtk_moment_bits(uint64_t generator, int64_t pair)
{
    return mt_splitmix64(generator + (uint64_t)pair);
}

/* Returns the bits of `value`, given as fp32, in bf16: up if the 16 bits that are cut off and 16 random ones make a
 * carry. inf and nan stay what they are. */
MT_ON_DEVICE_TOO static inline uint16_t mtk_bf16_at_random(uint32_t value, uint32_t random)
{
    if ((value & 0x7F800000) == 0x7F800000)
        return (uint16_t)(value >> 16 | ((value & 0x7FFFFF) != 0 ? 0x40 : 0));
    return (uint16_t)((value + (random & 0xFFFF)) >> 16);
}

/* Returns the middle of cell number `number` - 2^log of the 2^log cells of a decade, 2^log <= number < 2^(log + 1). */
MT_ON_DEVICE_TOO static inline float mtk_cell_middle(int number, int log, int decade)
{
    const float ends[MTK_CODE_DECADES] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1};
    int cells = 1 << log;
    return ends[decade] * (0.1F + 0.9F * ((float)(number - cells) + 0.5F) / (float)cells);
}

/* Returns the logarithm, cut off, of a number from 1 to 255. */
MT_ON_DEVICE_TOO static inline int mtk_log_below(int number)
{
    int log = 0;
    while (number >> (log + 1) > 0)
        log++;
    return log;
}

/* Returns the number that a code of a mean stands for. */
MT_ON_DEVICE_TOO static inline float mtk_mean_of_code(uint8_t code)
{
    int number = code & 0x7F;
    if (number == 0)
        return code == MTK_CODE_MEAN_ONE ? 1 : 0;
    float middle = mtk_cell_middle(number, mtk_log_below(number), mtk_log_below(number));
    return code > MTK_CODE_MEAN_ONE ? -middle : middle;
}

/* Returns the number that a code of a square stands for. */
MT_ON_DEVICE_TOO static inline float mtk_square_of_code(uint8_t code)
{
    if (code == 0 || code == MTK_CODE_SQUARE_ONE)
        return code == 0 ? 0 : 1;
    int log = mtk_log_below(code + 1);
    return mtk_cell_middle(code + 1, log, log - 1);
}

/* Returns the number of the cell whose middle is nearest to x, from 0 to 1: cells of the lowest decade are numbered from
 * `least` on, a power of two; least - 1 is 0 and 2^7 * least is 1. The middle of the cell below a decade is nearer up to
 * 0.2 cells into it, and 1 from a quarter before its end. */
MT_ON_DEVICE_TOO static inline int mtk_nearest_cell(float x, int least)
{
    int decade = (x > 1e-6F) + (x > 1e-5F) + (x > 1e-4F) + (x > 1e-3F) + (x > 1e-2F) + (x > 1e-1F);
    float scale = x > 1e-1F   ? 1
                  : x > 1e-2F ? 1e1F
                  : x > 1e-3F ? 1e2F
                  : x > 1e-4F ? 1e3F
                  : x > 1e-5F ? 1e4F
                  : x > 1e-6F ? 1e5F
                              : 1e6F;
    int cells = least << decade;
    float at = (x * scale - 0.1F) * ((float)cells * (1 / 0.9F));
    if (!(at >= 0.2F)) /* nan too */
        return cells - 1;
    int cell = at < (float)cells ? (int)at : cells - 1;
    return decade == MTK_CODE_DECADES - 1 && at > (float)cells - 0.25F ? 2 * cells : cells + cell;
}

/* Returns the code of a mean, from -1 to 1. */
MT_ON_DEVICE_TOO static inline uint8_t mtk_code_of_mean(float x)
{
    int number = mtk_nearest_cell(x < 0 ? -x : x, 1);
    if (x >= 0)
        return (uint8_t)number;
    return (uint8_t)(number == 0 ? 0 : number < 0x80 ? 0x80 | number : 0xFF);
}

/* Returns the code of a square, from 0 to 1. */
MT_ON_DEVICE_TOO static inline uint8_t mtk_code_of_square(float x)
{
    int code = mtk_nearest_cell(x, 2) - 1;
    return (uint8_t)(code == 0 && x > 0 ? 1 : code);
}

/* Returns the factor that takes a block of moments to -1 … 1, of which `largest` is the largest. Moments below the
 * smallest normal number become 0: their factor might be none. */
MT_ON_DEVICE_TOO static inline float mtk_code_factor(float largest)
{
    return largest >= 0x1p-126F ? 1 / largest : 0;
}

#endif
