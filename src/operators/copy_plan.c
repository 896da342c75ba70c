/* Operators whose kernels read contiguous tensors: other arguments are copied, and the copies live as long as the call.
 * Also operators that write a result in another memory format from a contiguous copy. */
#include "operators/convolution.h"
#include "operators/operator_plan.h"

#include <stddef.h>

static const char *const inputs[] = {"self", "indices", "theta", NULL};
static const char *const gradients[] = {"grad_output", "grad", "indices", NULL};

/* The results, then copies of inputs. */
MT_RULE(contiguous_input)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy_each(plan, call, inputs);
}

/* The results, then copies of the result's gradient and of indices. The input gives only its shape. */
MT_RULE(contiguous_gradient)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy_each(plan, call, gradients);
}

/* kthvalue, median of a dimension: the copy comes before the results. */
MT_RULE(copied_input)
{
    mt_inner_copy_each(plan, call, inputs);
    mt_inner_outputs(plan, call, 0);
}

/* True if adaptive pooling has a batch, which is copied. The last dimensions, which "output_size" names, follow it and
 * the channels. */
static bool is_batch(const struct mt_operator_call *call, const struct mt_operand *input)
{
    const struct mt_argument *sizes = mt_call_list(call, "output_size", MT_ARGUMENT_INTEGERS);
    return input != NULL && sizes != NULL && input->dims == sizes->count + 2;
}

/* adaptive_max_pool2d and 3d, _adaptive_avg_pool3d. */
MT_RULE(adaptive_pool)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (is_batch(call, input))
        mt_inner_copy(plan, input);
}

/* Copies a tensor unless it is dense in this memory format. */
static void copy_in_format(struct mt_operator_plan *plan, const struct mt_operand *tensor, bool is_channels_last)
{
    if (tensor != NULL && !mt_convolution_is_dense(tensor, is_channels_last))
        mt_inner_take_like(plan, tensor);
}

/* max_pool3d_with_indices and its backward: copies to the memory format of the input. */
MT_RULE(max_pool_volumes)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || input->elements == 0)
        return;
    const bool is_channels_last = mt_convolution_is_channels_last(input, input);
    const struct mt_operand *gradient = mt_call_tensor(call, "grad_output");
    copy_in_format(plan, gradient != NULL ? gradient : input, is_channels_last);
    copy_in_format(plan, mt_call_tensor(call, "indices"), is_channels_last);
}

/* _upsample_nearest_exact2d and its backward: copies to the memory format of the tensor, channels last if there are at
 * least 4; else the result, too, is computed in a contiguous copy. */
MT_RULE(nearest_images)
{
    enum { FEWEST_CHANNELS = 4 };
    const struct mt_operand *gradient = mt_call_tensor(call, "grad_output");
    const struct mt_operand *images = gradient != NULL ? gradient : mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (images == NULL || images->dims < 2 || call->output_count == 0 ||
        images->elements == call->outputs[0].elements) /* of one size: an ordinary copy */
        return;
    const bool is_channels_last =
        images->sizes[1] >= FEWEST_CHANNELS && mt_convolution_is_channels_last(images, images);
    if (!is_channels_last)
        mt_inner_copy(plan, &call->outputs[0]);
    copy_in_format(plan, images, is_channels_last);
}

/* Resampling by kernels that know no other memory format: the result is computed in a contiguous copy. */
MT_RULE(contiguous_image)
{
    mt_inner_outputs(plan, call, 0);
    if (call->output_count > 0)
        mt_inner_copy(plan, &call->outputs[0]);
    mt_inner_copy_each(plan, call, inputs);
    mt_inner_copy(plan, mt_call_tensor(call, "grad_output"));
}

/* multi_margin_loss_backward, multilabel_margin_loss_backward. */
MT_RULE(margin_loss_backward)
{
    static const char *const names[] = {"self", "grad_output", "target", "weight", "is_target", NULL};
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy_each(plan, call, names);
}

