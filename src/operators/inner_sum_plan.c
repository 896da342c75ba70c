/* Operators that reduce tensors of their own before or after their kernels: losses of rows, distances, norms of slices. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum { MADE_DIMS = 4, MOST_DIMS = 16 };

/* Returns a contiguous tensor with elements of `like`. Borrows the sizes and writes the strides. */
static struct mt_operand contiguous_like(const struct mt_operand *like, int dims, const int64_t *sizes,
                                         int64_t *strides)
{
    struct mt_operand made = {.sizes = sizes,
                              .strides = strides,
                              .dims = dims,
                              .dtype = like->dtype,
                              .elements = 1,
                              .item_bytes = like->item_bytes,
                              .is_contiguous = true};
    for (int i = dims - 1; i >= 0; i--) {
        strides[i] = made.elements;
        made.elements = MT_PRODUCT(made.elements, sizes[i]);
    }
    return made;
}

/* Takes a new tensor with elements of `like`, and sums its dimension `dim`. */
static void take_and_sum(struct mt_operator_plan *plan, const struct mt_operand *like, int dims, const int64_t *sizes,
                         int64_t dim)
{
    int64_t strides[MADE_DIMS];
    const struct mt_operand made = contiguous_like(like, dims, sizes, strides);
    const struct mt_argument reduced = {.kind = MT_ARGUMENT_INTEGER, .integer = dim};
    mt_inner_take_like(plan, &made);
    mt_inner_reduce(plan, &made, &reduced, mt_operand_sum_bytes(&made));
}

/* multi_margin_loss, multilabel_margin_loss_forward: losses of rows, and as a sum. */
MT_RULE(margin_loss)
{
    static const char *const names[] = {"self", "target", "weight", NULL};
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input == NULL)
        return;
    mt_inner_copy_each(plan, call, names);
    if (input->dims == 2 && mt_call_number(call, "reduction", 0) != 0)
        take_and_sum(plan, input, 1, input->sizes, 0);
}

/* True if distances between the rows of two tensors (..., R, C) have a gradient. Distances of the norm 0 have none. */
static bool has_distances(const struct mt_operator_call *call, const struct mt_operand *a, const struct mt_operand *b)
{
    return a != NULL && b != NULL && a->dims >= 2 && b->dims >= 2 && a->elements > 0 && b->elements > 0 &&
           mt_call_number(call, "p", 2) != 0;
}

/* Takes a copy of a tensor (..., R, C) that has fewer batches than the distances. */
static void expand_batches(struct mt_operator_plan *plan, const struct mt_operand *tensor, int64_t batches)
{
    const int64_t elements = MT_PRODUCT(batches, tensor->sizes[tensor->dims - 2], tensor->sizes[tensor->dims - 1]);
    if (elements != tensor->elements)
        mt_inner_take(plan, MT_PRODUCT(elements, tensor->item_bytes));
}

/* _cdist_forward: copies. Euclidean distances of many rows are computed by a matmul and other operators, whose memory
 * is not known. */
MT_RULE(distances)
{
    enum { MOST_ROWS = 25, BY_MATMUL = 1, NOT_BY_MATMUL = 2 };
    const struct mt_operand *x1 = mt_call_tensor(call, "x1"), *x2 = mt_call_tensor(call, "x2");
    if (x1 == NULL || x2 == NULL || call->output_count == 0 || call->outputs[0].elements == 0)
        return;
    const int64_t r1 = x1->sizes[x1->dims - 2], r2 = x2->sizes[x2->dims - 2];
    const int64_t mode = mt_call_integer(call, "compute_mode", 0), batches = call->outputs[0].elements / (r1 * r2);
    mt_inner_copy(plan, x1);
    mt_inner_copy(plan, x2);
    expand_batches(plan, x1, batches);
    expand_batches(plan, x2, batches);
    const bool is_large = mode == BY_MATMUL || (mode != NOT_BY_MATMUL && mt_greater(r1, r2) > MOST_ROWS);
    if (mt_call_number(call, "p", 2) == 2 && is_large)
        mt_inner_uncounted(plan);
    mt_inner_outputs(plan, call, 0);
}

/* _cdist_backward: what each pair of rows adds to the gradient. */
MT_RULE(distances_backward)
{
    const struct mt_operand *x1 = mt_call_tensor(call, "x1"), *x2 = mt_call_tensor(call, "x2");
    const struct mt_operand *distances = mt_call_tensor(call, "cdist");
    if (!has_distances(call, x1, x2) || distances == NULL)
        return;
    const int64_t r1 = x1->sizes[x1->dims - 2], c = x1->sizes[x1->dims - 1], r2 = x2->sizes[x2->dims - 2];
    const int64_t batches = distances->elements / (r1 * r2);
    expand_batches(plan, x1, batches);
    expand_batches(plan, x2, batches);
    mt_inner_outputs(plan, call, 0);
    take_and_sum(plan, x1, MADE_DIMS, (const int64_t[MADE_DIMS]){batches, r2, r1, c}, 1);
}

