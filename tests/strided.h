/* Random strided views of host memory for tests of ops, and a second, plain way to read, round and walk them.
 *
 *   buffer  | guard | elements and the gaps between them | guard |
 *
 * `before` is a copy of the buffer as it was filled, so that a test can check that nothing else was touched. Nothing
 * here uses the code under test. */
#pragma once

#include "base/memory.h"
#include "base/random.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64 };

struct strided {
    struct mtk_view view;
    unsigned char *buffer, *before;
    size_t bytes;
};

/* A place in a view. */
struct place {
    int64_t at[MT_MAX_DIMS];
};

/* The random numbers of a test, which depend on the state alone. */
struct dice {
    uint64_t state;
};

/* Returns dice with the seed of a test, which is printed. */
static inline struct dice dice_of_seed(int seed)
{
    printf("seed %d\n", seed);
    return (struct dice){.state = (uint64_t)seed << 32};
}

static inline uint64_t roll(struct dice *dice, uint64_t sides)
{
    return mt_splitmix64(dice->state++) % sides;
}

/* Returns a value in (-4, 4) that every float holds exactly, with so few bits that sums stay exact in double. */
static inline double roll_value(struct dice *dice)
{
    return ((double)roll(dice, 8192) - 4096) / 1024;
}

static inline mt_dtype roll_dtype(struct dice *dice)
{
    return (mt_dtype)(MT_F32 + roll(dice, MT_COMPUTED_DTYPE_COUNT - MT_F32));
}

static inline mt_dtype roll_float_dtype(struct dice *dice)
{
    return (mt_dtype)(MT_F32 + roll(dice, 3));
}

/* Returns `value` rounded to a format of `digits` significant bits and least exponent `lowest`, ties to even, or an
 * infinity if it is above `largest`. */
