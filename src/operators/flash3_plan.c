/* flash-attention 3: hopper/flash_api.cpp and flash_attn_interface.py. Tensors are (B, S, H, D), or (rows, H, D) of
 * many sequences. The operators are functions in Python, which copy what is not contiguous and drop accumulators that
 * the kernels return. */
#include "operators/attention_sizes.h"

enum { INT_BYTES = 4, METADATA_UNIT = 4 /* to which the count of sequences is rounded up */ };

/* A call's sizes, as its host code names them. */
struct flash3 {
    const struct mt_operand *query, *key, *value;
    int64_t B, S, K; /* sequences, and the most rows of queries and of keys in one of them */
    int64_t rows, key_rows, H, key_heads;
    bool varies;              /* in length */
    bool is_causal, is_local; /* at most one of them */
};

static bool is_given(const struct mt_operator_call *call, const char *name)
{
    return mt_call_tensor(call, name) != NULL;
}

/* Copies tensors whose heads are not contiguous. */
static void copy_rows(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    static const char *const names[] = {"dout", "q", "k", "v", "out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct mt_operand *tensor = mt_call_tensor(call, names[i]);
        if (tensor != NULL && tensor->dims > 0 && tensor->strides[tensor->dims - 1] != 1)
            mt_inner_take_like(plan, tensor);
    }
}

/* Sets which keys a row sees, as the host code does once it knows the lengths. */
static void set_window(struct flash3 *f, const struct mt_operator_call *call, bool is_causal)
{
    int64_t left = mt_call_integer(call, "window_size_left", -1),
            right = mt_call_integer(call, "window_size_right", -1);
    left = left >= f->K - 1 ? -1 : left;
    right = right >= f->S - 1 ? -1 : right;
    right = is_causal ? 0 : right;
    f->is_causal = left < 0 && right == 0;
    f->is_local = (left >= 0 || right >= 0) && !f->is_causal;
}

/* Returns a count of rows: of a batch, or of the longest of many sequences. */
static int64_t longest(const struct mt_operator_call *call, const struct mt_operand *tensor, const char *name)
{
    return tensor->dims == 4 ? tensor->sizes[1] : mt_call_integer(call, name, tensor->sizes[0]);
}

static int64_t all_rows(const struct mt_operand *tensor)
{
    return tensor->dims == 4 ? MT_PRODUCT(tensor->sizes[0], tensor->sizes[1]) : tensor->sizes[0];
}

/* Reads the sizes. Returns false if tensors have other dimensions. */
static bool read_sizes(struct flash3 *f, const struct mt_operator_call *call)
{
    static const char *const lengths[] = {"cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k",
                                          "sequed_q",     "sequed_k",     "leftpad_k"};
    const struct mt_operand *q = mt_call_tensor(call, "q"), *k = mt_call_tensor(call, "k"),
                            *v = mt_call_tensor(call, "v");
    const struct mt_operand *starts = mt_call_tensor(call, "cu_seqlens_q");
    if (q == NULL || k == NULL || v == NULL || k->dims < 3 || v->dims < 3 || q->dims != (starts != NULL ? 3 : 4) ||
        q->elements == 0 || k->elements == 0)
        return false;
    *f = (struct flash3){
        .query = q, .key = k, .value = v, .H = q->sizes[q->dims - 2], .key_heads = k->sizes[k->dims - 2]};
    f->B = starts != NULL ? starts->elements - 1 : q->sizes[0];
    f->S = longest(call, q, "max_seqlen_q");
    f->K = longest(call, k, "max_seqlen_k");
    f->rows = all_rows(q);
    f->key_rows = all_rows(k);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        f->varies = f->varies || is_given(call, lengths[i]);
    return true;
}

/* Takes numbers of the scheduler: a counter of tiles, and two to four for each sequence. */
static void take_schedule(struct mt_operator_plan *plan, const struct flash3 *f, int64_t splits)
{
    const bool is_masked = f->is_causal || f->is_local;
    const bool counts = plan->card->capability >= 90 ? (is_masked && splits == 1) || f->varies
                        : f->varies                  ? splits > 1
                                                     : f->is_causal;
    const int64_t numbers = (f->varies ? 2 : 0) + (f->is_local ? 0 : 1) + (is_masked ? 1 : 0);
    if (counts || f->varies)
        mt_inner_take(plan, (mt_round_up(f->B, METADATA_UNIT) * numbers + (counts ? 1 : 0)) * INT_BYTES);
}

