/* How AdamW stores moments in less than 32 bits. The kernels of every device call these functions.
 *
 * bf16 has steps of 0.4 to 0.8 %. The square changes by at most 0.1 % per step when gradients become smaller (beta2 is
 * 0.999), so rounding to nearest would never let it fall, and its root would fall by half of that. Stochastic rounding,
 * up with a probability proportional to the rest, is correct on average. The random bits depend only on the parameter,
 * the step and the element, so every run rounds equally.
 *
 * 8 bits are a code for a number from 0 to 1, or from -1 to 1, times the largest of its block. Numbers are in 7
 * decades, each divided into equal cells, twice as many as in the decade below; a code represents the middle of its
 * cell:
 *
 *   mean     sign, 7 bits    decade d = 0 … 6 has 2^d cells, numbers 2^d … 2^(d+1) - 1; 0x80, which would be -0, is 1
 *   square   8 bits          decade d has 2^(d+1) cells, numbers 2^(d+1) - 1 … 2^(d+2) - 2; 255 is 1
 *
 *   10^(d-7)  |--- cell 0 ---|--- cell 1 ---| … |  10^(d-6)
 *
 * Code 0 is 0. Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", 2022. Unlike
 * there, a square above 0 never becomes 0, since the mean would then be divided only by epsilon.
 *
 * A number gets the nearest code. Within a decade the code is the integer part of slope * x + shift, a line. No two
 * lines begin within one power of two, so the sign and the exponent of x leave at most two candidates. */
#pragma once

#include "base/random.h"

#include <math.h>

/* The tables of kernels are computed at compile time. */
#ifdef __CUDACC__
#define MTK_IN_TABLES __host__ __device__ constexpr
#else
#define MTK_IN_TABLES
#endif

/* Returns 64 random bits for a pair of neighbours, elements 2 * pair and 2 * pair + 1: 16 bits for the mean of either,
 * each followed by 16 for its square. */
MT_ON_DEVICE_TOO static inline uint64_t mtk_moment_bits(uint64_t generator, int64_t pair)
{
    return mt_splitmix64(generator + (uint64_t)pair);
}

/* Returns the bits of `value`, given as fp32, in bf16: rounded up if the sum of the 16 discarded bits and 16 random
 * bits overflows. inf and nan are unchanged. */
MT_ON_DEVICE_TOO static inline uint16_t mtk_bf16_at_random(uint32_t value, uint32_t random)
{
    if ((value & 0x7F800000) == 0x7F800000)
        return (uint16_t)(value >> 16 | ((value & 0x7FFFFF) != 0 ? 0x40 : 0));
    return (uint16_t)((value + (random & 0xFFFF)) >> 16);
}

/* Cells of the lowest decade, which identify the moment in functions. */
enum { MTK_MEAN_CELLS = 1, MTK_SQUARE_CELLS = 2 };

/* Lines: 0, numbers below the decades, each decade, and 1. Lines of negative numbers follow the positive ones. */
enum { MTK_CODE_DECADES = 7, MTK_LINE_DECADE = 2, MTK_LINE_ONE = MTK_LINE_DECADE + MTK_CODE_DECADES, MTK_CODE_LINES };
enum { MTK_CODE_MEAN_ONE = 0x80, MTK_LINE_BITS = 31 };

/* Added to codes, so that a float has 8 bits for the code and, below them, 8 for its fraction. */
#define MTK_CODE_BASE 32768.0F

/* The code is the integer part of slope * x + shift. */
struct mtk_code_line {
    float slope, shift;
};

/* The codes of a moment. */
struct mtk_codes {
    struct mtk_code_line line[2 * MTK_CODE_LINES];
    float most[2 * MTK_CODE_LINES]; /* of a line: numbers above it, up to the next line, have its last code */
    float number[256];              /* of each code */
    uint32_t octave[512]; /* by sign and exponent: |x| above which a line begins; in its last 5 bits, the line before */
};

MTK_IN_TABLES static inline uint32_t mtk_bits_of(float number)
{
#ifdef __CUDACC__
    return __builtin_bit_cast(uint32_t, number);
#else
    union {
        float number;
        uint32_t bits;
    } same = {.number = number};
    return same.bits;
#endif
}

MTK_IN_TABLES static inline float mtk_float_of(uint32_t bits)
{
#ifdef __CUDACC__
    return __builtin_bit_cast(float, bits);
#else
    union {
        uint32_t bits;
        float number;
    } same = {.bits = bits};
    return same.number;
#endif
}

/* Returns where a decade ends. */
MTK_IN_TABLES static inline float mtk_decade_end(int decade)
{
    const float ends[MTK_CODE_DECADES] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1};
    return ends[decade];
}

/* Returns the number of a code. */
MTK_IN_TABLES static inline float mtk_number_of_code(int least_cells, int code)
{
    int is_mean = least_cells == MTK_MEAN_CELLS, decade = 0;
    int number = !is_mean ? code + 1 : code == MTK_CODE_MEAN_ONE ? code : code % 0x80;
    if (number < least_cells)
        return 0;
    if (number == least_cells << MTK_CODE_DECADES)
        return 1;
    while (number >= least_cells << (decade + 1))
        decade++;
    int cells = least_cells << decade;
    float middle = mtk_decade_end(decade) * (0.1F + 0.9F * ((float)(number - cells) + 0.5F) / (float)cells);
    return is_mean && code > MTK_CODE_MEAN_ONE ? -middle : middle;
}