/* _pdist_backward: the same, of all pairs of one tensor. */
MT_RULE(own_distances_backward)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (!has_distances(call, self, self) || self->sizes[0] < 2)
        return;
    take_and_sum(plan, self, 3, (const int64_t[]){self->sizes[0] - 1, self->sizes[0], self->sizes[1]}, 0);
}

/* renorm: norms of the slices of a dimension, and their factors, which have the norms' memory if fp32. */
MT_RULE(renorm)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    int64_t reduced[MOST_DIMS];
    struct mt_argument dims = {.kind = MT_ARGUMENT_INTEGERS, .integers = reduced};
    if (input == NULL || input->dims < 2 || input->dims > MOST_DIMS)
        return;
    const int64_t kept = mt_call_dimension(call, input, 0), slices = input->sizes[kept];
    for (int64_t i = 0; i < input->dims; i++)
        if (i != kept)
            reduced[dims.count++] = i;
    mt_inner_take(plan, MT_PRODUCT(slices, mt_operand_sum_bytes(input)));
    mt_inner_reduce(plan, input, &dims, mt_operand_sum_bytes(input));
    if (mt_operand_is_narrow(input))
        mt_inner_take(plan, MT_PRODUCT(slices, input->item_bytes));
}

/* _sample_dirichlet: sums of rows. */
MT_RULE(dirichlet)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input == NULL || input->dims == 0 || call->output_count == 0)
        return;
    const struct mt_argument last = {.kind = MT_ARGUMENT_INTEGER, .integer = input->dims - 1};
    struct mt_operand samples = call->outputs[0];
    samples.offset = 0;
    mt_inner_take(plan, MT_PRODUCT(input->elements / input->sizes[input->dims - 1], input->item_bytes));
    mt_inner_reduce(plan, &samples, &last, mt_operand_sum_bytes(input));
}

/* Finds the least and the greatest element of each of `rows`, which travel together. */
static void find_bounds(struct mt_operator_plan *plan, const struct mt_operand *input, const struct mt_argument *dims,
                        int64_t rows)
{
    const int least = mt_inner_take(plan, MT_PRODUCT(rows, input->item_bytes));
    const int greatest = mt_inner_take(plan, MT_PRODUCT(rows, input->item_bytes));
    mt_inner_reduce(plan, input, dims, 2 * input->item_bytes);
    mt_inner_give(plan, greatest);
    mt_inner_give(plan, least);
}

/* Finds the bounds of zero points, if they are whole numbers. */
static void check_zero_points(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *points = mt_call_tensor(call, "zero_point");
    if (points != NULL && points->elements > 0 && points->dtype < MT_SCALAR_HALF)
        find_bounds(plan, points, NULL, 1);
}

/* fake_quantize_per_channel_affine_cachemask. */
MT_RULE(quantized_channels)
{
    check_zero_points(plan, call);
    mt_inner_outputs(plan, call, 0);
}

/* Finds the bounds of each channel, in a copy if the channels do not come first. */
static void observe_channels(struct mt_operator_plan *plan, const struct mt_operand *input, int64_t axis)
{
    const int64_t channels = input->sizes[axis], sizes[] = {channels, input->elements / channels};
    const struct mt_argument rows = {.kind = MT_ARGUMENT_INTEGER, .integer = 1};
    int64_t strides[MADE_DIMS];
    const struct mt_operand made = contiguous_like(input, 2, sizes, strides);
    const bool is_copied = input->dims != 2 && (axis != 0 || !input->is_contiguous);
    const int copy = mt_inner_take_like(plan, is_copied ? &made : NULL);
    find_bounds(plan, input->dims == 2 ? input : &made, &rows, channels);
    mt_inner_give(plan, copy);
}

/* _fused_moving_avg_obs_fq_helper: bounds of the input, or of its channels. */
MT_RULE(observed_quantization)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    if (input == NULL || input->elements == 0)
        return;
    mt_inner_copy(plan, input);
    if (mt_call_integer(call, "per_row_fake_quant", 0) == 0) {
        find_bounds(plan, input, NULL, 1);
    } else {
        observe_channels(plan, input, mt_call_integer(call, "ch_axis", 0));
        check_zero_points(plan, call);
    }
    mt_inner_outputs(plan, call, 0);
}

/* trace: the sum of the diagonal, which is cast if it has whole numbers. */
MT_RULE(trace)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input == NULL || input->dims != 2 || call->output_count != 1)
        return;
    const int64_t length = mt_smaller(input->sizes[0], input->sizes[1]);
    if (input->dtype != call->outputs[0].dtype)
        mt_inner_take(plan, MT_PRODUCT(length, call->outputs[0].item_bytes));
}
