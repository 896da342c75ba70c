/* The accumulation experiment: what becomes of adding 0.01 a thousand times in formats of few bits. */
#ifndef MT_STUDY_ACCUMULATION_H
#define MT_STUDY_ACCUMULATION_H

#include <stddef.h>

/* A binary floating point format, as far as numbers near 1 need it: bits of the significand, the leading one included. */
struct mt_float_format {
    const char *name;
    int significand_bits; /* fp32 24, fp16 11, bf16 8 */
};

/* One way to add. */
struct mt_accumulation {
    const struct mt_float_format *sum,
        *addend; /* what the sum is rounded to after each addition, and the addend once */
};

/* `value` rounded to the nearest number of the format, ties to even. Range and subnormals are left out: the experiment
 * stays between 2^-7 and 2^4. */
double mt_float_round(const struct mt_float_format *format, double value);

/* The sum of `count` times `addend`. */
double mt_accumulate(const struct mt_accumulation *accumulation, int count, double addend);

/* The ways of the published experiment, and how many there are. */
const struct mt_accumulation *mt_accumulations(size_t *out_count);

#endif
