/* Operators of other libraries: flash-attention 2 and torchvision (flash-attention 3: flash3_plan.c). Their host code
 * allocates as below, in this order. */
#include "operators/attention_sizes.h"

enum {
    FLASH_TILE = 128,   /* rows to which flash-attention rounds queries */
    NMS_THREADS = 64,   /* boxes that a block of nms compares */
    DEFORM_IMAGES = 32, /* most images of which deform_conv2d multiplies at a time */
    INDEX_BYTES = 8
};

/* ---- flash-attention 2: csrc/flash_attn/flash_api.cpp; tensors are (B, S, H, D), or (rows, H, D) of many sequences ---- */

static bool has_rows(const struct mt_operand *tensor, int dims)
{
    return tensor != NULL && tensor->dims == dims && tensor->elements > 0;
}

/* Takes a copy of a tensor if its head is not contiguous, as the Python function of the operator does. */
static void copy_rows(struct mt_operator_plan *plan, const struct mt_operand *tensor)
{
    if (tensor != NULL && tensor->dims > 0 && tensor->strides[tensor->dims - 1] != 1)
        mt_inner_take_like(plan, tensor);
}

static void copy_all_rows(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    static const char *const names[] = {"dout", "q", "k", "v", "out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        copy_rows(plan, mt_call_tensor(call, names[i]));
}

static struct mt_attention_sizes batch_sizes(const struct mt_operand *query, const struct mt_operand *key)
{
    return (struct mt_attention_sizes){.B = query->sizes[0],
                                       .S = query->sizes[1],
                                       .H = query->sizes[2],
                                       .D = query->sizes[3],
                                       .K = key->sizes[1],
                                       .key_heads = key->sizes[2],
                                       .item_bytes = query->item_bytes};
}

/* Of one row with grouped heads, the kernel takes the heads of a group as rows. */
static void take_heads_as_rows(struct mt_attention_sizes *s, const struct mt_operator_call *call)
{
    const bool is_whole = mt_call_integer(call, "window_size_left", -1) < 0 &&
                          mt_call_integer(call, "window_size_right", -1) < 0 &&
                          mt_call_tensor(call, "alibi_slopes") == NULL && s->D % 8 == 0;
    if (s->S == 1 && s->H > s->key_heads && is_whole) {
        s->S = s->H / s->key_heads;
        s->H = s->key_heads;
    }
}

/* Results: out, sums of rows, dropout's mask, state of the random generator. */
MT_RULE(flash_library_forward)
{
    enum { STATE = 3 };
    const struct mt_operand *query = mt_call_tensor(call, "q"), *key = mt_call_tensor(call, "k");
    copy_all_rows(plan, call);
    for (int i = 0; i < STATE && i < call->output_count; i++)
        mt_inner_output(plan, i);
    if (!has_rows(query, 4) || !has_rows(key, 4) || mt_call_number(call, "dropout_p", 0) > 0)
        return;
    struct mt_attention_sizes s = batch_sizes(query, key);
    take_heads_as_rows(&s, call);
    const int64_t splits = mt_flash_splits(plan->card, &s);
    if (splits > 1) {
        mt_inner_take(plan, MT_PRODUCT(splits, s.B, s.H, s.S, MT_FLOAT_BYTES));
        mt_inner_take(plan, MT_PRODUCT(splits, s.B, s.H, s.S, mt_flash_head(s.D), MT_FLOAT_BYTES));
    }
}

/* Of many sequences, keys are split only for one row each; that is not known from shapes. */
MT_RULE(flash_library_varlen_forward)
{
    copy_all_rows(plan, call);
    if (mt_call_integer(call, "max_seqlen_q", 0) == 1)
        mt_inner_uncounted(plan);
}

/* Takes the gradient of the query in fp32, of `rows` in all heads: with determinism one for each group of blocks. */
static void take_gathered(struct mt_operator_plan *plan, const struct mt_operator_call *call, int64_t rows, int64_t B,
                          const struct mt_operand *query)
{
    const int64_t H = query->sizes[query->dims - 2], head = mt_flash_head(query->sizes[query->dims - 1]);
    const bool is_deterministic = mt_call_number(call, "deterministic", 0) != 0;
    const int64_t parts = is_deterministic ? mt_divide_up(plan->card->multiprocessors, B * H) : 1;
    mt_inner_take(plan, MT_PRODUCT(parts, rows, H, head, MT_FLOAT_BYTES));
}

/* Takes gradients of keys and values for each head of the query, if keys have fewer. */
static void take_expanded(struct mt_operator_plan *plan, const struct mt_operand *query, const struct mt_operand *key)
{
    const int64_t H = query->sizes[query->dims - 2], key_heads = key->sizes[key->dims - 2];
    for (int i = 0; H != key_heads && i < 2; i++)
        mt_inner_take(plan, MT_PRODUCT(key->elements / key_heads, H, key->item_bytes));
}

/* Result: sums of rows. The gradients are arguments, unless they are not given. */
MT_RULE(flash_library_backward)
{
    const struct mt_operand *query = mt_call_tensor(call, "q"), *key = mt_call_tensor(call, "k");
    const struct mt_operand *starts = mt_call_tensor(call, "cu_seqlens_q");
    static const char *const gradients[] = {"dq", "dk", "dv"};
    static const char *const like[] = {"q", "k", "v"};
    copy_all_rows(plan, call);
    for (int i = 0; i < 3; i++)
        if (mt_call_tensor(call, gradients[i]) == NULL)
            mt_inner_take_like(plan, mt_call_tensor(call, like[i]));
    mt_inner_outputs(plan, call, 0);
    if (has_rows(query, 4) && has_rows(key, 4)) {
        const int64_t B = query->sizes[0], rows = mt_round_up(query->sizes[1], FLASH_TILE);
        take_gathered(plan, call, MT_PRODUCT(B, rows), B, query);
        take_expanded(plan, query, key);
    } else if (has_rows(query, 3) && has_rows(key, 3) && starts != NULL) {
        const int64_t B = starts->elements - 1;
        take_gathered(plan, call, query->sizes[0] + FLASH_TILE * B, B, query);
        take_expanded(plan, query, key);
    }
}

/* ---- torchvision: torchvision/csrc/ops/cuda ---- */

/* nms sorts the scores, and compares all boxes on the card; the indices of those that stay come from the host. */
MT_RULE(nms)
{
    const struct mt_operand *boxes = mt_call_tensor(call, "dets"), *scores = mt_call_tensor(call, "scores");
    if (boxes == NULL || scores == NULL || boxes->elements == 0)
        return;
    const int64_t n = scores->elements;
    const int values = mt_inner_take_like(plan, scores);
    mt_inner_take(plan, MT_PRODUCT(n, INDEX_BYTES));
    mt_inner_sort(plan, scores, n);
    mt_inner_give(plan, values);
    mt_inner_take_like(plan, boxes);
    mt_inner_take(plan, MT_PRODUCT(n, mt_divide_up(n, NMS_THREADS), INDEX_BYTES));
    if (call->output_count > 0)
        mt_inner_take_like(plan, &call->outputs[0]);
    mt_inner_outputs(plan, call, 0);
}

/* roi_align and its kin: contiguous copies of their arguments, after the results. */
MT_RULE(boxes)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy(plan, mt_call_tensor(call, "input"));
    mt_inner_copy(plan, mt_call_tensor(call, "rois"));
}

