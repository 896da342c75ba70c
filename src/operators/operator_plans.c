/* Products of matrices, norms, dropout, and norms of lists. */
#include "operators/operator_memory.h"
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    FLOAT_BYTES = 4,
    LT_WORKSPACE_BYTES = 1 << 20, /* PyTorch's default of CUBLASLT_WORKSPACE_SIZE */
    CHUNK = 65536,                /* elements of a list's tensor that a block takes */
    NORM_ROWS = 65536,            /* fewer are summed by one block a column */
    NORM_TILE = 32,
    NORM_BLOCKS = 32768,
    GROUPED_CAPABILITY = 90, /* of the kernel for groups; others multiply one after the other */
    GROUP_BYTES = 60,        /* of a group: its sizes, strides and pointers */
    GROUPED_BYTES = 512      /* of a multiprocessor */
};

/* ---- products: cuBLAS's workspace of this thread and stream, and copies of what cuBLAS can't read as it lies ---- */

/* True if cuBLAS reads the last two dimensions as a matrix, transposed or not. */
static bool is_matrix(const struct mt_operand *tensor)
{
    if (tensor->dims < 2)
        return true;
    const int64_t rows = tensor->sizes[tensor->dims - 2], columns = tensor->sizes[tensor->dims - 1];
    const int64_t down = tensor->strides[tensor->dims - 2], across = tensor->strides[tensor->dims - 1];
    return (across == 1 && down >= (columns > 1 ? columns : 1)) || (down == 1 && across >= (rows > 1 ? rows : 1)) ||
           tensor->is_contiguous;
}

static int copy_matrix(struct mt_operator_plan *plan, const struct mt_operand *tensor)
{
    if (tensor == NULL || tensor->elements == 0 || is_matrix(tensor))
        return -1;
    return mt_inner_take(plan, MT_BYTES(tensor->elements, tensor->item_bytes));
}

static void multiply(struct mt_operator_plan *plan, const struct mt_operand *a, const struct mt_operand *b)
{
    const int copy_of_a = copy_matrix(plan, a), copy_of_b = copy_matrix(plan, b);
    mt_inner_keep(plan, MT_WORKSPACE_CUBLAS, (int64_t)plan->card->matmul_workspace_bytes);
    mt_inner_give(plan, copy_of_b);
    mt_inner_give(plan, copy_of_a);
}

/* mm, bmm, dot: the factors come first. */
void mt_rule_matmul(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    mt_inner_outputs(plan, call, 0);
    multiply(plan, mt_call_tensor(call, 0), mt_call_tensor(call, 1));
}

/* _grouped_mm(a, b, ends of groups, …): what CUTLASS needs of each group, and its workspace. */
void mt_rule_grouped_matmul(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *a = mt_call_tensor(call, 0), *b = mt_call_tensor(call, 1), *ends = mt_call_tensor(call, 2);
    mt_inner_outputs(plan, call, 0);
    if (a == NULL || b == NULL || plan->card->capability != GROUPED_CAPABILITY)
        return;
    const int64_t groups = ends != NULL ? ends->elements : a->dims == 3 ? a->sizes[0] : b->sizes[0];
    const int described = mt_inner_take(plan, MT_BYTES(groups, GROUP_BYTES));
    mt_inner_give(plan, mt_inner_take(plan, MT_BYTES(plan->card->multiprocessors, GROUPED_BYTES)));
    mt_inner_give(plan, described);
}

/* True if the bias is added by cublasLt: (columns), contiguous, as it is. */
static bool has_epilogue(const struct mt_operator_call *call)
{
    const struct mt_operand *bias = mt_call_tensor(call, 0), *factor = mt_call_tensor(call, 2);
    return bias != NULL && factor != NULL && bias->dims == 1 && bias->is_contiguous && factor->dims == 2 &&
           bias->sizes[0] == factor->sizes[1] && factor->sizes[0] > 1 && factor->sizes[1] > 1 &&
           mt_call_number(call, 3, 1) == 1;
}

/* addmm, baddbmm, addmv (bias, factor, factor, beta, alpha) */
void mt_rule_addmm(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    mt_inner_outputs(plan, call, 0);
    multiply(plan, mt_call_tensor(call, 1), mt_call_tensor(call, 2));
    if (has_epilogue(call))
        mt_inner_keep(plan, MT_WORKSPACE_CUBLASLT, LT_WORKSPACE_BYTES);
}

/* ---- norms ---- */

/* Returns how many blocks share the rows of (M, N) in the backward of a norm; 0 if one block does all. */
static int64_t norm_blocks(const struct mt_card *card, int64_t M, int64_t N)
{
    if (M <= NORM_ROWS || N / NORM_TILE >= card->multiprocessors / 2)
        return 0;
    const int64_t across = (N + NORM_TILE - 1) / NORM_TILE, down = (M + NORM_TILE - 1) / NORM_TILE;
    const int64_t most = NORM_BLOCKS / across;
    return most < down ? most : down;
}

/* Sums the blocks' parts of the weight's gradient over the rows, which takes the result `output`. */
static void sum_parts(struct mt_operator_plan *plan, int64_t rows, int64_t columns, int output)
{
    int64_t staging_bytes, counter_bytes;
    const struct mt_reduction reduction = mt_reduction_of_rows(rows, columns);
    mt_reduction_staging(plan->card, &reduction, &staging_bytes, &counter_bytes);
    mt_inner_output(plan, output);
    if (staging_bytes == 0)
        return;
    const int staging = mt_inner_take(plan, staging_bytes), counters = mt_inner_take(plan, counter_bytes);
    mt_inner_give(plan, counters);
    mt_inner_give(plan, staging);
}