/* Results: out, sums of rows, and both for each part of split keys, empty without. */
MT_RULE(flash3_forward)
{
    struct flash3 f;
    copy_rows(plan, call);
    mt_inner_output(plan, 0);
    mt_inner_output(plan, 1);
    if (read_sizes(&f, call) && !is_given(call, "scheduler_metadata")) {
        set_window(&f, call, mt_call_integer(call, "causal", 0) != 0 && f.S > 1);
        take_schedule(plan, &f, mt_call_integer(call, "num_splits", 1));
    }
    mt_inner_outputs(plan, call, 2);
}

/* Tiles of the backward kernel: rows of queries and of keys. They fit its shared memory. */
struct tiles {
    int64_t M, N;
};

static struct tiles hopper_tiles(const struct flash3 *f, int64_t head, bool caps)
{
    const int64_t N = head <= 128 ? 128 : head <= 192 ? 96 : 80;
    if (head <= 64)
        return (struct tiles){f->is_causal && caps ? 96 : 128, N};
    if (head > 96 && head <= 128 && !f->is_causal && !f->is_local && !caps)
        return (struct tiles){80, N};
    return (struct tiles){64, N};
}

static struct tiles tiles_of(const struct mt_card *card, const struct flash3 *f, int64_t head, bool caps)
{
    if (card->capability >= 90)
        return hopper_tiles(f, head, caps);
    if (card->capability == 86 || card->capability == 89)
        return (struct tiles){head <= 192 ? 64 : 32, head <= 96 ? 128 : head <= 128 ? 96 : 64};
    return (struct tiles){head <= 64 ? 128 : 64, head <= 128 ? 128 : head <= 192 ? 80 : 64};
}

/* Returns the head size for which the kernel is compiled. */
static int64_t compiled_head(const struct flash3 *f)
{
    static const int64_t heads[] = {64, 96, 128, 192};
    const int64_t D = f->query->sizes[f->query->dims - 1], V = f->value->sizes[f->value->dims - 1];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (D <= heads[i] && V <= heads[i])
            return heads[i];
    return 256;
}

/* Returns rows in whole tiles: of each sequence of a batch, or of all sequences that vary. */
static int64_t tiled_rows(const struct flash3 *f, int64_t longest_rows, int64_t total, int64_t tile)
{
    return f->varies ? mt_round_up(total + f->B * tile, tile) : MT_PRODUCT(f->B, mt_round_up(longest_rows, tile));
}

/* Takes gradients that are gathered in fp32, and locks of tiles. */
static void take_gathered(struct mt_operator_plan *plan, const struct flash3 *f, const struct mt_operator_call *call)
{
    const int64_t head = compiled_head(f);
    const struct tiles tiles = tiles_of(plan->card, f, head, mt_call_number(call, "softcap", 0) > 0);
    const int64_t rows = tiled_rows(f, f->S, f->rows, tiles.M), key_rows = tiled_rows(f, f->K, f->key_rows, tiles.N);
    const bool is_grouped = f->H != f->key_heads, is_deterministic = mt_call_integer(call, "deterministic", 0) != 0;
    mt_inner_take(plan, MT_PRODUCT(f->H, rows, MT_FLOAT_BYTES)); /* sums of rows, to base 2 */
    mt_inner_take(plan, MT_PRODUCT(f->H, rows, head, MT_FLOAT_BYTES));
    for (int i = 0; is_grouped && i < 2; i++)
        mt_inner_take(plan, MT_PRODUCT(f->key_heads, key_rows, head, MT_FLOAT_BYTES));
    mt_inner_take(plan, MT_PRODUCT(mt_divide_up(f->S, tiles.M), f->B, f->H, INT_BYTES));
    for (int i = 0; is_grouped && is_deterministic && i < 2; i++)
        mt_inner_take(plan, MT_PRODUCT(mt_divide_up(f->K, tiles.N), f->B, f->key_heads, INT_BYTES));
}

/* Result: sums of rows. The gradients are arguments, unless they are not given. */
MT_RULE(flash3_backward)
{
    static const char *const gradients[] = {"dq", "dk", "dv"}, *const like[] = {"q", "k", "v"};
    struct flash3 f;
    copy_rows(plan, call);
    for (size_t i = 0; i < sizeof like / sizeof *like; i++)
        if (!is_given(call, gradients[i]))
            mt_inner_take_like(plan, mt_call_tensor(call, like[i]));
    mt_inner_outputs(plan, call, 0);
    if (read_sizes(&f, call)) {
        set_window(&f, call, mt_call_integer(call, "is_causal", 0) != 0);
        take_gathered(plan, &f, call);
    }
}
