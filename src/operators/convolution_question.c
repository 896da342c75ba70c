/* What PyTorch asks cuDNN of a convolution: memory formats, strides and alignments. Facts of PyTorch 2.11:
 * aten/src/ATen/native/cudnn/Conv_v8.cpp and ConvShared.cpp, aten/src/ATen/native/ConvUtils.h,
 * c10/core/MemoryFormat.h. */
#include "operators/convolution.h"

#include "operators/operator_plan.h"

#include <string.h>

enum { BATCH, CHANNELS, FIRST_SPATIAL, MOST_ALIGNMENT = 32 };

struct mt_byte_range mt_convolution_shape_range(int64_t bytes, int64_t tensor_bytes)
{
    return (struct mt_byte_range){.low = 0, .high = bytes + tensor_bytes + tensor_bytes / 4};
}

struct mt_byte_range mt_convolution_choice_range(const struct mt_convolution_answer *answer)
{
    struct mt_byte_range range = {answer->workspace_bytes[0], answer->workspace_bytes[0]};
    for (int64_t i = 1; i < answer->count; i++) {
        range.low = mt_smaller(range.low, answer->workspace_bytes[i]);
        range.high = mt_greater(range.high, answer->workspace_bytes[i]);
    }
    return range;
}

/* Writes the dimensions from the innermost to the outermost. */
static void order_of(int dims, bool is_channels_last, int out[MT_CONVOLUTION_MOST_DIMS])
{
    int place = 0;
    if (is_channels_last)
        out[place++] = CHANNELS;
    for (int dim = dims - 1; dim >= FIRST_SPATIAL; dim--)
        out[place++] = dim;
    if (!is_channels_last)
        out[place++] = CHANNELS;
    out[place] = BATCH;
}

bool mt_convolution_is_dense(const struct mt_operand *tensor, bool is_channels_last)
{
    int order[MT_CONVOLUTION_MOST_DIMS];
    int64_t expected = 1;
    order_of(tensor->dims, is_channels_last, order);
    for (int i = 0; i < tensor->dims; i++) {
        const int dim = order[i];
        if (tensor->sizes[dim] != 1 && tensor->strides[dim] != expected)
            return false;
        expected *= tensor->sizes[dim];
    }
    return true;
}

/* True if PyTorch takes the strides for channels last, where they may be both. */
static bool suggests_channels_last(const struct mt_operand *tensor)
{
    int order[MT_CONVOLUTION_MOST_DIMS];
    int64_t least = 0;
    order_of(tensor->dims, true, order);
    if (tensor->strides[CHANNELS] == 0)
        return false;
    for (int i = 0; i < tensor->dims; i++) {
        const int dim = order[i];
        if (tensor->sizes[dim] == 0 || tensor->strides[dim] < least ||
            (dim == BATCH && least == tensor->strides[CHANNELS]))
            return false;
        least = tensor->strides[dim] * (tensor->sizes[dim] > 1 ? tensor->sizes[dim] : 1);
    }
    return true;
}

bool mt_convolution_is_channels_last(const struct mt_operand *a, const struct mt_operand *b)
{
    if (a->dtype == MT_SCALAR_DOUBLE || b->dtype == MT_SCALAR_DOUBLE)
        return false;
    return suggests_channels_last(a) || suggests_channels_last(b);
}

/* Returns the alignment of an operand's first element. Blocks begin at multiples of more than that. */
static int64_t alignment_of(const struct mt_operand *tensor)
{
    const int64_t offset = tensor->offset * tensor->item_bytes;
    int64_t alignment = 1;
    while (alignment < MOST_ALIGNMENT && offset % (alignment * 2) == 0)
        alignment *= 2;
    return alignment;
}

/* Writes a tensor in a memory format. PyTorch gives dimensions of one element the strides of a dense tensor. */
static void set_tensor(const struct mt_operand *tensor, bool is_channels_last, struct mt_convolution_tensor *out)
{
    int order[MT_CONVOLUTION_MOST_DIMS];
    int64_t stride = 1;
    order_of(tensor->dims, is_channels_last, order);
    for (int i = 0; i < tensor->dims; i++) {
        const int dim = order[i];
        out->sizes[dim] = tensor->sizes[dim];
        out->strides[dim] = stride;
        stride *= tensor->sizes[dim];
    }
    out->alignment_bytes =
        mt_convolution_is_dense(tensor, is_channels_last) ? alignment_of(tensor) : MOST_ALIGNMENT; /* of a copy */
}

/* Copies a list of the call, which has one number for each spatial dimension. */
static bool set_list(const struct mt_operator_call *call, const char *name, int count, int64_t *out)
{
    const struct mt_argument *list = mt_call_list(call, name, MT_ARGUMENT_INTEGERS);
    if (list == NULL || list->count != count)
        return false;
    memcpy(out, list->integers, (size_t)count * sizeof *out);
    return true;
}

static bool is_taken(const struct mt_operand *x, const struct mt_operand *w, const struct mt_operand *y)
{
    return x->dims > FIRST_SPATIAL + 1 && x->dims <= MT_CONVOLUTION_MOST_DIMS && w->dims == x->dims &&
           y->dims == x->dims && x->elements > 0 && w->elements > 0 && y->elements > 0;
}

bool mt_convolution_question_of(enum mt_convolution_kind kind, const struct mt_operator_call *call,
                                const struct mt_operand *x, const struct mt_operand *w, const struct mt_operand *y,
                                bool is_channels_last, struct mt_convolution_question *out)
{
    *out = (struct mt_convolution_question){.kind = kind, .dtype = x->dtype};
    if (!is_taken(x, w, y))
        return false;
    out->dims = x->dims;
    out->is_deterministic = mt_call_number(call, "deterministic", 0) != 0;
    out->allows_tf32 = mt_call_number(call, "allow_tf32", 1) != 0;
    set_tensor(x, is_channels_last, &out->x);
    set_tensor(w, is_channels_last, &out->w);
    set_tensor(y, is_channels_last, &out->y);
    const int spatial = x->dims - FIRST_SPATIAL;
    return set_list(call, "padding", spatial, out->padding) && set_list(call, "stride", spatial, out->stride) &&
           set_list(call, "dilation", spatial, out->dilation);
}
