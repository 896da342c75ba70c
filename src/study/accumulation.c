#include "study/accumulation.h"

#include <math.h>

static const struct mt_float_format fp32 = {"fp32", 24}, fp16 = {"fp16", 11}, bf16 = {"bf16", 8};

static const struct mt_accumulation ways[] = {
    {&fp32, &fp32}, {&fp16, &fp16}, {&bf16, &bf16}, {&fp32, &fp16}, {&fp32, &bf16}};

const struct mt_accumulation *mt_accumulations(size_t *out_count)
{
    *out_count = sizeof ways / sizeof ways[0];
    return ways;
}

/* nearbyint rounds as the processor is told to: to nearest, ties to even, unless somebody changed it. */
double mt_float_round(const struct mt_float_format *format, double value)
{
    int exponent;
    double significand = frexp(value, &exponent); /* in [0.5, 1) */
    double digits = nearbyint(ldexp(significand, format->significand_bits));
    return ldexp(digits, exponent - format->significand_bits);
}

/* The sum of two numbers of these formats is exact in a double, so each addition is rounded once. */
double mt_accumulate(const struct mt_accumulation *accumulation, int count, double addend)
{
    double rounded = mt_float_round(accumulation->addend, addend), sum = 0;
    for (int i = 0; i < count; i++)
        sum = mt_float_round(accumulation->sum, sum + rounded);
    return sum;
}
