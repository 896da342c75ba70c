/* Products of matrices, norms, dropout, and norms of lists. */
#include "operators/operator_memory.h"
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    CHUNK = 65536,     /* elements of a list's tensor that a block takes */
    NORM_ROWS = 65536, /* fewer are summed by one block a column */
    NORM_TILE = 32,
    NORM_BLOCKS = 32768,
    GROUPED_CAPABILITY = 90, /* of the kernel for groups; others multiply one after the other */
    SCALED_CAPABILITY = 90,  /* of the first card on which cublasLt scales rows; before, CUTLASS does */
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
    return mt_inner_take_like(plan, tensor == NULL || tensor->elements == 0 || is_matrix(tensor) ? NULL : tensor);
}

/* Returns a factor, which each operator names otherwise. */
static const struct mt_operand *find_factor(const struct mt_operator_call *call, const char *const names[3])
{
    const struct mt_operand *found = NULL;
    for (int i = 0; i < 3 && found == NULL; i++)
        found = mt_call_tensor(call, names[i]);
    return found;
}

static const char *const added_to_first[] = {"mat1", "mat", "batch1"}, *const added_to_second[] = {"mat2", "vec",
                                                                                                   "batch2"};

/* cuBLAS stores columns, so PyTorch asks for the transposed product, b's transpose times a's, and copies b first. */
static void multiply(struct mt_operator_plan *plan, const struct mt_operand *a, const struct mt_operand *b)
{
    const int copy_of_b = copy_matrix(plan, b), copy_of_a = copy_matrix(plan, a);
    mt_inner_keep(plan, MT_WORKSPACE_CUBLAS, (int64_t)plan->card->matmul_workspace_bytes);
    mt_inner_give(plan, copy_of_a);
    mt_inner_give(plan, copy_of_b);
}

/* mm, bmm, dot, vdot */
MT_RULE(matmul)
{
    mt_inner_outputs(plan, call, 0);
    multiply(plan, mt_call_tensor(call, "self"), find_factor(call, (const char *const[]){"mat2", "tensor", "other"}));
}

/* _grouped_mm: what CUTLASS needs of each group, and its workspace. */
MT_RULE(grouped_matmul)
{
    const struct mt_operand *a = mt_call_tensor(call, "self"), *b = mt_call_tensor(call, "mat2");
    const struct mt_operand *ends = mt_call_tensor(call, "offs"); /* of the groups */
    mt_inner_outputs(plan, call, 0);
    if (a == NULL || b == NULL || plan->card->capability != GROUPED_CAPABILITY)
        return;
    const int64_t groups = ends != NULL ? ends->elements : a->dims == 3 ? a->sizes[0] : b->sizes[0];
    mt_inner_take(plan, MT_PRODUCT(groups, GROUP_BYTES));
    mt_inner_use(plan, MT_PRODUCT(plan->card->multiprocessors, GROUPED_BYTES));
}

/* True if the bias is added by cublasLt: (columns), contiguous, as it is. */
static bool has_epilogue(const struct mt_operator_call *call)
{
    const struct mt_operand *bias = mt_call_tensor(call, "self"), *factor = find_factor(call, added_to_second);
    return bias != NULL && factor != NULL && bias->dims == 1 && bias->is_contiguous && factor->dims == 2 &&
           bias->sizes[0] == factor->sizes[1] && factor->sizes[0] > 1 && factor->sizes[1] > 1 &&
           mt_call_number(call, "beta", 1) == 1;
}

/* addmm, baddbmm, addmv */
MT_RULE(addmm)
{
    mt_inner_outputs(plan, call, 0);
    multiply(plan, find_factor(call, added_to_first), find_factor(call, added_to_second));
    if (has_epilogue(call))
        mt_inner_keep(plan, MT_WORKSPACE_CUBLASLT, MT_CUBLASLT_WORKSPACE_BYTES);
}

