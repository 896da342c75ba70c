/* Convolutions by cuDNN. It chooses among its kernels as the program runs, so this is what most of them take: its fast ones read
 * channels last, and what lies otherwise is copied into a workspace, with channels filled up to a multiple. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum { WORKSPACE_LEAST = 16, CHANNELS_HALF = 4, CHANNELS_BF16 = 8 };

static bool is_channels_last(const struct mt_operand *tensor)
{
    return tensor->dims > 2 && tensor->sizes[1] > 1 && tensor->strides[1] == 1;
}

/* Returns the elements of a tensor (N, C, …) with its channels filled up to a multiple. */
static int64_t filled_elements(const struct mt_operand *tensor, int64_t multiple)
{
    const int64_t channels = tensor->sizes[1];
    return tensor->elements / channels * mt_round_up(channels, multiple);
}

/* Returns what a convolution of `input` by `weight` into `output` takes: nothing if all have their channels last, for products of
 * channels alone, and for channels that are convolved one by one, which other kernels do. */
static int64_t workspace_bytes(const struct mt_operand *input, const struct mt_operand *weight,
                               const struct mt_operand *output)
{
    const int64_t multiple = input->dtype == MT_SCALAR_HALF   ? CHANNELS_HALF
                             : input->dtype == MT_SCALAR_BF16 ? CHANNELS_BF16
                                                              : 1;
    int64_t taps = 1;
    for (int i = 2; i < weight->dims; i++)
        taps *= weight->sizes[i];
    if (is_channels_last(input) || taps == 1 || weight->sizes[1] == 1)
        return 0;
    return MT_PRODUCT(filled_elements(input, multiple) + filled_elements(weight, multiple) + output->elements,
                      input->item_bytes) +
           WORKSPACE_LEAST;
}

static bool are_images(const struct mt_operand *a, const struct mt_operand *b, const struct mt_operand *c)
{
    return a != NULL && b != NULL && c != NULL && a->dims > 2 && b->dims == a->dims && c->dims == a->dims &&
           a->elements > 0 && b->elements > 0;
}

static void take_workspace(struct mt_operator_plan *plan, const struct mt_operand *input,
                           const struct mt_operand *weight, const struct mt_operand *output)
{
    const int64_t bytes = are_images(input, weight, output) ? workspace_bytes(input, weight, output) : 0;
    if (bytes > 0)
        mt_inner_use(plan, bytes);
}

MT_RULE(convolution)
{
    mt_inner_guess(plan);
    mt_inner_outputs(plan, call, 0);
    if (call->output_count == 1)
        take_workspace(plan, mt_call_tensor(call, "self"), mt_call_tensor(call, "weight"), &call->outputs[0]);
}

/* cudnn_convolution_backward, a name of ours for one gradient, which is there. */
MT_RULE(convolution_backward)
{
    mt_inner_guess(plan);
    take_workspace(plan, mt_call_tensor(call, "self"), mt_call_tensor(call, "weight"),
                   mt_call_tensor(call, "grad_output"));
}
