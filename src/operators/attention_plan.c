/* scaled_dot_product_attention: which kernel a card chooses, and what that takes beside its results.
 *
 * Sizes are B (batch), H (heads), S (sequence) and D (head) of the query; K of the key. Rules of the choice:
 * sdp_utils.cpp of aten/src/ATen/native/transformers/cuda; of cuDNN as the versions from 9.9 on. */
#include "operators/attention_sizes.h"

#include <string.h>

enum {
    CUDNN_LEAST = 256, /* the workspace that cuDNN's graph asks for by itself */
    FLASH_ROWS = 64,   /* of a tile of queries */
    FLASH_MOST_HEAD = 256,
    FLASH_MOST_SPLITS = 128,
    EFFICIENT_TILE = 64,
    EFFICIENT_LOCK_BYTES = 16, /* before each tile of the query's gradient */
    EFFICIENT_REGISTER_HEAD = 128,
    EFFICIENT_MOST_SPLITS = 200
};

static struct mt_attention_sizes sizes_of(const struct mt_operand *query, const struct mt_operand *key)
{
    return (struct mt_attention_sizes){.B = query->sizes[0],
                                       .H = query->sizes[1],
                                       .S = query->sizes[2],
                                       .D = query->sizes[3],
                                       .K = key->sizes[2],
                                       .key_heads = key->sizes[1],
                                       .item_bytes = query->item_bytes};
}

static bool has_heads(const struct mt_operand *query, const struct mt_operand *key)
{
    return query != NULL && key != NULL && query->dims == 4 && key->dims == 4;
}

/* ---- the choice ---- */

static bool has_dense_heads(const struct mt_attention_request *request)
{
    const struct mt_operand *all[] = {&request->query, &request->key, &request->value};
    for (int i = 0; i < 3; i++)
        if (all[i]->elements == 0 || (all[i]->sizes[3] != 1 && all[i]->strides[3] != 1))
            return false;
    return !request->has_strided_mask;
}

static bool has_equal_heads(const struct mt_attention_request *request)
{
    return request->query.sizes[1] == request->key.sizes[1] && request->query.sizes[1] == request->value.sizes[1];
}

static bool has_fitting_heads(const struct mt_attention_request *request)
{
    const int64_t H = request->query.sizes[1], K = request->key.sizes[1];
    return has_equal_heads(request) || (request->is_grouped && K == request->value.sizes[1] && K > 0 && H % K == 0);
}

static bool is_cut_off(const struct mt_attention_request *request)
{
    return request->is_causal && request->query.sizes[2] != request->key.sizes[2];
}

static bool fits_flash(const struct mt_card *card, const struct mt_attention_request *request)
{
    const int64_t D = request->query.sizes[3];
    const bool is_small = card->capability == 86 || card->capability == 89 || card->capability >= 120;
    if (card->capability < 80 || !mt_operand_is_narrow(&request->query) || request->has_mask || is_cut_off(request))
        return false;
    if (D != request->key.sizes[3] || D != request->value.sizes[3] || D > FLASH_MOST_HEAD)
        return false;
    if (is_small && request->needs_gradient && (D > 224 || (D > 192 && request->dropout > 0)))
        return false;
    return has_fitting_heads(request) && has_dense_heads(request);
}

static bool fits_efficient(const struct mt_card *card, const struct mt_attention_request *request)
{
    const struct mt_operand *query = &request->query;
    const int64_t alignment = mt_operand_is_narrow(query) ? 8 : 4;
    if (card->capability < 50 || query->dtype == MT_SCALAR_DOUBLE || query->item_bytes > MT_FLOAT_BYTES)
        return false;
    if (query->dtype == MT_SCALAR_BF16 && card->capability < 80)
        return false;
    if (query->sizes[3] != request->key.sizes[3] || query->sizes[3] % alignment != 0 ||
        request->value.sizes[3] % alignment != 0)
        return false;
    return has_equal_heads(request) && has_dense_heads(request);
}

