/* torch.linalg's factors by reflections, and of symmetric matrices. The workspaces follow what cuSOLVER 12 said of an H200
 * (tests/data/operators). */
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    POINTER_BYTES = 8,
    INT_BYTES = 4,
    MOST_LISTED = 20, /* workspaces of a batch; more, one after the other, change no peak */
    BATCH_COLUMNS = 256,
    BATCH_STEP = 16, /* cuBLAS takes a batch of a matrix for so many columns */
    ALIGNMENT = 32   /* elements */
};

/* A batch of m x n matrices. */
struct matrices {
    int64_t batch, m, n, item_bytes;
};

static bool read_matrices(const struct mt_operand *tensor, struct matrices *out)
{
    if (tensor == NULL || tensor->dims < 2 || tensor->elements == 0)
        return false;
    const int64_t n = tensor->sizes[tensor->dims - 1], m = tensor->sizes[tensor->dims - 2];
    *out = (struct matrices){tensor->elements / (m * n), m, n, tensor->item_bytes};
    return true;
}

static int64_t reflections_of(const struct matrices *a)
{
    return mt_smaller(a->m, a->n);
}

/* Adds a workspace for each matrix, one after the other, and the status that all share. */
static void use_for_each(struct mt_operator_plan *plan, int64_t batch, int64_t bytes)
{
    const int status = mt_inner_take(plan, INT_BYTES);
    for (int64_t i = 0; i < mt_smaller(batch, MOST_LISTED); i++)
        mt_inner_use(plan, bytes);
    mt_inner_give(plan, status);
}

/* Adds the reflections of a QR factor: cuBLAS takes a batch of small matrices. */
static void reflect(struct mt_operator_plan *plan, const struct matrices *a)
{
    enum { ROWS = 1024, COLUMNS = 512, FIXED_BYTES = 128 };
    const int64_t least = a->n / BATCH_STEP < 2 ? 2 : a->n / BATCH_STEP;
    if (a->n <= BATCH_COLUMNS && a->batch >= least) {
        const int matrices = mt_inner_take(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
        mt_inner_use(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
        mt_inner_give(plan, matrices);
        return;
    }
    const int64_t columns = COLUMNS + (a->n < BATCH_COLUMNS ? BATCH_COLUMNS : a->n);
    use_for_each(plan, a->batch, MT_PRODUCT(ROWS, columns, a->item_bytes) + FIXED_BYTES);
}

/* Adds the product of `count` reflections. Of over 64, it is known of square matrices of 128 columns and more. */
static void multiply_reflections(struct mt_operator_plan *plan, const struct matrices *a, int64_t count)
{
    enum { FIXED = 33024, FEW = 64, BLOCK = 128 };
    const bool is_few = count <= FEW, is_known = is_few || (a->m == count && count >= BLOCK);
    const int64_t elements =
        is_few ? mt_round_up(MT_PRODUCT(a->m, count), ALIGNMENT) : BLOCK * (a->m - BLOCK) + 2 * BLOCK * count;
    if (!is_known)
        mt_inner_guess(plan);
    use_for_each(plan, a->batch, MT_PRODUCT(FIXED + elements, a->item_bytes));
}

/* geqrf: reflections in place, and their factors. */
MT_RULE(reflections)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (read_matrices(mt_call_tensor(call, "self"), &a))
        reflect(plan, &a);
}

/* linalg_householder_product */
MT_RULE(reflections_product)
{
    const struct mt_operand *factors = mt_call_tensor(call, "tau");
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (factors != NULL && factors->dims > 0 && read_matrices(mt_call_tensor(call, "input"), &a))
        multiply_reflections(plan, &a, factors->sizes[factors->dims - 1]);
}

/* linalg_qr: without Q, a matrix with more rows than columns is copied. */
MT_RULE(qr)
{
    const bool has_q = call->output_count > 0 && call->outputs[0].elements > 0;
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    const int64_t count = reflections_of(&a);
    const int factors = mt_inner_take(plan, MT_PRODUCT(a.batch, count, a.item_bytes));
    const int copy = has_q || a.m <= a.n ? -1 : mt_inner_take(plan, MT_PRODUCT(a.batch, a.m, a.n, a.item_bytes));
    reflect(plan, &a);
    mt_inner_give(plan, copy);
    if (has_q)
        multiply_reflections(plan, &a, count);
    mt_inner_give(plan, factors);
}

/* linalg_ldl_factor_ex: each matrix needs the same workspace, which is taken once. */
MT_RULE(symmetric_factor)
{
    enum { ROW = 64, LEAST = 24608, LEAST_WIDE = 13328 };
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "self"), &a))
        return;
    const int64_t least = a.item_bytes > MT_FLOAT_BYTES ? LEAST_WIDE : LEAST, elements = ROW * (a.n + 1);
    mt_inner_use(plan, MT_PRODUCT(elements < least ? least : elements, a.item_bytes));
}
