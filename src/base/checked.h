/* Arithmetic on sizes that must not wrap around. Every product of a shape goes through mt_checked_mul. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets *out to a * b; false, and *out untouched, if that does not fit. */
static inline bool mt_checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/* Sets *out to a + b; false, and *out untouched, if that does not fit. */
static inline bool mt_checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* Sets *out to `value`, rounded up to a multiple of `unit`, which is not 0; false, and *out untouched, if that does not
 * fit. */
static inline bool mt_checked_round_up(uint64_t value, uint64_t unit, uint64_t *out)
{
    uint64_t sum;
    assert(unit > 0);
    if (!mt_checked_add(value, unit - 1, &sum))
        return false;
    *out = sum / unit * unit;
    return true;
}