static bool fits_cudnn(const struct mt_card *card, const struct mt_attention_request *request)
{
    const int64_t D = request->query.sizes[3], V = request->value.sizes[3], most = card->capability == 90 ? 256 : 128;
    if (card->capability < 80 || !mt_operand_is_narrow(&request->query) || request->is_deterministic)
        return false;
    if (D % 8 != 0 || V % 8 != 0 || D > most || V > most || request->key.sizes[2] == 1)
        return false;
    if ((request->query.sizes[2] == 1 && request->dropout > 0) || request->mask_needs_gradient)
        return false;
    return !is_cut_off(request) && has_fitting_heads(request) && has_dense_heads(request);
}

/* The cards of data centers since Hopper prefer cuDNN's kernel. */
enum mt_attention_kernel mt_attention_choose(const struct mt_card *card, const struct mt_attention_request *request)
{
    const bool prefers_cudnn = card->capability == 90 || card->capability == 100;
    if (request->query.dims != 4 || request->key.dims != 4 || request->value.dims != 4)
        return MT_ATTENTION_MATH;
    const bool can_cudnn = request->allows[MT_ATTENTION_CUDNN] && fits_cudnn(card, request);
    if (prefers_cudnn && can_cudnn)
        return MT_ATTENTION_CUDNN;
    if (request->allows[MT_ATTENTION_FLASH] && fits_flash(card, request))
        return MT_ATTENTION_FLASH;
    if (request->allows[MT_ATTENTION_EFFICIENT] && fits_efficient(card, request))
        return MT_ATTENTION_EFFICIENT;
    return can_cudnn && !request->allows[MT_ATTENTION_MATH] ? MT_ATTENTION_CUDNN : MT_ATTENTION_MATH;
}

/* ---- cuDNN ---- */

/* The sums of rows are kept for backward alone. Of one query, the kernel needs no workspace. */
MT_RULE(cudnn_forward)
{
    if (call->output_count < 8)
        return;
    enum { SUMS = 1, SEED = 6, OFFSET = 7 };
    const struct mt_operand *query = mt_call_tensor(call, "query");
    mt_inner_output(plan, SEED);
    mt_inner_output(plan, OFFSET);
    mt_inner_output(plan, 0);
    if (mt_call_number(call, "compute_log_sumexp", 1) != 0)
        mt_inner_output(plan, SUMS);
    else
        mt_inner_host(plan, SUMS);
    if (query == NULL || query->dims != 4 || query->sizes[2] > 1)
        mt_inner_use(plan, CUDNN_LEAST);
}

/* The query's gradient and a sum of each row in fp32; with fewer heads of keys, the gradients of keys and values for
 * each head of the query. */
MT_RULE(cudnn_backward)
{
    const struct mt_operand *query = mt_call_tensor(call, "query"), *key = mt_call_tensor(call, "key");
    mt_inner_outputs(plan, call, 0);
    if (!has_heads(query, key))
        return;
    const struct mt_attention_sizes s = sizes_of(query, key);
    int64_t bytes = MT_PRODUCT(s.B, s.H, s.S, s.D + 1, MT_FLOAT_BYTES) + CUDNN_LEAST;
    if (s.key_heads < s.H)
        bytes += MT_PRODUCT(2, s.B, s.H, s.K, s.D, s.item_bytes);
    mt_inner_use(plan, bytes);
}

/* ---- flash ---- */

int64_t mt_flash_splits(const struct mt_card *card, const struct mt_attention_sizes *s)
{
    const int64_t columns = s->D <= 64 ? 256 : s->D <= 128 ? 128 : 64;
    const int64_t tiles = s->B * s->H * mt_divide_up(s->S, FLASH_ROWS), slots = 2 * (int64_t)card->multiprocessors;
    const int64_t blocks = mt_divide_up(s->K, columns);
    int64_t most = blocks < slots ? blocks : slots;
    double best = 0;
    if ((double)tiles >= 0.8 * (double)slots)
        return 1;
    most = most < FLASH_MOST_SPLITS ? most : FLASH_MOST_SPLITS;
    /* The fewest splits that fill the card nearly as well as any. Twice the same loop: for the best, then for the
     * first. */
    for (int pass = 0; pass < 2; pass++)
        for (int64_t n = 1; n <= most; n++) {
            const bool changes = n == 1 || mt_divide_up(blocks, n) != (blocks + n - 2) / (n - 1);
            const int64_t work = tiles * n, waves = mt_divide_up(work, slots);
            const double filled = changes ? (double)work / (double)(waves * slots) : 0;
            if (pass == 0 && filled > best)
                best = filled;
            if (pass == 1 && changes && filled >= 0.85 * best)
                return n;
        }
    return 1;
}

