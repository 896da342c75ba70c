/* Every differentiable function's backward against central differences, in double precision on the CPU: for random
 * inputs x and a random weighting w, d/dx of sum(w * f(x)). */
#include "base/random.h"
#include "laboratory.h"
#include "producers/model/functions.h"
#include "producers/model/parameter.h"
#include "recording.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { INPUTS = 3, LARGEST = 256 };

/* A function of one to three inputs, with their shapes and ranges. */
struct subject {
    const char *name;
    struct mt_tensor *(*function)(struct mt_runtime *rt, struct mt_tensor *const *inputs);
    struct subject_input {
        int dims;
        int64_t shape[MT_MAX_DIMS];
        double low, high; /* values */
    } inputs[INPUTS];
};

static struct mt_tensor *upload(struct mt_runtime *rt, int dims, const int64_t *shape, const double *values)
{
    struct mt_tensor *tensor = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, NULL, MT_F64, dims, shape);
    assert_non_null(tensor);
    assert_int_equal(mt_device_write(rt->device, tensor->address, values, mt_tensor_bytes(tensor), 0), MT_OK);
    return tensor;
}

static void download(struct mt_runtime *rt, const struct mt_tensor *tensor, double *values)
{
    assert_true(mt_tensor_is_contiguous(tensor));
    assert_int_equal(mt_device_read(rt->device, values, tensor->address, mt_tensor_bytes(tensor), 0), MT_OK);
}

static int64_t input_count(const struct subject_input *input)
{
    int64_t count = 1;
    for (int i = 0; i < input->dims; i++)
        count *= input->shape[i];
    return count;
}

/* sum(w * f(x)) with fixed weights w, as a scalar: mean times count. */
static struct mt_tensor *weighted(struct mt_runtime *rt, const struct subject *subject, struct mt_tensor *const *inputs,
                                  double *out_scale)
{
    struct mt_tensor *y = subject->function(rt, inputs);
    if (y == NULL)
        fail_msg("%s: %s", subject->name, mt_last_error());
    double weights[LARGEST];
    assert_true(mt_tensor_count(y) <= LARGEST);
    for (int64_t i = 0; i < mt_tensor_count(y); i++)
        weights[i] = 2 * mt_random_unit(77, (uint64_t)i) - 1;
    struct mt_tensor *w = upload(rt, y->dims, y->shape, weights);
    struct mt_tensor *product = mt_multiply(rt, MT_ROLE_ACTIVATION, NULL, y, w);
    *out_scale = (double)mt_tensor_count(y);
    struct mt_tensor *mean = mt_mean_all(rt, MT_ROLE_ACTIVATION, NULL, product);
    mt_tensor_release(rt, product);
    mt_tensor_release(rt, w);
    mt_tensor_release(rt, y);
    return mean;
}

/* Returns the value of the function for these inputs, without a graph. */
static double evaluate(struct mt_runtime *rt, const struct subject *subject, double values[INPUTS][LARGEST])
{
    struct mt_tensor *inputs[INPUTS] = {NULL};
    double scale, value;
    rt->grad_enabled = false;
    for (int i = 0; i < INPUTS; i++)
        if (subject->inputs[i].dims > 0)
            inputs[i] = upload(rt, subject->inputs[i].dims, subject->inputs[i].shape, values[i]);
    struct mt_tensor *y = weighted(rt, subject, inputs, &scale);
    download(rt, y, &value);
    mt_tensor_release(rt, y);
    for (int i = 0; i < INPUTS; i++)
        mt_tensor_release(rt, inputs[i]);
    return value * scale;
}

/* Computes the gradients of all inputs by backward. */
static void differentiate(struct mt_runtime *rt, const struct subject *subject, double values[INPUTS][LARGEST],
                          double gradients[INPUTS][LARGEST])
{
    struct mt_parameter parameters[INPUTS] = {0};
    struct mt_tensor *inputs[INPUTS] = {NULL};
    double scale;
    rt->grad_enabled = true;
    for (int i = 0; i < INPUTS; i++) {
        if (subject->inputs[i].dims == 0)
            continue;
        inputs[i] = upload(rt, subject->inputs[i].dims, subject->inputs[i].shape, values[i]);
        parameters[i].value = inputs[i];
        mt_parameter_add_leaf(rt, &parameters[i]);
    }
    struct mt_tensor *y = weighted(rt, subject, inputs, &scale);
    mt_graph_backward(rt, y);
    assert_int_equal(rt->status, MT_OK);
    for (int i = 0; i < INPUTS; i++) {
        if (inputs[i] == NULL)
            continue;
        assert_non_null(parameters[i].grad);
        download(rt, parameters[i].grad, gradients[i]);
        for (int64_t j = 0; j < input_count(&subject->inputs[i]); j++)
            gradients[i][j] *= scale;
        mt_tensor_release(rt, parameters[i].grad);
        mt_tensor_release(rt, inputs[i]);
    }
    mt_tensor_release(rt, y);
}

