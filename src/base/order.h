/* The order of values: comparison functions for qsort and bsearch, and the median and the minimum of numbers. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* -1, 0 or 1: the order of two numbers of one type. Evaluates both twice. Sorting by one field after another reads
 *
 *   int order = MT_COMPARE(a->bytes, b->bytes);
 *   return order != 0 ? order : MT_COMPARE(a->offset, b->offset);
 *
 * and MT_COMPARE(b, a) sorts in descending order. */
#define MT_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static inline uint64_t mt_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t mt_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Compare two elements of an array of that type, for qsort and bsearch. */
static inline int mt_compare_int64(const void *left, const void *right)
{
    return MT_COMPARE(*(const int64_t *)left, *(const int64_t *)right);
}

static inline int mt_compare_uint64(const void *left, const void *right)
{
    return MT_COMPARE(*(const uint64_t *)left, *(const uint64_t *)right);
}

/* None may be NAN. */
static inline int mt_compare_double(const void *left, const void *right)
{
    return MT_COMPARE(*(const double *)left, *(const double *)right);
}

/* Elements are pointers to strings. A struct that begins with such a pointer sorts by it, too. */
static inline int mt_compare_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorts `numbers` and returns the one in the middle, or the mean of the two there; NAN if count is 0. */
static inline double mt_median(double *numbers, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(numbers, count, sizeof *numbers, mt_compare_double);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

/* Returns the least of `numbers`; NAN if count is 0. */
static inline double mt_minimum(const double *numbers, size_t count)
{
    double least = count > 0 ? numbers[0] : NAN;
    for (size_t i = 1; i < count; i++)
        least = numbers[i] < least ? numbers[i] : least;
    return least;
}
