/* Reductions and their gradients. */
#include "model/function_rules.h"

#include "model/autocast.h"
#include "model/use.h"

#include <string.h>

enum { STREAMING_MULTIPROCESSORS = 132, THREADS_PER_MULTIPROCESSOR = 2048 }; /* of the reference card, an H200 */
enum { REDUCE_THREADS = 512, WARP = 32, MIN_PER_THREAD = 16, MAX_PER_THREAD = 256, ACCUMULATOR_BYTES = 4 };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t last_power_of_two(int64_t n)
{
    int64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    return power;
}

/* The launcher gives each thread up to four neighbouring columns, each block a tile of columns by a tile of rows, and
 * where that leaves a thread 256 rows or more it lets several blocks share the rows of a tile: then every one of them
 * needs a place for its partial sums, and every tile a counter. */
void mt_reduction_staging(int64_t rows, int64_t columns, int64_t *out_staging_bytes, int64_t *out_counter_bytes)
{
    *out_staging_bytes = *out_counter_bytes = 0;
    int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
    int64_t vectors = columns / vector, threads = REDUCE_THREADS / vector;
    int64_t width_limit = smaller(last_power_of_two(vectors), threads);
    int64_t height = smaller(smaller(last_power_of_two(rows), threads), threads / smaller(width_limit, WARP));
    int64_t width = smaller(width_limit, threads / height);
    if (rows < height * MIN_PER_THREAD && rows < MAX_PER_THREAD)
        return;
    int64_t per_thread = divide_up(rows, height), tiles = divide_up(vectors, width);
    int64_t resident = STREAMING_MULTIPROCESSORS * (THREADS_PER_MULTIPROCESSOR / (width * height));
    if (per_thread < MAX_PER_THREAD || tiles > resident)
        return;
    int64_t blocks = smaller(divide_up(resident, tiles), divide_up(per_thread, MIN_PER_THREAD));
    int64_t fewest = divide_up(per_thread, MAX_PER_THREAD);
    if (blocks < fewest)
        blocks = fewest;
    if (blocks <= 1)
        return;
    *out_staging_bytes = ACCUMULATOR_BYTES * columns * blocks * width * vector;
    *out_counter_bytes = (int64_t)sizeof(int32_t) * tiles;
}

static struct mt_tensor *scratch(struct mt_runtime *rt, const char *name, int64_t bytes)
{
    return bytes == 0 ? NULL : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, MT_U8, 1, &bytes);
}

struct mt_tensor *mt_sum_to_input(struct mt_runtime *rt, const char *name, const struct mt_tensor *x,
                                  const struct mt_edge *edge)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_gradient_output(rt, name, x->dtype, edge);
    int64_t staging_bytes = 0, counter_bytes = 0, columns = edge->dims > 0 ? edge->shape[edge->dims - 1] : 1;
    if (edge->dims == 1 && columns == x->shape[x->dims - 1])
        mt_reduction_staging(mt_tensor_count(x) / columns, columns, &staging_bytes, &counter_bytes);
    struct mt_tensor *staging = scratch(rt, "sum.staging", staging_bytes);
    struct mt_tensor *counter = scratch(rt, "sum.counter", counter_bytes);
    mt_use_scratch(rt, staging);
    mt_use_scratch(rt, counter);
    mt_op_reduce(rt, MTK_SUM, out, x);
    mt_tensor_release(rt, counter);
    mt_tensor_release(rt, staging);
    return out;
}

/* A view of `grad` that repeats it to the input's shape. */
static struct mt_tensor *expand(struct mt_runtime *rt, struct mt_tensor *grad, const struct mt_edge *edge)
{
    int64_t stride[MT_MAX_DIMS] = {0};
    int missing = edge->dims - grad->dims;
    for (int i = missing; i < edge->dims; i++)
        stride[i] = grad->shape[i - missing] == 1 ? 0 : grad->stride[i - missing];
    return mt_tensor_view(rt, grad, edge->dims, edge->shape, stride, 0);
}