static void check_subject(const struct subject *subject)
{
    static const double STEP = 1e-6, TOLERANCE = 2e-7;
    struct laboratory lab;
    double values[INPUTS][LARGEST], gradients[INPUTS][LARGEST];
    laboratory_open(&lab, "cpu:256MiB");
    for (int i = 0; i < INPUTS; i++)
        for (uint64_t j = 0; j < LARGEST; j++)
            values[i][j] = subject->inputs[i].low +
                           (subject->inputs[i].high - subject->inputs[i].low) * mt_random_unit(5 + (uint64_t)i, j);
    differentiate(&lab.rt, subject, values, gradients);
    for (int i = 0; i < INPUTS; i++) {
        int64_t count = subject->inputs[i].dims > 0 ? input_count(&subject->inputs[i]) : 0;
        for (int64_t j = 0; j < count; j++) {
            double at = values[i][j];
            values[i][j] = at + STEP;
            double above = evaluate(&lab.rt, subject, values);
            values[i][j] = at - STEP;
            double below = evaluate(&lab.rt, subject, values);
            values[i][j] = at;
            double expected = (above - below) / (2 * STEP);
            if (!(fabs(gradients[i][j] - expected) <= TOLERANCE * (1 + fabs(expected))))
                fail_msg("%s, input %d, element %lld: backward %.10g, differences %.10g", subject->name, i,
                         (long long)j, gradients[i][j], expected);
        }
    }
    laboratory_close(&lab);
}

#define UNARY(function_name)                                                                                           \
    static struct mt_tensor *f_##function_name(struct mt_runtime *rt, struct mt_tensor *const *x)                      \
    {                                                                                                                  \
        return mt_##function_name(rt, MT_ROLE_ACTIVATION, NULL, x[0]);                                                 \
    }
#define BINARY(function_name)                                                                                          \
    static struct mt_tensor *f_##function_name(struct mt_runtime *rt, struct mt_tensor *const *x)                      \
    {                                                                                                                  \
        return mt_##function_name(rt, MT_ROLE_ACTIVATION, NULL, x[0], x[1]);                                           \
    }

UNARY(exp)
UNARY(rsqrt)
UNARY(sigmoid)
UNARY(sum_last)
UNARY(mean_last)
UNARY(max_last)
UNARY(logsumexp)
UNARY(mean_all)
BINARY(add)
BINARY(subtract)
BINARY(multiply)
BINARY(divide)
BINARY(bmm)

static struct mt_tensor *f_power(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_power(rt, MT_ROLE_ACTIVATION, NULL, x[0], 2);
}

static struct mt_tensor *f_add_scalar(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_add_scalar(rt, MT_ROLE_ACTIVATION, NULL, x[0], 0.25);
}

static struct mt_tensor *f_rotate(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_rotate(rt, MT_ROLE_ACTIVATION, NULL, x[0], 10000);
}

/* The same tensor on both sides: the gradients of two uses are added. */
static struct mt_tensor *f_square_sum(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    struct mt_tensor *square = mt_multiply(rt, MT_ROLE_ACTIVATION, NULL, x[0], x[0]);
    struct mt_tensor *out = mt_add(rt, MT_ROLE_ACTIVATION, NULL, square, x[0]);
    mt_tensor_release(rt, square);
    return out;
}

static struct mt_tensor *f_permute_reshape(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    static const int order[] = {0, 2, 1, 3};
    struct mt_tensor *permuted = mt_permute(rt, x[0], order);
    struct mt_tensor *out = mt_reshape(rt, MT_ROLE_ACTIVATION, NULL, permuted, 2, (const int64_t[]){6, 20});
    mt_tensor_release(rt, permuted);
    return out;
}

static struct mt_tensor *f_view(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_view(rt, x[0], 3, (const int64_t[]){4, 1, 6});
}

static struct mt_tensor *indices(struct mt_runtime *rt)
{
    static const int64_t shape[] = {2, 3}, values[] = {4, 0, 4, 2, 1, 4};
    struct mt_tensor *index = mt_tensor_empty(rt, MT_ROLE_INPUT, NULL, MT_I64, 2, shape);
    assert_int_equal(mt_device_write(rt->device, index->address, values, sizeof values, 0), MT_OK);
    return index;
}