int64_t mt_flash_head(int64_t D)
{
    return D > 192 ? FLASH_MOST_HEAD : mt_round_up(D, D > 128 ? 64 : 32);
}

MT_RULE(flash_forward)
{
    const struct mt_operand *query = mt_call_tensor(call, "query"), *key = mt_call_tensor(call, "key");
    int sums = -1, parts = -1;
    mt_inner_output(plan, 0);
    mt_inner_output(plan, 1);
    if (has_heads(query, key) && mt_call_number(call, "dropout_p", 0) == 0) {
        const struct mt_attention_sizes s = sizes_of(query, key);
        const int64_t splits = mt_flash_splits(plan->card, &s);
        if (splits > 1) {
            sums = mt_inner_take(plan, MT_PRODUCT(splits, s.B, s.H, s.S, MT_FLOAT_BYTES));
            parts = mt_inner_take(plan, MT_PRODUCT(splits, s.B, s.H, s.S, mt_flash_head(s.D), MT_FLOAT_BYTES));
        }
    }
    mt_inner_outputs(plan, call, 2);
    if (parts >= 0) {
        mt_inner_give(plan, sums);
        mt_inner_give(plan, parts);
    }
}

/* True if a tensor (B, H, S, D) is contiguous once its heads and rows change places, as the kernel reads it. */
static bool is_dense_by_rows(const struct mt_operand *tensor)
{
    static const int order[] = {3, 1, 2, 0};
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        if (tensor->sizes[order[i]] != 1 && tensor->strides[order[i]] != stride)
            return false;
        stride *= tensor->sizes[order[i]];
    }
    return true;
}

/* Takes a copy of a tensor that the kernel can't read as it lies. */
static void copy_by_rows(struct mt_operator_plan *plan, const struct mt_operand *tensor, bool is_swapped)
{
    if (tensor != NULL && tensor->dims == 4 && !(is_swapped ? is_dense_by_rows(tensor) : tensor->is_contiguous))
        mt_inner_take_like(plan, tensor);
}

/* Takes what the kernel keeps while it runs. */
static void run_flash_backward(struct mt_operator_plan *plan, const struct mt_attention_sizes *s)
{
    const int64_t rows = mt_round_up(s->S, 128), head = mt_flash_head(s->D);
    const bool is_grouped = s->key_heads < s->H;
    mt_inner_take(plan, MT_PRODUCT(s->B, s->H, rows, MT_FLOAT_BYTES));
    mt_inner_take(plan, MT_PRODUCT(s->B, rows, s->H, head, MT_FLOAT_BYTES));
    const int64_t grouped_bytes = MT_PRODUCT(s->B, s->K, s->H, s->D, s->item_bytes);
    for (int i = 0; is_grouped && i < 2; i++) /* of keys and of values */
        mt_inner_take(plan, grouped_bytes);
}

/* The gradient and the result are copied first, unless they are contiguous. */
MT_RULE(flash_backward)
{
    const struct mt_operand *query = mt_call_tensor(call, "query"), *key = mt_call_tensor(call, "key");
    const bool is_swapped = strstr(call->name, "scaled_dot_product") != NULL;
    copy_by_rows(plan, mt_call_tensor(call, "grad_out"), is_swapped);
    copy_by_rows(plan, mt_call_tensor(call, "out"), is_swapped);
    mt_inner_outputs(plan, call, 0);
    if (has_heads(query, key)) {
        const struct mt_attention_sizes s = sizes_of(query, key);
        run_flash_backward(plan, &s);
    }
}

