/* Operators that sort indices by CUB: the backward of embeddings. */
#include "operators/operator_plan.h"

enum {
    FEWEST_TO_SORT = 3072, /* fewer indices are added one by one */
    SORT_TILE = 5376,      /* pairs that a block of CUB's radix sort takes */
    SORT_DIGITS = 256,
    SORT_FIXED_BYTES = 511, /* two counters, and the alignment of all */
    CUB_ALIGNMENT = 256,
    CUB_SCAN_BYTES = 1279, /* of unique_by_key and of exclusive_sum, CUDA 13.0 */
    FLOAT_BYTES = 4,
    COUNT_BYTES = 8,
    SEGMENT = 10, /* indices of a partial sum */
    FEW_ROWS = 32
};

static int64_t align(int64_t bytes)
{
    return (bytes + CUB_ALIGNMENT - 1) / CUB_ALIGNMENT * CUB_ALIGNMENT;
}

/* Returns what CUB's radix sort of pairs takes: a second place for keys and values, a table for each tile, and the counts of
 * all digits. */
static int64_t radix_sort_bytes(int64_t pairs, int64_t key_bytes, int64_t value_bytes)
{
    const int64_t tiles = (pairs + SORT_TILE - 1) / SORT_TILE;
    return align(MT_BYTES(pairs, key_bytes)) + align(MT_BYTES(pairs, value_bytes)) +
           MT_BYTES(tiles, SORT_DIGITS, FLOAT_BYTES) + MT_BYTES(key_bytes, SORT_DIGITS, COUNT_BYTES) + SORT_FIXED_BYTES;
}

/* What is known of the sorted indices: the segments of equal ones, cut into pieces that are summed apart. */
struct segments {
    int64_t indices, item_bytes, rows, pieces, width;
};

/* Adds sums of the pieces of segments. A table of few rows has been seen to take 8 bytes for each piece. */
static void sum_pieces(struct mt_operator_plan *plan, const struct segments *s)
{
    const int count = mt_inner_take(plan, COUNT_BYTES);
    const int offsets = mt_inner_take(plan, MT_BYTES(s->pieces, s->item_bytes));
    const int64_t piece_bytes = s->rows < FEW_ROWS ? COUNT_BYTES : MT_BYTES(s->width, FLOAT_BYTES);
    mt_inner_give(plan, mt_inner_take(plan, MT_BYTES(s->pieces, piece_bytes)));
    mt_inner_give(plan, offsets);
    mt_inner_give(plan, count);
}

static void find_segments(struct mt_operator_plan *plan, const struct segments *s)
{
    const int offsets = mt_inner_take(plan, MT_BYTES(s->indices, s->item_bytes));
    const int count = mt_inner_take(plan, COUNT_BYTES);
    const int keys = mt_inner_take(plan, MT_BYTES(s->indices, s->item_bytes));
    mt_inner_give(plan, mt_inner_take(plan, CUB_SCAN_BYTES));
    mt_inner_give(plan, keys);
    const int pieces = mt_inner_take(plan, MT_BYTES(s->rows, s->item_bytes));
    const int starts = mt_inner_take(plan, MT_BYTES(s->rows, s->item_bytes));
    mt_inner_give(plan, mt_inner_take(plan, CUB_SCAN_BYTES));
    sum_pieces(plan, s);
    mt_inner_give(plan, starts);
    mt_inner_give(plan, pieces);
    mt_inner_give(plan, count);
    mt_inner_give(plan, offsets);
}

/* Returns the number of a block for a contiguous copy; -1 if the tensor is contiguous. */
static int copy_of(struct mt_operator_plan *plan, const struct mt_operand *tensor)
{
    return tensor->is_contiguous ? -1 : mt_inner_take(plan, MT_BYTES(tensor->elements, tensor->item_bytes));
}

static void give_copy(struct mt_operator_plan *plan, int copy)
{
    if (copy >= 0)
        mt_inner_give(plan, copy);
}

static void sort_and_sum(struct mt_operator_plan *plan, const struct mt_operand *indices, int64_t table_rows,
                         int64_t width)
{
    const int64_t n = indices->elements, i = indices->item_bytes, rows = n < table_rows ? n : table_rows;
    const struct segments segments = {n, i, rows, n / SEGMENT + rows, width};
    const int sorted = mt_inner_take(plan, MT_BYTES(n, i)), places = mt_inner_take(plan, MT_BYTES(n, i));
    const int range = mt_inner_take(plan, MT_BYTES(n, i));
    mt_inner_give(plan, mt_inner_take(plan, radix_sort_bytes(n, i, i)));
    mt_inner_give(plan, range);
    mt_inner_output(plan, 0);
    find_segments(plan, &segments);
    mt_inner_give(plan, places);
    mt_inner_give(plan, sorted);
}

/* embedding_dense_backward(gradient, indices, rows, padding, scale by frequency) */
void mt_rule_embedding_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *gradient = mt_call_tensor(call, 0), *indices = mt_call_tensor(call, 1);
    if (gradient == NULL || indices == NULL || gradient->dims == 0 || call->argument_count < 5)
        return;
    const int64_t width = gradient->sizes[gradient->dims - 1];
    const bool is_scaled = mt_call_number(call, 4, 0) != 0;
    const int gradient_copy = copy_of(plan, gradient), indices_copy = copy_of(plan, indices);
    if (indices->elements <= FEWEST_TO_SORT && !is_scaled)
        mt_inner_output(plan, 0);
    else
        sort_and_sum(plan, indices, (int64_t)mt_call_number(call, 2, 0), width);
    give_copy(plan, indices_copy);
    give_copy(plan, gradient_copy);
}