static struct mt_tensor *f_embedding(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    struct mt_tensor *index = indices(rt);
    struct mt_tensor *out = mt_embedding(rt, MT_ROLE_ACTIVATION, NULL, x[0], index);
    mt_tensor_release(rt, index);
    return out;
}

static struct mt_tensor *f_gather(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    struct mt_tensor *index = indices(rt);
    struct mt_tensor *out = mt_gather(rt, MT_ROLE_ACTIVATION, NULL, x[0], index);
    mt_tensor_release(rt, index);
    return out;
}

static struct mt_tensor *f_where(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    const int64_t shape[] = {4, 4};
    struct mt_tensor *ones = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, NULL, MT_BOOL, 2, shape);
    struct mt_tensor *mask = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, NULL, MT_BOOL, 2, shape);
    struct mt_tensor *other = mt_scalar(rt, MT_ROLE_TEMPORARY, NULL, MT_F64, -3);
    mt_op_fill(rt, ones, 1);
    mt_op_lower_triangle(rt, mask, ones);
    struct mt_tensor *out = mt_where(rt, MT_ROLE_ACTIVATION, NULL, mask, x[0], other);
    mt_tensor_release(rt, other);
    mt_tensor_release(rt, mask);
    mt_tensor_release(rt, ones);
    return out;
}

static struct mt_tensor *f_softmax(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_softmax(rt, MT_ROLE_ACTIVATION, NULL, x[0]);
}

static struct mt_tensor *f_causal_weights(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    return mt_causal_weights(rt, MT_ROLE_ACTIVATION, NULL, x[0], 0.7);
}

/* Row-major, so that the result can be read. */
static struct mt_tensor *f_flash_attention(struct mt_runtime *rt, struct mt_tensor *const *x)
{
    static const int positions_first[] = {0, 2, 1, 3};
    struct mt_tensor *heads = mt_flash_attention(rt, MT_ROLE_ACTIVATION, NULL, x[0], x[1], x[2], 0.6);
    struct mt_tensor *out = mt_permute(rt, heads, positions_first);
    mt_tensor_release(rt, heads);
    return out;
}