/* _masked_softmax_backward: in registers the product of gradient and result; rows that do not fit are masked, and the
 * result that was made for the kernel is replaced by the gradient of the copy. */
MT_RULE(masked_softmax_backward)
{
    enum { MOST_COLUMNS = 1024, MOST_ROW_BYTES = 4096 };
    static const char *const names[] = {"grad_output", "output", "mask", NULL};
    const struct mt_operand *gradient = mt_call_tensor(call, "grad_output");
    if (gradient == NULL || gradient->dims == 0 || gradient->elements == 0)
        return;
    const int64_t last = gradient->dims - 1, dim = mt_call_dimension(call, gradient, last);
    const int64_t columns = gradient->sizes[dim];
    const bool is_fused = dim == last && columns <= MOST_COLUMNS && columns * gradient->item_bytes <= MOST_ROW_BYTES;
    const int unused = is_fused ? -1 : mt_inner_take_like(plan, gradient);
    if (is_fused)
        mt_inner_outputs(plan, call, 0);
    mt_inner_copy_each(plan, call, names);
    const int made = mt_inner_take_like(plan, gradient); /* the product, or the masked copy */
    if (is_fused)
        return;
    mt_inner_outputs(plan, call, 0);
    mt_inner_use(plan, mt_operand_bytes(gradient));
    mt_inner_give(plan, unused);
    mt_inner_give(plan, made);
}

/* Returns the dtype to which two tensors are cast before they are compared: of two whole numbers or two floating-point
 * ones the wider one, else the floating-point one. */
static const struct mt_operand *common_of(const struct mt_operand *a, const struct mt_operand *b)
{
    const bool a_floats = a->dtype >= MT_SCALAR_HALF, b_floats = b->dtype >= MT_SCALAR_HALF;
    if (a_floats != b_floats)
        return a_floats ? a : b;
    return a->item_bytes >= b->item_bytes ? a : b;
}

/* Takes the copy of a tensor that a search needs: contiguous, and in the common dtype. */
static void prepare(struct mt_operator_plan *plan, const struct mt_operand *tensor, const struct mt_operand *common)
{
    const int copy = mt_inner_copy(plan, tensor);
    if (tensor->dtype == common->dtype)
        return;
    mt_inner_take(plan, MT_PRODUCT(tensor->elements, common->item_bytes));
    mt_inner_give(plan, copy);
}

/* searchsorted, bucketize: of a number the tensor that holds it. */
MT_RULE(sorted_search)
{
    enum { NUMBER_BYTES = 8 };
    const struct mt_operand *sequence = mt_call_tensor(call, "sorted_sequence"), *values = mt_call_tensor(call, "self");
    const struct mt_operand *boundaries = sequence != NULL ? sequence : mt_call_tensor(call, "boundaries");
    if (values == NULL)
        mt_inner_take(plan, NUMBER_BYTES);
    mt_inner_outputs(plan, call, 0);
    if (values == NULL || boundaries == NULL || values->elements == 0)
        return;
    const struct mt_operand *common = common_of(values, boundaries);
    prepare(plan, values, common);
    prepare(plan, boundaries, common);
    mt_inner_copy(plan, mt_call_tensor(call, "sorter"));
}

static bool has_zero_stride(const struct mt_operand *tensor)
{
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->strides[i] == 0)
            return true;
    return false;
}

/* cudnn_grid_sampler and its backward: copies of expanded tensors, and of a grid that is not contiguous. */
MT_RULE(cudnn_grid)
{
    static const char *const names[] = {"self", "grad_output"};
    mt_inner_copy(plan, mt_call_tensor(call, "grid"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct mt_operand *tensor = mt_call_tensor(call, names[i]);
        if (tensor != NULL && has_zero_stride(tensor))
            mt_inner_take_like(plan, tensor);
    }
    mt_inner_outputs(plan, call, 0);
}
