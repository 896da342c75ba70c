/* Operators that put shards together and take them apart, which FSDP2 calls around its collectives: one kernel for all
 * tensors of a list, whose grid is a table on the card. The table has 8 bytes a number. */
#include "operators/operator_plan.h"

#include <math.h>

enum {
    NUMBER_BYTES = 8,
    BLOCK_THREADS = 128,
    TILE_BYTES = 16 * BLOCK_THREADS, /* that a block of threads copies at once */
    OVERSUBSCRIBED = 2               /* as many blocks as are resident, twice */
};

/* Returns the elements of the dimensions from `first` on. */
static int64_t elements_from(const struct mt_operand *tensor, int64_t first)
{
    int64_t elements = 1;
    for (int64_t i = first; i < tensor->dims; i++)
        elements *= tensor->sizes[i];
    return elements;
}

static bool are_contiguous(const struct mt_argument *list, int32_t dtype)
{
    for (int64_t i = 0; i < list->count; i++)
        if (!list->tensors[i].is_contiguous || list->tensors[i].dtype != dtype)
            return false;
    return true;
}

/* Returns the number of blocks of threads that copy one chunk of each split, `tiles` of them by each. */
static int64_t split_blocks(const struct mt_argument *sizes, int64_t item_bytes, int64_t tiles)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < sizes->count; i++)
        blocks += mt_divide_up(sizes->integers[i] * item_bytes, TILE_BYTES * tiles);
    return blocks;
}

/* split_with_sizes_copy(self, sizes, dim, out): addresses of both sides, sizes of chunks, the split of each block, and
 * the blocks before each split. Blocks copy several tiles if the card has too few threads for one each. */
MT_RULE(split_copy)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    const struct mt_argument *sizes = mt_call_list(call, "split_sizes", MT_ARGUMENT_INTEGERS);
    const struct mt_argument *out = mt_call_list(call, "out", MT_ARGUMENT_TENSORS);
    if (self == NULL || sizes == NULL || out == NULL || !self->is_contiguous || !are_contiguous(out, self->dtype) ||
        self->elements == 0)
        return;
    const int64_t dim = mt_call_dimension(call, self, 0), item_bytes = self->strides[dim] * self->item_bytes;
    const int64_t chunks = self->elements / elements_from(self, dim);
    const int64_t resident =
        (int64_t)plan->card->multiprocessors * plan->card->threads_per_multiprocessor / BLOCK_THREADS;
    const int64_t turns = mt_divide_up(split_blocks(sizes, item_bytes, 1) * chunks, resident * OVERSUBSCRIBED);
    const int64_t chunks_a_block = mt_smaller((int64_t)ceil(sqrt((double)turns)), chunks);
    const int64_t blocks = split_blocks(sizes, item_bytes, mt_divide_up(turns, chunks_a_block));
    mt_inner_use(plan, MT_PRODUCT(4 * sizes->count + 1 + blocks, NUMBER_BYTES));
}

/* _chunk_cat(tensors, dim, num_chunks[, out]): addresses, the tensor of each block, places, and sizes with and without
 * padding. The table is freed before the result is allocated. */
MT_RULE(chunk_cat)
{
    const struct mt_argument *list = mt_call_list(call, "tensors", MT_ARGUMENT_TENSORS);
    const struct mt_operand *first = mt_call_tensor(call, "tensors"), *out = mt_call_tensor(call, "out");
    const int64_t chunks = mt_call_integer(call, "num_chunks", 0);
    if (first == NULL || chunks == 0 || !are_contiguous(list, first->dtype))
        return;
    const int64_t item_bytes = out != NULL ? out->item_bytes : first->item_bytes;
    int64_t blocks = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const struct mt_operand *tensor = &list->tensors[i];
        const int64_t dim = mt_call_dimension(call, tensor, 0);
        const int64_t chunk_bytes =
            MT_PRODUCT(mt_divide_up(tensor->sizes[dim], chunks), elements_from(tensor, dim + 1), item_bytes);
        blocks += mt_divide_up(chunk_bytes, TILE_BYTES);
    }
    mt_inner_use(plan, MT_PRODUCT(6 * list->count + 2 + blocks, NUMBER_BYTES));
}
