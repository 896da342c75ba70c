/* Convolutions by cuDNN: copies of tensors in another memory format than the convolution's, then the workspace of the
 * kernel that cuDNN chooses.
 *
 * Without an answer of cuDNN's (convolution.h), the workspace is what most kernels take: the fast ones read channels
 * last, and what lies otherwise is copied into the workspace, with channels filled up to a multiple. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum { WORKSPACE_LEAST = 16, CHANNELS_HALF = 4, CHANNELS_BF16 = 8 };

/* A convolution: its tensors by cuDNN's names. */
struct convolution {
    enum mt_convolution_kind kind;
    const struct mt_operand *x, *w, *y;
    bool is_channels_last;
};

/* ---- the estimate ---- */

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

/* Returns what most convolutions take: nothing if their images have channels last, for products of channels alone, and
 * for channels that are convolved one by one, which other kernels do. */
static int64_t estimate(const struct convolution *convolution)
{
    const struct mt_operand *x = convolution->x, *w = convolution->w;
    const int64_t multiple = x->dtype == MT_SCALAR_HALF   ? CHANNELS_HALF
                             : x->dtype == MT_SCALAR_BF16 ? CHANNELS_BF16
                                                          : 1;
    int64_t taps = 1;
    for (int i = 2; i < w->dims; i++)
        taps *= w->sizes[i];
    if (is_channels_last(x) || taps == 1 || w->sizes[1] == 1)
        return 0;
    return MT_PRODUCT(filled_elements(x, multiple) + filled_elements(w, multiple) + convolution->y->elements,
                      x->item_bytes) +
           WORKSPACE_LEAST;
}

/* ---- the plan ---- */

/* Asks for the workspaces. False if there is no answer. */
static bool ask(const struct mt_operator_plan *plan, const struct mt_operator_call *call,
                const struct convolution *convolution, struct mt_convolution_run *out)
{
    const struct mt_convolution_source *source = plan->convolutions;
    const struct mt_convolution_call how = {mt_call_number(call, "benchmark", 0) != 0, call->is_short};
    struct mt_convolution_question question;
    return source != NULL &&
           mt_convolution_question_of(convolution->kind, call, convolution->x, convolution->w, convolution->y,
                                      convolution->is_channels_last, &question) &&
           source->ask(source->state, plan->card, &question, &how, out);
}

static void use_estimate(struct mt_operator_plan *plan, const struct convolution *convolution)
{
    const int64_t bytes = estimate(convolution), tensors = mt_operand_bytes(convolution->x) +
                                                           mt_operand_bytes(convolution->w) +
                                                           mt_operand_bytes(convolution->y);
    mt_inner_use_about(plan, bytes, mt_convolution_shape_range(bytes, tensors));
}

/* Takes the workspace: without an answer, an estimate of it. */
static void use_workspace(struct mt_operator_plan *plan, const struct mt_operator_call *call,
                          const struct convolution *convolution)
{
    struct mt_convolution_run run;
    if (!ask(plan, call, convolution, &run)) {
        use_estimate(plan, convolution);
        return;
    }
    if (run.is_trial)
        mt_inner_trial(plan);
    mt_inner_try_about(plan, (int)run.first, run.answer.workspace_bytes[run.first], run.answer.range);
    for (int64_t i = run.first + 1; i < run.answer.count; i++)
        mt_inner_try(plan, (int)i, run.answer.workspace_bytes[i]);
}

static void copy_unless_dense(struct mt_operator_plan *plan, const struct convolution *convolution,
                              const struct mt_operand *tensor)
{
    if (!mt_convolution_is_dense(tensor, convolution->is_channels_last))
        mt_inner_take_like(plan, tensor);
}

static bool is_image(const struct mt_operand *tensor, int dims)
{
    return tensor != NULL && tensor->dims == dims && dims > 2 && dims <= MT_CONVOLUTION_MOST_DIMS &&
           tensor->elements > 0;
}

/* Takes copies of two tensors that are read, and the workspace. */
static void take(struct mt_operator_plan *plan, const struct mt_operator_call *call, enum mt_convolution_kind kind,
                 const struct mt_operand *x, const struct mt_operand *w, const struct mt_operand *y)
{
    if (x == NULL || !is_image(x, x->dims) || !is_image(w, x->dims) || !is_image(y, x->dims))
        return;
    const struct mt_operand *const first = kind == MT_CONVOLUTION_WEIGHT_GRADIENT ? y : w,
                                   *const second = kind == MT_CONVOLUTION_INPUT_GRADIENT ? y : x;
    const struct convolution convolution = {kind, x, w, y, mt_convolution_is_channels_last(first, second)};
    copy_unless_dense(plan, &convolution, first);
    copy_unless_dense(plan, &convolution, second);
    use_workspace(plan, call, &convolution);
}

MT_RULE(convolution)
{
    mt_inner_outputs(plan, call, 0);
    if (call->output_count == 1)
        take(plan, call, MT_CONVOLUTION_FORWARD, mt_call_tensor(call, "self"), mt_call_tensor(call, "weight"),
             &call->outputs[0]);
}

