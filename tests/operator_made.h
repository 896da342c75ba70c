/* Calls of operators as tests build them, and what their plans take. */
#pragma once

#include "device/card.h"
#include "operators/cub_memory.h"
#include "operators/operator_plan.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8, DIMS = 4, FLOAT = 4, NARROW = 2, LONG = 8 };

/* A call that a test builds. */
struct made {
    struct mt_operator_call call;
    struct mt_argument arguments[16];
    struct mt_operand tensors[MOST], outputs[MOST];
    int64_t sizes[MOST][DIMS], strides[MOST][DIMS];
    int used;
};

static inline struct mt_operand operand(struct made *made, int dtype, int64_t item_bytes, int dims,
                                        const int64_t *sizes)
{
    const int at = made->used++;
    struct mt_operand tensor = {.sizes = made->sizes[at],
                                .strides = made->strides[at],
                                .dims = dims,
                                .dtype = dtype,
                                .elements = 1,
                                .item_bytes = item_bytes,
                                .is_contiguous = true};
    for (int i = dims - 1; i >= 0; i--) {
        made->sizes[at][i] = sizes[i];
        made->strides[at][i] = tensor.elements;
        tensor.elements *= sizes[i];
    }
    return tensor;
}

static inline void add_argument(struct made *made, const char *name, struct mt_argument argument)
{
    argument.name = name;
    made->arguments[made->call.argument_count++] = argument;
    made->call.arguments = made->arguments;
}

static inline void add_tensor(struct made *made, const char *name, int dtype, int64_t item_bytes, int dims,
                              const int64_t *sizes)
{
    struct mt_operand *place = &made->tensors[made->used];
    *place = operand(made, dtype, item_bytes, dims, sizes);
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_TENSORS, .tensors = place, .count = 1});
}

static inline void add_integer(struct made *made, const char *name, int64_t value)
{
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_INTEGER, .integer = value});
}

static inline void add_output(struct made *made, int dtype, int64_t item_bytes, int dims, const int64_t *sizes)
{
    made->outputs[made->call.output_count++] = operand(made, dtype, item_bytes, dims, sizes);
    made->call.outputs = made->outputs;
}

static inline int plan_of(const struct made *made, struct mt_inner *out)
{
    const struct mt_card card = mt_card_reference();
    return mt_operator_plan(&card, NULL, &made->call, out);
}

/* Checks what a plan takes, in order; what it takes it gives back. */
static inline void assert_takes(const struct made *made, int count, const int64_t *bytes)
{
    struct mt_inner plan[MT_INNER_MOST];
    int taken = 0, given = 0;
    const int actions = plan_of(made, plan);
    for (int i = 0; i < actions; i++) {
        if (plan[i].kind == MT_INNER_TAKE) {
            assert_true(taken < count);
            assert_int_equal(plan[i].bytes, bytes[taken++]);
        }
        given += plan[i].kind == MT_INNER_GIVE;
    }
    assert_int_equal(taken, count);
    assert_int_equal(given, count);
}