/* Output of a reduction over the last dimension, which stays as 1. */
static struct mt_tensor *reduce_last(struct mt_runtime *rt, mt_role role, const char *name, mtk_reduce_op op,
                                     const struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    int64_t shape[MT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->dims - 1] = 1;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, x->dims, shape);
    mt_op_reduce(rt, op, out, x);
    return out;
}

static void sum_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    out[0] = expand(rt, grad, &node->edges[0]);
}

struct mt_tensor *mt_sum_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_TEMPORARY, x);
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_SUM, input);
    mt_graph_record(rt, name, sum_backward, out, input, NULL);
    mt_tensor_release(rt, input);
    return out;
}

/* The gradient, repeated over what was averaged, over their number. */
static void mean_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                          struct mt_tensor **out)
{
    const struct mt_edge *edge = &node->edges[0];
    struct mt_tensor *repeated = expand(rt, grad, edge);
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "div", grad->dtype, edge->dims, edge->shape);
    if (out[0] != NULL)
        mt_op_unary(rt, MTK_DIV_SCALAR, (double)(mt_tensor_count(out[0]) / mt_tensor_count(grad)), out[0], repeated);
    mt_tensor_release(rt, repeated);
}

struct mt_tensor *mt_mean_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_MEAN, x);
    mt_graph_record(rt, name, mean_backward, out, x, NULL);
    return out;
}

struct mt_tensor *mt_mean_all(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    if (x == NULL)
        return NULL;
    struct mt_tensor *out = mt_tensor_empty(rt, mt_effective_role(rt, role), name, x->dtype, 0, NULL);
    mt_op_reduce(rt, MTK_MEAN, out, x);
    mt_graph_record(rt, name, mean_backward, out, x, NULL);
    return out;
}

/* How often the maximum occurs in each row of `mask`: the count in int64, through a copy of the mask in int64. */
static struct mt_tensor *count_in_rows(struct mt_runtime *rt, const struct mt_tensor *mask,
                                       const struct mt_tensor *rows)
{
    struct mt_tensor *count = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "count", MT_I64, rows->dims, rows->shape);
    struct mt_tensor *wide =
        mask == NULL ? NULL : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "count.cast", MT_I64, mask->dims, mask->shape);
    mt_op_unary(rt, MTK_COPY, 0, wide, mask);
    mt_op_reduce(rt, MTK_SUM, count, wide);
    mt_tensor_release(rt, wide);
    return count;
}

/* The gradient goes in equal parts to every element that equals the maximum. Saved: x, the result. */
static void max_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                         struct mt_tensor **out)
{
    struct mt_tensor *x = node->saved[0], *result = node->saved[1];
    struct mt_tensor *mask = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mask", MT_BOOL, x->dims, x->shape);
    mt_op_binary(rt, MTK_EQUAL, 0, mask, x, result);
    struct mt_tensor *count = count_in_rows(rt, mask, result);
    struct mt_tensor *share = mt_backward_temporary(rt, "div", grad);
    mt_op_binary(rt, MTK_DIVIDE, 0, share, grad, count);
    out[0] = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "mul", grad->dtype, x->dims, x->shape);
    mt_op_binary(rt, MTK_MULTIPLY, 0, out[0], mask, share);
    mt_tensor_release(rt, share);
    mt_tensor_release(rt, count);
    mt_tensor_release(rt, mask);
}

struct mt_tensor *mt_max_last(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *out = reduce_last(rt, role, name, MTK_MAX, x);
    struct mt_node *node = mt_graph_record(rt, name, max_backward, out, x, NULL);
    mt_node_save(rt, node, 0, x);
    mt_node_save(rt, node, 1, out);
    return out;
}