/* Returns the first matrix of a batch. */
static struct mt_operand first_matrix(const struct mt_operand *batch)
{
    struct mt_operand matrix = *batch;
    matrix.sizes++;
    matrix.strides++;
    matrix.dims--;
    matrix.elements /= batch->sizes[0];
    return matrix;
}

/* addbmm: multiplies the matrices of a batch one after the other. */
MT_RULE(addbmm)
{
    const struct mt_operand *a = mt_call_tensor(call, "batch1"), *b = mt_call_tensor(call, "batch2");
    mt_inner_outputs(plan, call, 0);
    if (a == NULL || b == NULL || a->dims != 3 || b->dims != 3 || a->sizes[0] == 0)
        return;
    const struct mt_operand first = first_matrix(a), second = first_matrix(b);
    multiply(plan, &first, &second);
}

/* _scaled_mm, of numbers with 8 bits and a scale for each factor, or for each row */
MT_RULE(scaled_matmul)
{
    const struct mt_operand *scale = mt_call_tensor(call, "scale_a");
    mt_inner_outputs(plan, call, 0);
    if (scale == NULL || (scale->elements > 1 && plan->card->capability < SCALED_CAPABILITY)) {
        mt_inner_uncounted(plan);
        return;
    }
    mt_inner_keep(plan, MT_WORKSPACE_CUBLAS, (int64_t)plan->card->matmul_workspace_bytes);
    mt_inner_keep(plan, MT_WORKSPACE_CUBLASLT, MT_CUBLASLT_WORKSPACE_BYTES);
}

/* ---- norms ---- */

/* Returns how many blocks share the rows of (M, N) in the backward of a norm; 0 if one block does all. */
static int64_t norm_blocks(const struct mt_card *card, int64_t M, int64_t N)
{
    if (M <= NORM_ROWS || N / NORM_TILE >= card->multiprocessors / 2)
        return 0;
    const int64_t across = mt_divide_up(N, NORM_TILE), down = mt_divide_up(M, NORM_TILE);
    const int64_t most = NORM_BLOCKS / across;
    return most < down ? most : down;
}

/* Sums the blocks' parts of the weight's gradient over the rows, which takes the result `output`. */
static void sum_parts(struct mt_operator_plan *plan, int64_t rows, int64_t columns, int output)
{
    const struct mt_reduction reduction = mt_reduction_of_rows(rows, columns);
    mt_inner_output(plan, output);
    mt_inner_stage(plan, &reduction);
}

/* Of the results, 1 to `last` are gradients of weight and bias. Where many blocks share the rows, each has parts, whose
 * sums replace the results that were taken first. */
static void norm_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call, int last)
{
    const struct mt_operand *input = mt_call_tensor(call, "input");
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
        first[i] = mt_inner_take(plan, MT_PRODUCT(N, item_bytes));
    for (int i = 1; i <= last; i++)
        parts[i] = mt_inner_take(plan, MT_PRODUCT(blocks, N, item_bytes));
    for (int i = 1; i <= last; i++) {
        sum_parts(plan, blocks, N, i);
        mt_inner_give(plan, first[i]);
    }
    for (int i = last; i >= 1; i--)
        mt_inner_give(plan, parts[i]);
}

MT_RULE(layer_norm)
{
    mt_inner_copy(plan, mt_call_tensor(call, "input"));
    mt_inner_outputs(plan, call, 0);
}

/* native_layer_norm_backward: the input is copied first, the gradient after the results. */
MT_RULE(layer_norm_backward)
{
    mt_inner_copy(plan, mt_call_tensor(call, "input"));
    norm_backward(plan, call, 2);
    mt_inner_copy(plan, mt_call_tensor(call, "grad_out"));
}

MT_RULE(rms_norm_backward)
{
    norm_backward(plan, call, 1);
}

/* native_group_norm: two factors for each image and channel. */
MT_RULE(group_norm)
{
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || mt_call_number(call, "HxW", 0) <= 1)
        return;
    if (mt_call_find(call, "weight") == NULL && mt_call_find(call, "bias") == NULL)
        return;
    const int64_t N = mt_call_integer(call, "N", 0), C = mt_call_integer(call, "C", 0);
    const int64_t bytes = MT_PRODUCT(N, C, mt_operand_sum_bytes(input));
    mt_inner_take(plan, bytes);
    mt_inner_take(plan, bytes);
}

