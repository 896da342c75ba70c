/* Batch norm by PyTorch's own kernels. Where channels are last, several blocks of threads share a channel: each writes
 * its part to a staging area, and the last one sums the parts. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    MOST_THREADS = 512,
    TILE_WIDTH = 32,
    THREAD_ELEMENTS = 16,
    FEWEST_SHARED = 8, /* fewer blocks for a channel are not worth a staging area */
    MOST_SHARED = 128,
    MOMENTS = 4, /* parts of a forward pass, in a staging area that could hold four numbers for a channel */
    SUMS = 2     /* parts of a backward pass */
};

static int64_t power_of_two_below(int64_t value)
{
    int64_t power = 1;
    while (power * 2 <= value)
        power *= 2;
    return power;
}

/* True if channels have stride 1, and the tensor has no gaps. (N, C) counts, too. */
static bool has_channels_last(const struct mt_operand *input)
{
    int64_t expected = input->sizes[1];
    if (input->strides[1] != 1)
        return false;
    for (int i = input->dims - 1; i >= 0; i--) {
        if (i == 1)
            continue;
        if (input->sizes[i] != 1 && input->strides[i] != expected)
            return false;
        expected *= input->sizes[i];
    }
    return true;
}

static bool is_staged(const struct mt_operand *input)
{
    return input != NULL && input->dims >= 2 && input->elements > 0 && has_channels_last(input);
}

/* Uses the staging area and its counters, if blocks share channels. Formula:
 * aten/src/ATen/native/cuda/Normalization.cuh, flexible_launch_configs. */
static void stage(struct mt_operator_plan *plan, const struct mt_operand *input, int parts)
{
    const int64_t channels = input->sizes[1], rows = input->elements / channels;
    const int64_t row_threads = power_of_two_below(mt_divide_up(rows, THREAD_ELEMENTS));
    int64_t width = mt_smaller(power_of_two_below(channels), TILE_WIDTH);
    const int64_t height = mt_smaller(row_threads, MOST_THREADS / width);
    if (width * height != MOST_THREADS)
        width = mt_smaller(power_of_two_below(channels), MOST_THREADS / height);
    const int64_t shared = mt_smaller(mt_divide_up(rows, height * THREAD_ELEMENTS), MOST_SHARED);
    if (shared < FEWEST_SHARED)
        return;
    const int staging = mt_inner_take(plan, MT_PRODUCT(parts, channels, shared, mt_operand_sum_bytes(input)));
    mt_inner_use(plan, MT_PRODUCT(mt_divide_up(channels, width), MT_FLOAT_BYTES));
    mt_inner_give(plan, staging);
}

/* native_batch_norm and batch_norm_stats. In evaluation the forward pass computes no moments. */
MT_RULE(batch_norm)
{
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_outputs(plan, call, 0);
    if (is_staged(input) && mt_call_integer(call, "training", 1) != 0)
        stage(plan, input, MOMENTS);
}

/* batch_norm_backward_reduce, of SyncBatchNorm. */
MT_RULE(batch_norm_reduce)
{
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_outputs(plan, call, 0);
    if (is_staged(input))
        stage(plan, input, SUMS);
}

/* native_batch_norm_backward. Where channels are last, the sums come first, and the gradient of the input last. */
MT_RULE(batch_norm_backward)
{
    const struct mt_operand *input = mt_call_tensor(call, "input"), *factor = mt_call_tensor(call, "save_invstd");
    if (!is_staged(input))
        return;
    const int64_t bytes = MT_PRODUCT(input->sizes[1], mt_operand_sum_bytes(input));
    if (factor == NULL || factor->elements == 0)
        mt_inner_take(plan, bytes);
    mt_inner_take(plan, bytes);
    mt_inner_take(plan, bytes);
    mt_inner_outputs(plan, call, 1);
    stage(plan, input, SUMS);
    mt_inner_output(plan, 0);
}

/* ---- cuDNN's ---- */

/* Writes the groups of channels whose sums cuDNN's kernels for channels last keep together, and the channels of each.
 * False if the input is for another kernel, without a workspace. */
static bool find_groups(const struct mt_operand *input, int64_t *groups, int64_t *width)
{
    enum { NARROW = 4, WIDE = 64 };
    if (!is_staged(input) || input->dims < 4 || input->sizes[1] < 2 ||
        mt_product_of(input->sizes + 2, (size_t)input->dims - 2) == 1)
        return false;
    *width = input->sizes[1] <= NARROW ? NARROW : WIDE;
    *groups = mt_divide_up(input->sizes[1], *width);
    return true;
}

/* Returns how many parts the images' pixels are cut into: of so many rows where groups are wide. */
static int64_t parts_of(const struct mt_operand *input, int64_t width, int64_t rows)
{
    enum { WIDE = 64, NARROW_FACTOR = 4 };
    return mt_divide_up(input->elements / input->sizes[1], width == WIDE ? rows : rows * NARROW_FACTOR);
}

/* The bytes of both workspaces were found from 4,496 calls on an H200 under cuDNN 9.19, which they meet: two sums for
 * each channel of each part, and counters. cuDNN reserves nothing for backward. */
MT_RULE(cudnn_batch_norm)
{
    enum { SINGLE_ROWS = 64, HALF_ROWS = 160, COUNTERS = 268 };
    const struct mt_operand *input = mt_call_tensor(call, "input");
    int64_t groups, width;
    mt_inner_outputs(plan, call, 0);
    if (mt_call_integer(call, "training", 1) == 0 || !find_groups(input, &groups, &width))
        return;
    const int64_t parts = parts_of(input, width, mt_operand_is_narrow(input) ? HALF_ROWS : SINGLE_ROWS);
    mt_inner_use(plan, MT_FLOAT_BYTES * (groups * (2 * width + 1) * parts + groups + COUNTERS));
}

MT_RULE(cudnn_batch_norm_backward)
{
    enum { ROWS = 96, COUNTERS = 264 };
    const struct mt_operand *input = mt_call_tensor(call, "input");
    int64_t groups, width;
    mt_inner_outputs(plan, call, 0);
    if (find_groups(input, &groups, &width))
        mt_inner_use(plan, MT_FLOAT_BYTES * (groups * 2 * width * parts_of(input, width, ROWS) + groups + COUNTERS));
}
