/* Tools of tests of the CPU's ops: shapes to try, rows of plain memory, and the check of one element against the value
 * of the formula. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "strided.h"

#include <stdio.h>

enum { SEED = 7001, ROUNDS = 400 };

/* The tolerances. Ops that round once are exact, except in fp64, where the compiler may contract an expression. */
static const double EXACT = 0, FP64_SLACK = 4e-15;

static inline void roll_shape(struct dice *dice, int64_t *shape)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 13};
    static const int64_t long_sizes[] = {255, 256, 257, 600};
    for (int d = 0; d < MT_MAX_DIMS; d++)
        shape[d] = sizes[roll(dice, sizeof sizes / sizeof sizes[0])];
    if (roll(dice, 8) == 0) {
        shape[0] = 1;
        shape[roll(dice, 2) + 2] = long_sizes[roll(dice, 4)];
    }
}

static inline bool same_value(double got, double expected, double slack)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    return got == expected || fabs(got - expected) <= slack * fabs(expected);
}

/* Compares one element with `exact`, the value of the formula before rounding. */
static inline void expect_element(const struct strided *out, struct place place, double exact, double slack)
{
    double expected = round_to_dtype(exact, out->view.dtype), got = element(out, place);
    if (!same_value(got, expected, out->view.dtype == MT_F64 ? slack + FP64_SLACK : slack))
        fail_msg("%s (%d, %d, %d, %d): %.17g, expected %.17g", mt_dtype_name(out->view.dtype), (int)place.at[0],
                 (int)place.at[1], (int)place.at[2], (int)place.at[3], got, expected);
}

static inline void expect_inputs_unchanged(const struct strided *inputs, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(strided_unchanged(&inputs[i]));
}

static inline void destroy_all(struct strided *all, int count)
{
    for (int i = 0; i < count; i++)
        strided_destroy(&all[i]);
}

static inline struct mtk_view row_view(void *memory, mt_dtype dtype, int64_t count)
{
    return (struct mtk_view){.address = (mt_addr)(uintptr_t)memory,
                             .dtype = dtype,
                             .shape = {1, 1, 1, count},
                             .stride = {count, count, count, 1}};
}

static inline double bf16_value(uint16_t bits)
{
    return decode((const unsigned char *)&bits, MT_BF16);
}