/* ---- memory-efficient ---- */

MT_RULE(efficient_forward)
{
    enum { SEED = 2, OFFSET = 3 };
    const struct mt_operand *query = mt_call_tensor(call, "query"), *value = mt_call_tensor(call, "value");
    mt_inner_output(plan, 0);
    mt_inner_output(plan, 1);
    if (has_heads(query, value) && value->sizes[3] > EFFICIENT_REGISTER_HEAD && mt_operand_is_narrow(query)) {
        const int64_t bytes = MT_PRODUCT(query->elements / query->sizes[3], value->sizes[3], MT_FLOAT_BYTES);
        mt_inner_use(plan, bytes);
    }
    mt_inner_host(plan, SEED);
    mt_inner_host(plan, OFFSET);
}

/* The tiles in which blocks gather the query's gradient: heads of up to 64 in squares, wider ones in one column up to
 * 128, and in columns of 64 beyond. The kernel of 16 bits has twice the rows for more than 64. */
static int64_t gathered_bytes(const struct mt_attention_sizes *s, bool is_narrow)
{
    const int64_t wide = 2 * EFFICIENT_TILE, tall = is_narrow ? wide : EFFICIENT_TILE;
    const int64_t height = s->D <= EFFICIENT_TILE ? EFFICIENT_TILE : s->D <= wide ? tall : wide;
    const int64_t width = s->D > EFFICIENT_TILE && s->D <= wide ? wide : EFFICIENT_TILE;
    const int64_t rows = mt_divide_up(s->S, height), columns = mt_divide_up(s->D, width);
    return MT_PRODUCT(s->B, s->H, rows, columns, height * width * MT_FLOAT_BYTES + EFFICIENT_LOCK_BYTES);
}

/* In 16 bits, heads of more than 128 do not fit into registers: the gradients of keys and values are summed in memory,
 * by as many groups of blocks as keys have tiles, but at most 200 for all heads. */
static int64_t summed_bytes(const struct mt_attention_sizes *s)
{
    const int64_t tiles = mt_divide_up(s->K, EFFICIENT_TILE), most = EFFICIENT_MOST_SPLITS / (s->B * s->H);
    const int64_t splits = most < 1 ? 1 : tiles < most ? tiles : most;
    return MT_PRODUCT(2, s->B, s->H, splits, EFFICIENT_TILE, mt_round_up(s->D, 2 * EFFICIENT_TILE), MT_FLOAT_BYTES);
}

/* The kernel of 16 bits computes the sums of each row itself. In fp32 they are a product, its sum and a transposed
 * copy. */
MT_RULE(efficient_backward)
{
    const struct mt_operand *query = mt_call_tensor(call, "query"), *key = mt_call_tensor(call, "key");
    const struct mt_operand *out = mt_call_tensor(call, "out");
    copy_by_rows(plan, mt_call_tensor(call, "grad_out_"), true);
    mt_inner_outputs(plan, call, 0);
    if (!has_heads(query, key) || out == NULL)
        return;
    const struct mt_attention_sizes s = sizes_of(query, key);
    const int64_t row_bytes = MT_PRODUCT(s.B, s.H, s.S, MT_FLOAT_BYTES);
    int rows;
    if (mt_operand_is_narrow(query)) {
        rows = mt_inner_take(plan, row_bytes);
    } else {
        const int product = mt_inner_take_like(plan, out);
        const int sums = mt_inner_take(plan, row_bytes);
        rows = mt_inner_take(plan, row_bytes);
        mt_inner_give(plan, sums);
        mt_inner_give(plan, product);
    }
    const bool sums_in_memory = mt_operand_is_narrow(query) && s.D > EFFICIENT_REGISTER_HEAD;
    mt_inner_take(plan, gathered_bytes(&s, mt_operand_is_narrow(query)) + (sums_in_memory ? summed_bytes(&s) : 0));
    mt_inner_give(plan, rows);
}
