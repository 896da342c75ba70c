/* Operators whose results' sizes depend on values: nonzero, unique; and others that count or shuffle by CUB. */
#include "operators/cub_memory.h"
#include "operators/operator_memory.h"
#include "operators/operator_plan.h"

#include <math.h>
#include <stddef.h>

enum { INDEX_BYTES = 8, COUNT_BYTES = 4, DIGIT_BITS = 8, INT_BITS = 32 };

/* nonzero: the count comes first, then the result, and then the elements are selected. */
MT_RULE(nonzero)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    if (self == NULL || self->elements == 0)
        return;
    mt_inner_copy(plan, self);
    mt_inner_take(plan, COUNT_BYTES);
    mt_inner_use(plan, mt_cub_sum_bytes(plan->card, self->elements));
    mt_inner_output(plan, 0);
    if (self->dims > 0)
        mt_inner_use(plan, mt_cub_select_bytes(self->elements));
}

/* nonzero_static: how many elements each block finds, and all blocks before it. */
MT_RULE(nonzero_static)
{
    enum { BLOCK = 512 * 16 };
    const struct mt_operand *self = mt_call_tensor(call, "self");
    mt_inner_copy(plan, self);
    mt_inner_outputs(plan, call, 0);
    if (self == NULL || self->elements == 0 || call->output_count == 0 || call->outputs[0].elements == 0)
        return;
    const int64_t wanted = self->item_bytes == 1 ? 2 * plan->card->multiprocessors : plan->card->multiprocessors;
    const int64_t rounds = mt_divide_up(mt_divide_up(self->elements, BLOCK), wanted);
    const int64_t blocks = mt_divide_up(self->elements, rounds * BLOCK);
    mt_inner_take(plan, MT_PRODUCT(blocks, COUNT_BYTES));
    mt_inner_take(plan, MT_PRODUCT(blocks, INDEX_BYTES));
}

/* Takes the distinct elements, in room for all, and their counts if they are asked for. */
static void find_distinct(struct mt_operator_plan *plan, const struct mt_operand *self, bool has_counts)
{
    mt_inner_wide_output(plan, 0, MT_PRODUCT(self->elements, self->item_bytes));
    const int count = mt_inner_take(plan, INDEX_BYTES);
    if (has_counts)
        mt_inner_wide_output(plan, 2, MT_PRODUCT(self->elements, INDEX_BYTES));
    mt_inner_use(plan, has_counts ? mt_cub_run_length_bytes(self->elements) : mt_cub_select_bytes(self->elements));
    mt_inner_give(plan, count);
}

/* Sorts elements with their places, and finds which distinct element each is. */
static void find_inverse(struct mt_operator_plan *plan, const struct mt_operand *self)
{
    const int64_t bytes = MT_PRODUCT(self->elements, INDEX_BYTES);
    const int places = mt_inner_take(plan, bytes);
    mt_inner_take(plan, MT_PRODUCT(self->elements, self->item_bytes)); /* sorted */
    mt_inner_take(plan, bytes);                                        /* their places */
    mt_inner_use(plan, mt_cub_sort_bytes(self->elements, self->item_bytes, INDEX_BYTES, self->item_bytes));
    mt_inner_give(plan, places);
    mt_inner_output(plan, 1);
    const int numbers = mt_inner_take(plan, bytes);
    mt_inner_use(plan, mt_cub_long_scan_bytes(self->elements));
    mt_inner_give(plan, numbers);
}

/* _unique2, _unique. */
MT_RULE(unique)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    if (self == NULL || self->elements == 0)
        return;
    mt_inner_copy(plan, self);
    if (mt_call_integer(call, "return_inverse", 0) != 0) {
        find_inverse(plan, self);
    } else {
        mt_inner_take(plan, MT_PRODUCT(self->elements, self->item_bytes)); /* sorted */
        mt_inner_use(plan, mt_cub_sort_bytes(self->elements, self->item_bytes, 0, self->item_bytes));
    }
    find_distinct(plan, self, mt_call_integer(call, "return_counts", 0) != 0);
}

/* unique_consecutive. What its other results take was not measured. */
MT_RULE(unique_run)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    if (self == NULL || self->elements == 0)
        return;
    const bool has_more = mt_call_integer(call, "return_inverse", 0) != 0 ||
                          mt_call_integer(call, "return_counts", 0) != 0 || mt_call_find(call, "dim") != NULL;
    if (has_more) {
        mt_inner_uncounted(plan);
        return;
    }
    find_distinct(plan, self, false);
}

/* masked_scatter: the places of the mask's elements. */
MT_RULE(masked_scatter)
{
    const struct mt_operand *mask = mt_call_tensor(call, "mask");
    if (mask == NULL || mask->elements == 0)
        return;
    mt_inner_take(plan, MT_PRODUCT(mask->elements, INDEX_BYTES));
    mt_inner_use(plan, mt_cub_scan_bytes(mask->elements, INDEX_BYTES));
}

/* repeat_interleave of counts: their sums, and whether all are at least 0. */
MT_RULE(repeat)
{
    const struct mt_operand *counts = mt_call_tensor(call, "repeats");
    if (counts == NULL || counts->elements == 0)
        return;
    mt_inner_take(plan, MT_PRODUCT(counts->elements, INDEX_BYTES));
    mt_inner_use(plan, mt_cub_scan_bytes(counts->elements, INDEX_BYTES));
    const int truths = mt_inner_take(plan, counts->elements);
    mt_inner_stage_truth(plan, counts->elements);
    mt_inner_give(plan, truths);
    mt_inner_output(plan, 0);
}

/* Returns the bits of random keys that are distinct with a probability of 0.9 (Randperm.cu). */
static int64_t key_bits(double n)
{
    const double threshold = 12 * log(0.9);
    const double bits = ceil(log2(n - (6 * n * n + 1) / threshold));
    return bits > 64 ? 64 : (int64_t)bits;
}

/* randperm: numbers are sorted by random keys. */
MT_RULE(permutation)
{
    const int64_t n = mt_call_integer(call, "n", 0);
    mt_inner_output(plan, 0);
    if (n == 0)
        return;
    const int64_t bits = key_bits((double)n), key_bytes = bits > INT_BITS ? INDEX_BYTES : COUNT_BYTES;
    mt_inner_use(plan, INDEX_BYTES);
    mt_inner_take(plan, MT_PRODUCT(n, INDEX_BYTES));
    mt_inner_take(plan, MT_PRODUCT(n, key_bytes));
    mt_inner_take(plan, MT_PRODUCT(n, key_bytes));
    mt_inner_use(plan, mt_cub_sort_bytes(n, key_bytes, INDEX_BYTES, mt_divide_up(bits, DIGIT_BITS)));
}
