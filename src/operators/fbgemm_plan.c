/* FBGEMM: jagged tensors and embedding tables, as torchrec uses them. Host code under fbgemm_gpu/src and
 * fbgemm_gpu/codegen. */
#include "operators/cub_memory.h"
#include "operators/operator_plan.h"

enum { INT_BYTES = 4, LONG_BYTES = 8, DIGIT_BITS = 8, SEGMENT = 1024 /* indices of one row that a block adds up */ };

/* Takes sums from the first element, of `elements` and one more, and gives back what CUB takes meanwhile. */
static int take_offsets(struct mt_operator_plan *plan, int64_t elements, int64_t item_bytes, int64_t more)
{
    const int offsets = mt_inner_take(plan, MT_PRODUCT(elements + more, item_bytes));
    if (elements > 0)
        mt_inner_use(plan, mt_cub_scan_bytes(elements, item_bytes));
    return offsets;
}

/* asynchronous_complete_cumsum and its kin */
MT_RULE(offsets)
{
    const struct mt_operand *lengths = mt_call_tensor(call, "t_in");
    mt_inner_outputs(plan, call, 0);
    if (lengths != NULL && lengths->dims > 0 && lengths->elements > 0) {
        const int64_t row = lengths->dims > 1 ? lengths->sizes[lengths->dims - 1] : lengths->elements;
        mt_inner_use(plan, mt_cub_scan_bytes(row, lengths->item_bytes));
    }
}

/* permute_1D_sparse_data, permute_2D_sparse_data. Results: lengths, indices, weights. */
MT_RULE(permuted_features)
{
    static const char *const names[] = {"permute", "lengths", "indices"};
    const struct mt_operand *lengths = mt_call_tensor(call, "lengths");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mt_inner_copy(plan, mt_call_tensor(call, names[i]));
    if (lengths == NULL || call->output_count < 2)
        return;
    mt_inner_output(plan, 0);
    take_offsets(plan, lengths->elements, lengths->item_bytes, 0);
    take_offsets(plan, call->outputs[0].elements, lengths->item_bytes, 1);
    mt_inner_outputs(plan, call, 1);
}

/* The values are made twice: with shapes alone, and as the result. */
MT_RULE(dense_to_jagged)
{
    if (call->output_count == 1)
        mt_inner_take_like(plan, &call->outputs[0]);
}

/* Sorts indices of all tables, with `info_bytes` that say where each comes from, and counts equal ones. */
static void sort_indices(struct mt_operator_plan *plan, const struct mt_operator_call *call,
                         const struct mt_operand *indices, int64_t info_bytes)
{
    const int64_t n = indices->elements, item_bytes = indices->item_bytes;
    const int64_t digits = mt_divide_up(mt_call_integer(call, "total_hash_size_bits", LONG_BYTES * 8), DIGIT_BITS);
    const int infos = mt_inner_take(plan, MT_PRODUCT(n, info_bytes));
    mt_inner_take(plan, MT_PRODUCT(n, info_bytes));
    mt_inner_take_like(plan, indices);
    mt_inner_take_like(plan, indices);
    mt_inner_use(plan, mt_cub_sort_bytes(n, item_bytes, info_bytes, digits));
    mt_inner_take_like(plan, indices); /* those that differ */
    mt_inner_take(plan, MT_PRODUCT(n, INT_BYTES));
    mt_inner_take(plan, INT_BYTES);
    mt_inner_use(plan, mt_cub_run_length_bytes(n));
    take_offsets(plan, n, INT_BYTES, 1);
    mt_inner_give(plan, infos);
}

/* Takes lists of indices that are many times in a batch, and sums of their gradients. */
static void take_long_runs(struct mt_operator_plan *plan, int64_t n, int64_t width)
{
    for (int i = 0; i < 2; i++) {
        mt_inner_take(plan, MT_PRODUCT(n, INT_BYTES));
        mt_inner_take(plan, INT_BYTES);
    }
    if (n >= SEGMENT) {
        mt_inner_take(plan, n / SEGMENT * INT_BYTES);
        mt_inner_take(plan, MT_PRODUCT(n / SEGMENT, width, MT_FLOAT_BYTES));
    }
}

static void update_tables(struct mt_operator_plan *plan, const struct mt_operator_call *call, int64_t info_bytes,
                          const char *width)
{
    enum { MEAN = 1 };
    const struct mt_operand *indices = mt_call_tensor(call, "indices"), *gradient = mt_call_tensor(call, "grad_output");
    if (indices == NULL || indices->elements == 0)
        return;
    mt_inner_copy(plan, gradient);
    sort_indices(plan, call, indices, info_bytes);
    const struct mt_operand *cached = mt_call_tensor(call, "lxu_cache_locations");
    if (cached != NULL && cached->elements > 0) /* a cache in front of host memory */
        mt_inner_uncounted(plan);
    mt_inner_take_like(plan, mt_call_tensor(call, "weights_placements"));
    if (gradient != NULL && mt_call_integer(call, "pooling_mode", 0) == MEAN)
        mt_inner_take_like(plan, gradient);
    take_long_runs(plan, indices->elements, mt_call_integer(call, width, 0));
}

/* The backward of tables updates them: its optimizer is part of the kernel. */
MT_RULE(pooled_table_update)
{
    update_tables(plan, call, INT_BYTES, "max_D");
}

/* Without pooling: a result for each index. */
MT_RULE(table_update)
{
    update_tables(plan, call, LONG_BYTES, "D");
}