/* Of the results, 1 to `last` are gradients of weight and bias. Where many blocks share the rows, each has parts, whose sums
 * replace the results that were taken first. */
static void norm_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call, int last)
{
    const struct mt_operand *input = mt_call_tensor(call, 1);
    const int64_t N = last < call->output_count ? call->outputs[1].elements : 0;
    const int64_t blocks = input == NULL || N == 0 ? 0 : norm_blocks(plan->card, input->elements / N, N);
    int first[3] = {0}, parts[3] = {0};
    if (blocks == 0) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    const int64_t item_bytes = call->outputs[1].item_bytes;
    mt_inner_output(plan, 0);
    for (int i = 1; i <= last; i++)
        first[i] = mt_inner_take(plan, MT_BYTES(N, item_bytes));
    for (int i = 1; i <= last; i++)
        parts[i] = mt_inner_take(plan, MT_BYTES(blocks, N, item_bytes));
    for (int i = 1; i <= last; i++) {
        sum_parts(plan, blocks, N, i);
        mt_inner_give(plan, first[i]);
    }
    for (int i = last; i >= 1; i--)
        mt_inner_give(plan, parts[i]);
}

/* native_layer_norm(input, …) */
void mt_rule_layer_norm(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const int input = mt_inner_copy(plan, mt_call_tensor(call, 0));
    mt_inner_outputs(plan, call, 0);
    mt_inner_give(plan, input);
}

/* native_layer_norm_backward(gradient, input, …): the input is copied first, the gradient after the results. */
void mt_rule_layer_norm_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const int input = mt_inner_copy(plan, mt_call_tensor(call, 1));
    norm_backward(plan, call, 2);
    mt_inner_give(plan, mt_inner_copy(plan, mt_call_tensor(call, 0)));
    mt_inner_give(plan, input);
}

void mt_rule_rms_norm_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    norm_backward(plan, call, 1);
}

static int64_t accumulator_bytes(const struct mt_operand *tensor)
{
    return tensor->item_bytes < FLOAT_BYTES ? FLOAT_BYTES : tensor->item_bytes;
}

/* native_group_norm(input, weight, bias, N, C, HxW, groups, eps): two factors for each image and channel. */
void mt_rule_group_norm(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *input = mt_call_tensor(call, 0);
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || call->argument_count < 7 || mt_call_number(call, 5, 0) <= 1)
        return;
    if (!mt_call_is_set(call, 1) && !mt_call_is_set(call, 2))
        return;
    const int64_t N = (int64_t)mt_call_number(call, 3, 0), C = (int64_t)mt_call_number(call, 4, 0);
    const int64_t bytes = MT_BYTES(N, C, accumulator_bytes(input));
    const int a = mt_inner_take(plan, bytes), b = mt_inner_take(plan, bytes);
    mt_inner_give(plan, b);
    mt_inner_give(plan, a);
}

/* native_group_norm_backward(gradient, input, mean, rstd, weight, N, C, HxW, groups, mask) */
void mt_rule_group_norm_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    enum { INNER = 5 };
    static const int given[INNER] = {3, 2, 4, 1, 0}; /* the order in which they are given back */
    const struct mt_operand *input = mt_call_tensor(call, 1);
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || call->argument_count < 9 || mt_call_number(call, 7, 0) <= 1)
        return;
    const int64_t N = (int64_t)mt_call_number(call, 5, 0), C = (int64_t)mt_call_number(call, 6, 0);
    const int64_t G = (int64_t)mt_call_number(call, 8, 0), item_bytes = accumulator_bytes(input);
    const int64_t columns[INNER] = {C, C, G, G, mt_call_is_set(call, 4) ? C : 0};
    int blocks[INNER];
    for (int i = 0; i < INNER; i++)
        blocks[i] = columns[i] == 0 ? -1 : mt_inner_take(plan, MT_BYTES(N, columns[i], item_bytes));
    for (int i = 0; i < INNER; i++)
        if (blocks[given[i]] >= 0)
            mt_inner_give(plan, blocks[given[i]]);
}

/* _foreach_norm: the norms of chunks, as many for each tensor as the largest has, and then the results. */
void mt_rule_foreach_norm(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *tensors = mt_call_tensor(call, 0);
    int64_t most = 0, widest = FLOAT_BYTES;
    if (tensors == NULL)
        return;
    for (int64_t i = 0; i < call->arguments[0].count; i++) {
        const int64_t chunks = (tensors[i].elements + CHUNK - 1) / CHUNK;
        most = chunks > most ? chunks : most;
        widest = tensors[i].item_bytes > widest ? tensors[i].item_bytes : widest;
    }
    const int chunks = mt_inner_take(plan, MT_BYTES(call->arguments[0].count, most, widest));
    mt_inner_output(plan, 0); /* a list: all of its tensors */
    mt_inner_give(plan, chunks);
}

/* _softmax, _log_softmax: the result comes before the input's copy. */
void mt_rule_softmax(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_give(plan, mt_inner_copy(plan, mt_call_tensor(call, 0)));
}

/* _softmax_backward_data: the product of gradient and result. */
void mt_rule_softmax_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *gradient = mt_call_tensor(call, 0);
    mt_inner_outputs(plan, call, 0);
    if (gradient != NULL)
        mt_inner_give(plan, mt_inner_take(plan, MT_BYTES(gradient->elements, gradient->item_bytes)));
}

/* native_dropout: the mask is taken before the result. */
void mt_rule_dropout(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *input = mt_call_tensor(call, 0);
    const bool is_mask_first = call->output_count == 2 && input != NULL && mt_call_number(call, 1, 0) > 0;
    if (is_mask_first)
        mt_inner_output(plan, 1);
    mt_inner_outputs(plan, call, 0);
}