MT_RULE(boxes_backward)
{
    mt_inner_outputs(plan, call, 0);
    mt_inner_copy(plan, mt_call_tensor(call, "rois"));
}

/* Returns how many images are multiplied at a time: the greatest divisor of their count up to the bound. */
static int64_t images_at_once(int64_t count)
{
    for (int64_t n = mt_smaller(count, DEFORM_IMAGES); n > 1; n--)
        if (count % n == 0)
            return n;
    return 1;
}

/* deform_conv2d: the result by groups of images and again in order, samples of the input for each tap, and the sum with
 * the bias. */
MT_RULE(deform_convolution)
{
    static const char *const names[] = {"input", "offset", "weight", "mask", "bias"};
    const struct mt_operand *input = mt_call_tensor(call, "input"), *weight = mt_call_tensor(call, "weight");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mt_inner_copy(plan, mt_call_tensor(call, names[i]));
    if (call->output_count < 1 || call->outputs[0].dims != 4 || !has_rows(input, 4) || !has_rows(weight, 4))
        return;
    const struct mt_operand *output = &call->outputs[0];
    const int64_t taps = weight->sizes[2] * weight->sizes[3], images = images_at_once(input->sizes[0]);
    mt_inner_take_like(plan, output);
    mt_inner_take_like(plan, output);
    mt_inner_take(plan,
                  MT_PRODUCT(input->sizes[1], taps, images, output->sizes[2], output->sizes[3], input->item_bytes));
    mt_inner_keep(plan, MT_WORKSPACE_CUBLAS, (int64_t)plan->card->matmul_workspace_bytes);
    mt_inner_output(plan, 0);
}