/* A view with a last dimension of 1 added. */
static struct mt_tensor *as_column(struct mt_runtime *rt, struct mt_tensor *x)
{
    int64_t shape[MT_MAX_DIMS], stride[MT_MAX_DIMS];
    if (x == NULL)
        return NULL;
    memcpy(shape, x->shape, sizeof shape);
    memcpy(stride, x->stride, sizeof stride);
    shape[x->dims] = stride[x->dims] = 1;
    return mt_tensor_view(rt, x, x->dims + 1, shape, stride, 0);
}

/* d logsumexp = grad e^(x - result). Saved: x, the result. */
static void logsumexp_backward(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                               struct mt_tensor **out)
{
    struct mt_tensor *x = node->saved[0];
    struct mt_tensor *result = as_column(rt, node->saved[1]), *column = as_column(rt, grad);
    struct mt_tensor *difference = mt_backward_temporary(rt, "sub", x);
    mt_op_binary(rt, MTK_SUBTRACT, 0, difference, x, result);
    struct mt_tensor *share = mt_backward_temporary(rt, "exp", x);
    mt_op_unary(rt, MTK_EXP, 0, share, difference);
    out[0] = mt_backward_temporary(rt, "mul", x);
    mt_op_binary(rt, MTK_MULTIPLY, 0, out[0], share, column);
    mt_tensor_release(rt, share);
    mt_tensor_release(rt, difference);
    mt_tensor_release(rt, column);
    mt_tensor_release(rt, result);
}

/* Infinite maxima are replaced by 0 before they are subtracted, which takes their magnitude and a mask. */
static void replace_infinite(struct mt_runtime *rt, struct mt_tensor *maxima)
{
    struct mt_tensor *magnitude = mt_backward_temporary(rt, "logsumexp.abs", maxima);
    mt_op_unary(rt, MTK_ABS, 0, magnitude, maxima);
    struct mt_tensor *infinite = maxima == NULL ? NULL
                                                : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "logsumexp.is_inf", MT_BOOL,
                                                                  maxima->dims, maxima->shape);
    mt_op_unary(rt, MTK_EQUAL_SCALAR, (double)__builtin_inf(), infinite, magnitude);
    mt_op_fill(rt, magnitude, 0);
    mt_op_ternary(rt, MTK_SELECT, 0, 0, maxima, infinite, magnitude, maxima);
    mt_tensor_release(rt, infinite);
    mt_tensor_release(rt, magnitude);
}

struct mt_tensor *mt_logsumexp(struct mt_runtime *rt, mt_role role, const char *name, struct mt_tensor *x)
{
    struct mt_tensor *input = mt_autocast_fp32(rt, MT_ROLE_SAVED, x);
    if (input == NULL)
        return NULL;
    struct mt_tensor *maxima = reduce_last(rt, MT_ROLE_TEMPORARY, "logsumexp.max", MTK_MAX, input);
    replace_infinite(rt, maxima);
    struct mt_tensor *shifted = mt_backward_temporary(rt, "logsumexp.sub", input);
    mt_op_binary(rt, MTK_SUBTRACT, 0, shifted, input, maxima);
    mt_op_unary(rt, MTK_EXP, 0, shifted, shifted);
    struct mt_tensor *out =
        mt_tensor_empty(rt, mt_effective_role(rt, role), name, input->dtype, input->dims - 1, input->shape);
    struct mt_tensor *column = as_column(rt, out);
    mt_op_reduce(rt, MTK_SUM, column, shifted);
    mt_op_unary(rt, MTK_LOG, 0, column, column);
    mt_op_binary(rt, MTK_ADD, 0, column, column, maxima);
    mt_tensor_release(rt, column);
    mt_tensor_release(rt, shifted);
    mt_tensor_release(rt, maxima);
    struct mt_node *node = mt_graph_record(rt, name, logsumexp_backward, out, input, NULL);
    mt_node_save(rt, node, 0, input);
    mt_node_save(rt, node, 1, out);
    mt_tensor_release(rt, input);
    return out;
}