MT_RULE(group_norm_backward)
{
    enum { INNER = 5 };
    static const int given[INNER] = {3, 2, 4, 1, 0}; /* the order in which they are given back */
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || mt_call_number(call, "HxW", 0) <= 1)
        return;
    const int64_t N = mt_call_integer(call, "N", 0), C = mt_call_integer(call, "C", 0);
    const int64_t G = mt_call_integer(call, "group", 0), item_bytes = mt_operand_sum_bytes(input);
    const int64_t columns[INNER] = {C, C, G, G, mt_call_find(call, "weight") != NULL ? C : 0};
    int blocks[INNER];
    for (int i = 0; i < INNER; i++)
        blocks[i] = columns[i] == 0 ? -1 : mt_inner_take(plan, MT_PRODUCT(N, columns[i], item_bytes));
    for (int i = 0; i < INNER; i++)
        mt_inner_give(plan, blocks[given[i]]);
}

/* Takes results of chunks, as many for each tensor of a list as the largest has, and then the results. An element has
 * `least_bytes` or more. */
static void reduce_list(struct mt_operator_plan *plan, const struct mt_operator_call *call, int64_t least_bytes)
{
    const struct mt_argument *list = mt_call_list(call, "self", MT_ARGUMENT_TENSORS);
    int64_t most = 0, widest = least_bytes;
    if (list == NULL || list->count == 0)
        return;
    for (int64_t i = 0; i < list->count; i++) {
        most = mt_greater(most, mt_divide_up(list->tensors[i].elements, CHUNK));
        widest = mt_greater(widest, list->tensors[i].item_bytes);
    }
    mt_inner_take(plan, MT_PRODUCT(list->count, most, widest));
    mt_inner_output(plan, 0); /* a list: all of its tensors */
}

/* _foreach_norm, _foreach_powsum: added up in fp32 at least. */
MT_RULE(foreach_norm)
{
    reduce_list(plan, call, MT_FLOAT_BYTES);
}

/* _foreach_max */
MT_RULE(foreach_extreme)
{
    reduce_list(plan, call, 0);
}

/* _softmax, _log_softmax: the result comes before the input's copy. */
MT_RULE(softmax)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy(plan, mt_call_tensor(call, "self"));
}

/* _masked_softmax: rows that do not fit into one block's registers are masked first, and the result that was made for
 * the kernel is replaced by the softmax of the copy. */
MT_RULE(masked_softmax)
{
    enum { MOST_COLUMNS = 1024, MOST_ROW_BYTES = 4096 };
    const struct mt_operand *scores = mt_call_tensor(call, "self");
    const int64_t columns = scores != NULL && scores->dims > 0 ? scores->sizes[scores->dims - 1] : 0;
    (void)mt_inner_copy(plan, mt_call_tensor(call, "mask"));
    if (columns <= MOST_COLUMNS && (columns == 0 || columns * scores->item_bytes <= MOST_ROW_BYTES)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    const int unused = mt_inner_take_like(plan, scores), masked = mt_inner_take_like(plan, scores);
    mt_inner_outputs(plan, call, 0);
    mt_inner_give(plan, unused);
    mt_inner_give(plan, masked);
}

/* _softmax_backward_data: the product of gradient and result. */
MT_RULE(softmax_backward)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_take_like(plan, mt_call_tensor(call, "grad_output"));
}

/* native_dropout: the mask is taken before the result. */
MT_RULE(dropout)
{
    const bool is_mask_first =
        call->output_count == 2 && mt_call_tensor(call, "input") != NULL && mt_call_number(call, "p", 0) > 0;
    if (is_mask_first)
        mt_inner_output(plan, 1);
    mt_inner_outputs(plan, call, 0);
}