MT_RULE(convolution_fused)
{
    mt_inner_outputs(plan, call, 0);
    if (call->output_count == 1)
        take(plan, call, MT_CONVOLUTION_FUSED, mt_call_tensor(call, "self"), mt_call_tensor(call, "weight"),
             &call->outputs[0]);
}

MT_RULE(convolution_transpose)
{
    mt_inner_outputs(plan, call, 0);
    if (call->output_count == 1)
        take(plan, call, MT_CONVOLUTION_INPUT_GRADIENT, &call->outputs[0], mt_call_tensor(call, "weight"),
             mt_call_tensor(call, "self"));
}

/* The gradients have names of ours and cuDNN's names of the tensors. The one that is computed is there. */
static void take_gradient(struct mt_operator_plan *plan, const struct mt_operator_call *call,
                          enum mt_convolution_kind kind)
{
    take(plan, call, kind, mt_call_tensor(call, "x"), mt_call_tensor(call, "w"), mt_call_tensor(call, "y"));
}

MT_RULE(convolution_forward)
{
    take_gradient(plan, call, MT_CONVOLUTION_FORWARD);
}

MT_RULE(convolution_input_gradient)
{
    take_gradient(plan, call, MT_CONVOLUTION_INPUT_GRADIENT);
}

MT_RULE(convolution_weight_gradient)
{
    take_gradient(plan, call, MT_CONVOLUTION_WEIGHT_GRADIENT);
}

/* _conv_depthwise2d, conv_depthwise3d: copies of tensors that are not contiguous, until the kernel ends. */
MT_RULE(depthwise_convolution)
{
    static const char *const names[] = {"self", "weight", "bias", NULL};
    mt_inner_copy_each(plan, call, names);
    mt_inner_outputs(plan, call, 0);
}

/* Adds the sum of the result's gradient over all but the channels, if a bias has a gradient. */
static void sum_gradient(struct mt_operator_plan *plan, const struct mt_operator_call *call,
                         const struct mt_operand *gradient)
{
    enum { BIAS = 2 };
    static const int64_t summed[] = {0, 2, 3};
    const struct mt_argument dims = {.kind = MT_ARGUMENT_INTEGERS, .integers = summed, .count = 3};
    if (call->output_count > BIAS && call->outputs[BIAS].elements > 0)
        mt_inner_reduce(plan, gradient, &dims, mt_operand_sum_bytes(gradient));
}

/* Takes the columns of one image, one for each of `places`, which cuBLAS multiplies with the weight. */
static void multiply_columns(struct mt_operator_plan *plan, const struct mt_operand *w, int64_t places)
{
    mt_inner_take(plan, MT_PRODUCT(w->elements / w->sizes[0], places, w->item_bytes));
    mt_inner_keep(plan, MT_WORKSPACE_CUBLAS, (int64_t)plan->card->matmul_workspace_bytes);
}

static int64_t places_of(const struct mt_operand *images)
{
    return images->elements / images->sizes[0] / images->sizes[1];
}

/* _slow_conv2d_forward, slow_conv_dilated2d and 3d: the columns of the input. */
MT_RULE(convolution_by_columns)
{
    static const char *const names[] = {"self", "weight", "bias", NULL};
    const struct mt_operand *w = mt_call_tensor(call, "weight");
    mt_inner_copy_each(plan, call, names);
    mt_inner_outputs(plan, call, 0);
    if (w != NULL && call->output_count > 0 && call->outputs[0].elements > 0)
        multiply_columns(plan, w, places_of(&call->outputs[0]));
}

/* _slow_conv2d_backward: the columns of the input's gradient, and then of the input. */
MT_RULE(convolution_by_columns_backward)
{
    static const char *const names[] = {"grad_output", "weight", "self", NULL};
    const struct mt_operand *w = mt_call_tensor(call, "weight"), *gradient = mt_call_tensor(call, "grad_output");
    mt_inner_copy_each(plan, call, names);
    mt_inner_outputs(plan, call, 0);
    if (w == NULL || gradient == NULL || gradient->elements == 0)
        return;
    multiply_columns(plan, w, places_of(gradient));
    sum_gradient(plan, call, gradient);
}

/* slow_conv_transpose2d and 3d: the columns of the result, and ones that are multiplied with the bias. */
MT_RULE(transposed_convolution_by_columns)
{
    static const char *const names[] = {"self", "weight", "bias", NULL};
    const struct mt_operand *x = mt_call_tensor(call, "self"), *w = mt_call_tensor(call, "weight");
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy_each(plan, call, names);
    if (x == NULL || w == NULL || x->elements == 0 || call->output_count == 0)
        return;
    multiply_columns(plan, w, places_of(x));
    if (mt_call_tensor(call, "bias") != NULL)
        mt_inner_take(plan, MT_PRODUCT(places_of(&call->outputs[0]), x->item_bytes));
}