/* Returns the cells of a line's decade. */
MTK_IN_TABLES static inline int mtk_line_cells(int least_cells, int line)
{
    return least_cells << (line - MTK_LINE_DECADE);
}

/* Returns the |x| above which a line begins: half-way between the middles of two cells. The lower cell is a fifth as
 * wide. */
MTK_IN_TABLES static inline float mtk_line_begin(int least_cells, int line)
{
    if (line < MTK_LINE_DECADE)
        return 0;
    if (line == MTK_LINE_ONE)
        return 1 - 0.225F / (float)mtk_line_cells(least_cells, line - 1);
    return mtk_decade_end(line - MTK_LINE_DECADE) * (0.1F + 0.18F / (float)mtk_line_cells(least_cells, line));
}

/* Returns the code of number 0 on the lines of decades. */
MTK_IN_TABLES static inline float mtk_first_code(int least_cells, int is_negative)
{
    return least_cells == MTK_SQUARE_CELLS ? -1.0F : is_negative ? 128.0F : 0.0F;
}

/* Returns the largest value of a line of positive numbers, or of negative ones if `is_negative`. */
MTK_IN_TABLES static inline float mtk_line_most(int least_cells, int line, int is_negative)
{
    if (line < MTK_LINE_DECADE)
        return MTK_CODE_BASE + (float)(least_cells == MTK_SQUARE_CELLS ? line : 0);
    if (line == MTK_LINE_ONE)
        return MTK_CODE_BASE + (is_negative || least_cells == MTK_SQUARE_CELLS ? 255.0F : (float)MTK_CODE_MEAN_ONE);
    int cells = mtk_line_cells(least_cells, line);
    return MTK_CODE_BASE + mtk_first_code(least_cells, is_negative) + (float)(2 * cells) - 0.25F;
}

/* Returns a line of positive numbers, or of negative ones if `is_negative`. */
MTK_IN_TABLES static inline struct mtk_code_line mtk_line_of(int least_cells, int line, int is_negative)
{
    struct mtk_code_line to = {0, mtk_line_most(least_cells, line, is_negative)};
    if (line < MTK_LINE_DECADE || line == MTK_LINE_ONE)
        return to;
    float cells = (float)mtk_line_cells(least_cells, line);
    float slope = cells / (0.9F * mtk_decade_end(line - MTK_LINE_DECADE));
    to.slope = is_negative ? -slope : slope;
    to.shift = MTK_CODE_BASE + mtk_first_code(least_cells, is_negative) + cells * (8 / 9.0F);
    return to;
}

/* Returns the entry for a sign and exponent. Infinities and nan have the entry of 0. */
MTK_IN_TABLES static inline uint32_t mtk_octave_of(int least_cells, int octave)
{
    uint32_t begin = 0x7F7FFFFF, exponent = (uint32_t)octave & 0xFF, before = 0;
    for (uint32_t line = 1; line < MTK_CODE_LINES && exponent < 0xFF; line++) {
        uint32_t bits = mtk_bits_of(mtk_line_begin(least_cells, (int)line));
        if (bits >> 23 == exponent)
            begin = bits;
        if (bits >> 23 < exponent)
            before = line;
    }
    return (begin & ~(uint32_t)MTK_LINE_BITS) | (before + (octave > 0xFF ? MTK_CODE_LINES : 0));
}

/* Returns the tables of a moment. */
MTK_IN_TABLES static inline struct mtk_codes mtk_codes_of(int least_cells)
{
    struct mtk_codes codes = {{{0, 0}}, {0}, {0}, {0}};
    for (int line = 0; line < 2 * MTK_CODE_LINES; line++) {
        codes.line[line] = mtk_line_of(least_cells, line % MTK_CODE_LINES, line >= MTK_CODE_LINES);
        codes.most[line] = mtk_line_most(least_cells, line % MTK_CODE_LINES, line >= MTK_CODE_LINES);
    }
    for (int code = 0; code < 256; code++)
        codes.number[code] = mtk_number_of_code(least_cells, code);
    for (int octave = 0; octave < 512; octave++)
        codes.octave[octave] = mtk_octave_of(least_cells, octave);
    return codes;
}

/* Returns a float's bits; bits 8 to 15 are the code of x, a mean from -1 to 1 or a square from 0 to 1. */
MT_ON_DEVICE_TOO static inline uint32_t mtk_code_bits(const struct mtk_codes *codes, float x)
{
    uint32_t octave = codes->octave[mtk_bits_of(x) >> 23];
    octave += fabsf(x) > mtk_float_of(octave);
    const struct mtk_code_line line = codes->line[octave & MTK_LINE_BITS];
    return mtk_bits_of(fminf(fmaf(x, line.slope, line.shift), codes->most[octave & MTK_LINE_BITS]));
}

MT_ON_DEVICE_TOO static inline uint8_t mtk_code_of(const struct mtk_codes *codes, float x)
{
    return (uint8_t)(mtk_code_bits(codes, x) >> 8);
}

/* Returns the factor that scales a block of moments, whose largest is `largest`, to -1 … 1. Moments below the smallest
 * normal number become 0, since their factor might overflow. */
MT_ON_DEVICE_TOO static inline float mtk_code_factor(float largest)
{
    return largest >= 0x1p-126F ? 1 / largest : 0;
}