static void every_backward_agrees_with_central_differences(void **state)
{
    (void)state;
    static const struct subject subjects[] = {
        {"exp", f_exp, {{2, {3, 5}, -1, 1}}},
        {"rsqrt", f_rsqrt, {{2, {3, 5}, 0.5, 2}}},
        {"sigmoid", f_sigmoid, {{2, {3, 5}, -2, 2}}},
        {"power", f_power, {{2, {3, 5}, -2, 2}}},
        {"add_scalar", f_add_scalar, {{2, {3, 5}, -2, 2}}},
        {"sum_last", f_sum_last, {{3, {2, 3, 5}, -2, 2}}},
        {"mean_last", f_mean_last, {{3, {2, 3, 5}, -2, 2}}},
        {"max_last", f_max_last, {{3, {2, 3, 5}, -2, 2}}},
        {"logsumexp", f_logsumexp, {{3, {2, 3, 5}, -2, 2}}},
        {"mean_all", f_mean_all, {{3, {2, 3, 5}, -2, 2}}},
        {"add", f_add, {{2, {3, 5}, -1, 1}, {2, {3, 5}, -1, 1}}},
        {"add a row", f_add, {{3, {2, 3, 5}, -1, 1}, {1, {5}, -1, 1}}},
        {"subtract a column", f_subtract, {{3, {2, 3, 5}, -1, 1}, {3, {2, 3, 1}, -1, 1}}},
        {"multiply", f_multiply, {{2, {3, 5}, -1, 1}, {2, {3, 5}, -1, 1}}},
        {"multiply by a row", f_multiply, {{3, {2, 3, 5}, -1, 1}, {1, {5}, -1, 1}}},
        {"multiply by a column", f_multiply, {{3, {2, 3, 5}, -1, 1}, {3, {2, 3, 1}, -1, 1}}},
        {"divide", f_divide, {{2, {3, 5}, -1, 1}, {2, {3, 5}, 0.5, 2}}},
        {"divide by a column", f_divide, {{3, {2, 3, 5}, -1, 1}, {3, {2, 3, 1}, 0.5, 2}}},
        {"square plus itself", f_square_sum, {{2, {3, 5}, -1, 1}}},
        {"bmm", f_bmm, {{3, {2, 3, 4}, -1, 1}, {3, {2, 4, 5}, -1, 1}}},
        {"rotate", f_rotate, {{4, {2, 2, 3, 4}, -1, 1}}},
        {"permute and reshape", f_permute_reshape, {{4, {2, 3, 4, 5}, -1, 1}}},
        {"view", f_view, {{2, {4, 6}, -1, 1}}},
        {"embedding", f_embedding, {{2, {5, 3}, -1, 1}}},
        {"gather", f_gather, {{3, {2, 3, 5}, -1, 1}}},
        {"softmax", f_softmax, {{4, {2, 2, 3, 5}, -2, 2}}},
        {"causal weights", f_causal_weights, {{4, {1, 2, 5, 5}, -2, 2}}},
        {"flash attention",
         f_flash_attention,
         {{4, {2, 2, 5, 4}, -1, 1}, {4, {2, 2, 5, 4}, -1, 1}, {4, {2, 2, 5, 4}, -1, 1}}},
        {"flash attention over tiles",
         f_flash_attention,
         {{4, {1, 1, 70, 2}, -1, 1}, {4, {1, 1, 70, 2}, -1, 1}, {4, {1, 1, 70, 2}, -1, 1}}},
        {"where", f_where, {{3, {2, 4, 4}, -1, 1}}},
        {"mean of one", f_mean_last, {{3, {2, 3, 1}, -2, 2}}},
        {"maximum of one", f_max_last, {{2, {1, 1}, -2, 2}}},
        {"logsumexp of one", f_logsumexp, {{3, {1, 3, 1}, -2, 2}}},
        {"mean of all of one", f_mean_all, {{1, {1}, -2, 2}}},
        {"add one to one of more dimensions", f_add, {{1, {1}, -1, 1}, {3, {1, 1, 1}, -1, 1}}},
        {"multiply one by a scalar of more dimensions", f_multiply, {{1, {1}, -1, 1}, {4, {1, 1, 1, 1}, -1, 1}}},
        {"divide a row of one by a column of one", f_divide, {{3, {1, 1, 1}, -1, 1}, {1, {1}, 0.5, 2}}},
        {"bmm of ones", f_bmm, {{3, {1, 1, 1}, -1, 1}, {3, {1, 1, 1}, -1, 1}}},
        {"bmm of a column and a row", f_bmm, {{3, {2, 4, 1}, -1, 1}, {3, {2, 1, 5}, -1, 1}}},
        {"rotate one position", f_rotate, {{4, {1, 1, 1, 2}, -1, 1}}},
        {"softmax of one", f_softmax, {{4, {1, 2, 3, 1}, -2, 2}}},
        {"causal weights of one", f_causal_weights, {{4, {2, 1, 1, 1}, -2, 2}}},
        {"flash attention of one",
         f_flash_attention,
         {{4, {2, 1, 1, 1}, -1, 1}, {4, {2, 1, 1, 1}, -1, 1}, {4, {2, 1, 1, 1}, -1, 1}}},
    };
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        check_subject(&subjects[i]);
}

/* A node that has run has released its tensors, so it can't run again: not from the same output, nor from another. */
static void a_graph_that_has_run_is_refused_from_every_end(void **state)
{
    (void)state;
    static const double values[] = {1, 2, 3};
    for (int other_end = 0; other_end < 2; other_end++) {
        struct laboratory lab;
        struct mt_parameter parameter = {0};
        laboratory_open(&lab, "cpu:256MiB");
        struct mt_tensor *x = upload(&lab.rt, 1, (const int64_t[]){3}, values);
        parameter.value = x;
        mt_parameter_add_leaf(&lab.rt, &parameter);
        struct mt_tensor *maximum = mt_max_last(&lab.rt, MT_ROLE_ACTIVATION, NULL, x);
        struct mt_tensor *one_end = mt_mean_all(&lab.rt, MT_ROLE_ACTIVATION, NULL, maximum);
        struct mt_tensor *another = mt_mean_all(&lab.rt, MT_ROLE_ACTIVATION, NULL, maximum);
        mt_graph_backward(&lab.rt, one_end);
        assert_int_equal(lab.rt.status, MT_OK);
        mt_graph_backward(&lab.rt, other_end ? another : one_end);
        assert_int_equal(lab.rt.status, MT_FAILED);
        assert_string_equal(mt_last_error(), "backward has run through this graph already");
        mt_tensor_release(&lab.rt, another);
        mt_tensor_release(&lab.rt, one_end);
        mt_tensor_release(&lab.rt, maximum);
        mt_tensor_release(&lab.rt, parameter.grad);
        mt_tensor_release(&lab.rt, x);
        laboratory_close(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backward_agrees_with_central_differences),
        cmocka_unit_test(a_graph_that_has_run_is_refused_from_every_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
