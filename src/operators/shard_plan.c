/* Operators that put shards together and take them apart, which FSDP2 calls around its collectives: one kernel for all tensors of
 * a list, whose grid is a table on the card. The table has 8 bytes a number. */
#include "operators/operator_plan.h"

#include <assert.h>
#include <math.h>

enum {
    NUMBER_BYTES = 8,
    BLOCK_THREADS = 128,
    TILE_BYTES = 16 * BLOCK_THREADS, /* that a block of threads copies at once */
    OVERSUBSCRIBED = 2               /* as many blocks as are resident, twice */
};

static int64_t divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns a dimension's number, counted from the end if it is negative; the tensor must have it. */
static int64_t dimension(const struct mt_operator_call *call, int argument, const struct mt_operand *tensor)
{
    const int64_t asked = argument < call->argument_count ? call->arguments[argument].integer : 0;
    const int64_t found = asked < 0 ? asked + tensor->dims : asked;
    assert(found >= 0 && found < tensor->dims);
    return found;
}

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
        blocks += divide_up(sizes->integers[i] * item_bytes, TILE_BYTES * tiles);
    return blocks;
}

/* split_with_sizes_copy(self, sizes, dim, out): addresses of both sides, sizes of chunks, the split of each block, and the
 * blocks before each split. Blocks copy several tiles if the card has too few threads for one each. */
void mt_rule_split_copy(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *self = mt_call_tensor(call, 0);
    const struct mt_argument *sizes = &call->arguments[1], *out = &call->arguments[3];
    if (self == NULL || call->argument_count < 4 || out->kind != MT_ARGUMENT_TENSORS || !self->is_contiguous ||
        !are_contiguous(out, self->dtype) || sizes->kind != MT_ARGUMENT_INTEGERS || self->elements == 0)
        return;
    const int64_t dim = dimension(call, 2, self), item_bytes = self->strides[dim] * self->item_bytes;
    const int64_t chunks = self->elements / elements_from(self, dim);
    const int64_t resident =
        (int64_t)plan->card->multiprocessors * plan->card->threads_per_multiprocessor / BLOCK_THREADS;
    const int64_t turns = divide_up(split_blocks(sizes, item_bytes, 1) * chunks, resident * OVERSUBSCRIBED);
    const int64_t chunks_a_block = smaller((int64_t)ceil(sqrt((double)turns)), chunks);
    const int64_t blocks = split_blocks(sizes, item_bytes, divide_up(turns, chunks_a_block));
    mt_inner_give(plan, mt_inner_take(plan, MT_BYTES(4 * sizes->count + 1 + blocks, NUMBER_BYTES)));
}

/* _chunk_cat(tensors, dim, num_chunks[, out]): addresses, the tensor of each block, places, and sizes with and without padding.
 * The table is given back before the result is taken. */
void mt_rule_chunk_cat(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_argument *list = &call->arguments[0];
    const struct mt_operand *first = mt_call_tensor(call, 0);
    const struct mt_operand *out = call->argument_count > 3 ? mt_call_tensor(call, 3) : NULL;
    if (first == NULL || call->argument_count < 3 || !are_contiguous(list, first->dtype))
        return;
    const int64_t chunks = call->arguments[2].integer, item_bytes = out != NULL ? out->item_bytes : first->item_bytes;
    int64_t blocks = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const struct mt_operand *tensor = &list->tensors[i];
        const int64_t dim = dimension(call, 1, tensor);
        const int64_t chunk_bytes =
            MT_BYTES(divide_up(tensor->sizes[dim], chunks), elements_from(tensor, dim + 1), item_bytes);
        blocks += divide_up(chunk_bytes, TILE_BYTES);
    }
    mt_inner_give(plan, mt_inner_take(plan, MT_BYTES(6 * list->count + 2 + blocks, NUMBER_BYTES)));
}