static inline double round_to_format(double value, int digits, int lowest, double largest)
{
    int exponent;
    if (value == 0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    int unit = exponent - digits > lowest ? exponent - digits : lowest;
    double rounded = ldexp(nearbyint(ldexp(value, -unit)), unit);
    return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}

/* Returns the value that is read back after `value` was stored as dtype. */
static inline double round_to_dtype(double value, mt_dtype dtype)
{
    switch (dtype) {
    case MT_F32:
        return round_to_format(value, 24, -149, 0x1.fffffep127);
    case MT_BF16:
        return round_to_format(value, 8, -133, 0x1.fep127);
    case MT_I64:
        return isnan(value) ? 0 : fmin(fmax(trunc(value), -0x1p63), 0x1p63);
    case MT_BOOL:
        return value != 0;
    case MT_U8:
        return isnan(value) ? 0 : fmin(fmax(trunc(value), 0), 255);
    default:
        return value;
    }
}

/* Returns the value with 11 significant bits, halves away from 0, as products with MTK_MATH_TF32 read fp32. */
static inline double round_to_tf32(double value)
{
    int exponent;
    if (value == 0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    return ldexp(round(ldexp(value, 11 - exponent)), exponent - 11);
}

static inline unsigned char *element_at(const struct strided *s, struct place place)
{
    int64_t number = 0;
    for (int d = 0; d < MT_MAX_DIMS; d++)
        number += place.at[d] * s->view.stride[d];
    return (unsigned char *)(uintptr_t)s->view.address + number * (int64_t)mt_dtype_bytes(s->view.dtype);
}

/* Returns the element of dtype in `bytes`. */
static inline double decode(const unsigned char *bytes, mt_dtype dtype)
{
    union {
        float f32;
        double f64;
        int64_t i64;
        uint16_t bf16;
        uint32_t bits;
        uint8_t u8;
    } e = {.i64 = 0};
    memcpy(&e, bytes, mt_dtype_bytes(dtype));
    switch (dtype) {
    case MT_F32:
        return (double)e.f32;
    case MT_F64:
        return e.f64;
    case MT_I64:
        return (double)e.i64;
    case MT_BF16:
        e.bits = (uint32_t)e.bf16 << 16;
        return (double)e.f32;
    default:
        return (double)e.u8;
    }
}

static inline double element(const struct strided *s, struct place place)
{
    return decode(element_at(s, place), s->view.dtype);
}

/* Returns the element as it was when the view was filled. */
static inline double element_before(const struct strided *s, struct place place)
{
    return decode(s->before + (element_at(s, place) - s->buffer), s->view.dtype);
}

/* Stores a value that dtype holds exactly. */
static inline void element_set(struct strided *s, struct place place, double value)
{
    union {
        float f32;
        uint32_t bits;
        double f64;
        int64_t i64;
        uint16_t bf16;
        uint8_t u8;
    } e = {.f32 = (float)value};
    if (s->view.dtype == MT_F64)
        e.f64 = value;
    else if (s->view.dtype == MT_I64)
        e.i64 = (int64_t)value;
    else if (s->view.dtype == MT_BF16)
        e.bf16 = (uint16_t)(e.bits >> 16);
    else if (s->view.dtype != MT_F32)
        e.u8 = (uint8_t)value;
    memcpy(element_at(s, place), &e, mt_dtype_bytes(s->view.dtype));
}

/* Goes to the next place in row-major order. Returns false after the last, and goes back to the first. */
static inline bool place_next(struct place *place, const int64_t *shape)
{
    for (int d = MT_MAX_DIMS - 1; d >= 0; d--) {
        if (++place->at[d] < shape[d])
            return true;
        place->at[d] = 0;
    }
    return false;
}

static inline int64_t element_count(const int64_t *shape)
{
    return shape[0] * shape[1] * shape[2] * shape[3];
}

/* Rolls strides without overlap: dimensions in any order, with gaps here and there. Half of the views are contiguous.
 * Returns the number of elements from the first to the last. */
static inline int64_t roll_strides(struct dice *dice, const int64_t *shape, int64_t *stride)
{
    int order[MT_MAX_DIMS] = {3, 2, 1, 0};
    bool contiguous = roll(dice, 2) == 0;
    for (int d = MT_MAX_DIMS - 1; d > 0 && !contiguous; d--) {
        int other = (int)roll(dice, (uint64_t)d + 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    int64_t step = 1, last = 0;
    for (int n = 0; n < MT_MAX_DIMS; n++) {
        int d = order[n];
        if (!contiguous && roll(dice, 4) == 0)
            step += (int64_t)roll(dice, 4);
        stride[d] = step;
        last += (shape[d] - 1) * step;
        step *= shape[d];
    }
    return last + 1;
}

/* Makes a view of random strides over a guarded buffer of noise. `elements` is from roll_strides. */
static inline void strided_allocate(struct strided *s, int64_t elements)
{
    s->bytes = (size_t)elements * mt_dtype_bytes(s->view.dtype) + 2 * GUARD_BYTES;
    s->buffer = mt_host_alloc(s->bytes);
    s->before = mt_host_alloc(s->bytes);
    memset(s->buffer, 0xA5, s->bytes);
    s->view.address = (mt_addr)(uintptr_t)(s->buffer + GUARD_BYTES);
}

/* Fills the view with random values that its dtype holds exactly, and copies the buffer to `before`. */
static inline void strided_fill(struct strided *s, struct dice *dice)
{
    struct place place = {{0}};
    do
        element_set(s, place, round_to_dtype(roll_value(dice), s->view.dtype));
    while (place_next(&place, s->view.shape));
    memcpy(s->before, s->buffer, s->bytes);
}

static inline struct strided strided_create(struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    struct strided s = {.view.dtype = dtype};
    memcpy(s.view.shape, shape, sizeof s.view.shape);
    strided_allocate(&s, roll_strides(dice, shape, s.view.stride));
    strided_fill(&s, dice);
    return s;
}

/* Makes a view like strided_create, but some dimensions may repeat: for operands that are only read. */
static inline struct strided strided_create_operand(struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    struct strided s = strided_create(dice, dtype, shape);
    for (int d = 0; d < MT_MAX_DIMS; d++)
        if (roll(dice, 6) == 0)
            s.view.stride[d] = 0;
    return s;
}

/* Makes a view of indices below `bound` for the rows of `shape`. */
static inline struct strided strided_create_indices(struct dice *dice, const int64_t *shape, int64_t bound)
{
    int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
    struct strided index = strided_create(dice, MT_I64, rows);
    struct place place = {{0}};
    do
        element_set(&index, place, (double)roll(dice, (uint64_t)bound));
    while (place_next(&place, rows));
    memcpy(index.before, index.buffer, index.bytes);
    return index;
}

/* The order of the last two dimensions of a view. */
enum strided_order { STRIDED_BY_ROWS, STRIDED_BY_COLUMNS };

static inline enum strided_order roll_order(struct dice *dice)
{
    return roll(dice, 2) == 0 ? STRIDED_BY_ROWS : STRIDED_BY_COLUMNS;
}

/* Makes matrices [outer, batch, rows, columns] of that order, with gaps between rows and batches. */
static inline struct strided strided_create_matrix(struct dice *dice, mt_dtype dtype, const int64_t *shape,
                                                   enum strided_order order)
{
    struct strided s = {.view.dtype = dtype};
    memcpy(s.view.shape, shape, sizeof s.view.shape);
    int inner = order == STRIDED_BY_ROWS ? 3 : 2, outer = order == STRIDED_BY_ROWS ? 2 : 3;
    int64_t *stride = s.view.stride;
    stride[inner] = 1;
    stride[outer] = shape[inner] + (int64_t)roll(dice, 3);
    stride[1] = stride[outer] * shape[outer] + (int64_t)roll(dice, 3);
    stride[0] = stride[1] * shape[1];
    strided_allocate(&s, stride[0] * shape[0]);
    strided_fill(&s, dice);
    return s;
}

/* Returns the elements, row-major. The caller frees them. */
static inline double *strided_elements(const struct strided *s)
{
    double *values = mt_host_alloc((size_t)element_count(s->view.shape) * sizeof *values);
    struct place place = {{0}};
    int64_t number = 0;
    do
        values[number++] = element(s, place);
    while (place_next(&place, s->view.shape));
    return values;
}

static inline void strided_destroy(struct strided *s)
{
    free(s->buffer);
    free(s->before);
}

static inline bool strided_unchanged(const struct strided *s)
{
    return memcmp(s->buffer, s->before, s->bytes) == 0;
}

/* True if guards and gaps are as before. Restores the view's elements to compare, so they can't be used after that. */
static inline bool strided_surroundings_unchanged(struct strided *s)
{
    struct place place = {{0}};
    do {
        unsigned char *at = element_at(s, place);
        memcpy(at, s->before + (at - s->buffer), mt_dtype_bytes(s->view.dtype));
    } while (place_next(&place, s->view.shape));
    return strided_unchanged(s);
}
