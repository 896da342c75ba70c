/* torch.linalg's factors by reflections, singular values, eigenvalues of symmetric matrices, and their factors. The workspaces are
 * cuSOLVER's (solver_memory.h). */
#include "operators/operator_plan.h"
#include "operators/solver_memory.h"

#include <stddef.h>

enum {
    POINTER_BYTES = 8,
    INT_BYTES = 4,
    MOST_LISTED = 20, /* workspaces of a batch; more, one after the other, change no peak */
    BATCH_COLUMNS = 256,
    BATCH_STEP = 16 /* cuBLAS takes a batch of a matrix for so many columns */
};

/* A batch of m x n matrices. */
struct matrices {
    int64_t batch, m, n, item_bytes;
};

/* False also for sizes that no card has room for. */
static bool read_matrices(const struct mt_operand *tensor, struct matrices *out)
{
    if (tensor == NULL || tensor->dims < 2 || tensor->elements == 0)
        return false;
    const int64_t n = tensor->sizes[tensor->dims - 1], m = tensor->sizes[tensor->dims - 2];
    *out = (struct matrices){tensor->elements / (m * n), m, n, tensor->item_bytes};
    return m <= MT_SOLVER_MOST && n <= MT_SOLVER_MOST;
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
    enum { FIXED_BYTES = 128 };
    const int64_t least = a->n / BATCH_STEP < 2 ? 2 : a->n / BATCH_STEP;
    if (a->n <= BATCH_COLUMNS && a->batch >= least) {
        const int matrices = mt_inner_take(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
        mt_inner_use(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
        mt_inner_give(plan, matrices);
        return;
    }
    use_for_each(plan, a->batch, MT_PRODUCT(mt_solver_reflect(a->n), a->item_bytes) + FIXED_BYTES);
}

/* Adds the product of `count` reflections. */
static void multiply_reflections(struct mt_operator_plan *plan, const struct matrices *a, int64_t count)
{
    use_for_each(plan, a->batch, MT_PRODUCT(mt_solver_reflections(a->m, count), a->item_bytes));
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

/* True if the elements of each column follow each other, as cuSOLVER reads them. */
static bool has_columns(const struct mt_operand *tensor)
{
    return tensor != NULL && tensor->dims >= 2 && tensor->strides[tensor->dims - 2] == 1 &&
           tensor->strides[tensor->dims - 1] >= tensor->sizes[tensor->dims - 2];
}

/* ormqr: reflections are copied unless they have columns, as geqrf makes them. */
MT_RULE(reflections_multiply)
{
    const struct mt_operand *factors = mt_call_tensor(call, "input2"), *reflections = mt_call_tensor(call, "self");
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (factors == NULL || factors->dims == 0 || !read_matrices(mt_call_tensor(call, "input3"), &a))
        return;
    const int64_t count = factors->sizes[factors->dims - 1];
    const bool is_left = mt_call_number(call, "left", 1) != 0;
    const int copy = has_columns(reflections) ? -1 : mt_inner_take_like(plan, reflections);
    use_for_each(
        plan, a.batch,
        MT_PRODUCT(is_left ? mt_solver_multiply_left(a.m, a.n, count) : mt_solver_multiply_right(a.m, a.n, count),
                   a.item_bytes));
    mt_inner_give(plan, copy);
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

/* ---- singular values and eigenvalues ---- */

/* Adds what tells on the host whether all matrices converged. */
static void check_status(struct mt_operator_plan *plan, const struct mt_operand *matrices)
{
    const int any = mt_inner_take(plan, 1);
    if (matrices->dims == 2)
        mt_inner_use(plan, 1);
    mt_inner_give(plan, any);
}

/* Matrices of up to so many rows and columns are computed as a batch. */
enum { SMALL = 32 };

static bool is_small(const struct matrices *a)
{
    return a->m <= SMALL && a->n <= SMALL;
}

/* Takes one side's vectors, of n rows: of all matrices and as many as rows if they are computed as a batch. */
static int take_vectors(struct mt_operator_plan *plan, const struct matrices *a, bool is_batch, int64_t n)
{
    return is_batch ? mt_inner_take(plan, MT_PRODUCT(a->batch, n, n, a->item_bytes))
                    : mt_inner_take(plan, MT_PRODUCT(n, reflections_of(a), a->item_bytes));
}

/* True if the vectors of a side of n rows can't be computed in the result. */
static bool needs_vectors(const struct matrices *a, bool is_full, bool has_vectors, int64_t n)
{
    return !has_vectors || (is_small(a) && !is_full && n > reflections_of(a));
}

/* _linalg_svd: vectors of both sides come before the values. Each matrix of a batch uses the same workspace. */
MT_RULE(singular_values)
{
    enum { LEFT, VALUES, RIGHT };
    const struct mt_operand *matrices = mt_call_tensor(call, "A");
    const bool is_full = mt_call_number(call, "full_matrices", 0) != 0,
               has_vectors = mt_call_number(call, "compute_uv", 1) != 0;
    struct matrices a;
    if (call->output_count <= RIGHT || !read_matrices(matrices, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    if (has_vectors) {
        mt_inner_output(plan, LEFT);
        mt_inner_output(plan, RIGHT);
    }
    mt_inner_output(plan, VALUES);
    const bool is_batch = is_small(&a);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, INT_BYTES)), copy = mt_inner_take_like(plan, matrices),
              left = needs_vectors(&a, is_full, has_vectors, a.m) ? take_vectors(plan, &a, is_batch, a.m) : -1,
              right = needs_vectors(&a, is_full, has_vectors, a.n) ? take_vectors(plan, &a, is_batch, a.n) : -1;
    mt_inner_use(
        plan, MT_PRODUCT(is_batch ? mt_solver_small_singular() : mt_solver_singular(a.m, a.n, is_full), a.item_bytes));
    mt_inner_give(plan, right);
    mt_inner_give(plan, left);
    mt_inner_give(plan, copy);
    check_status(plan, matrices);
    mt_inner_give(plan, status);
}

/* Adds the workspaces of eigenvalues: by division with its 128 bytes for small batches and large matrices, by rotations between. */
static void find_eigenvalues(struct mt_operator_plan *plan, const struct matrices *a, bool is_single)
{
    enum { FIXED_BYTES = 128, ROTATED_MOST = 512 };
    if (a->batch > 1 && a->n <= SMALL) {
        mt_inner_use(plan, MT_PRODUCT(mt_solver_divide_symmetric(a->batch, a->n), a->item_bytes) + FIXED_BYTES);
        return;
    }
    const bool is_rotated = is_single && a->n >= SMALL && a->n <= ROTATED_MOST;
    const int64_t bytes = is_rotated ? MT_PRODUCT(mt_solver_rotate_symmetric(a->n), a->item_bytes)
                                     : MT_PRODUCT(mt_solver_divide_symmetric(1, a->n), a->item_bytes) + FIXED_BYTES;
    for (int64_t i = 0; i < mt_smaller(a->batch, MOST_LISTED); i++)
        mt_inner_use(plan, bytes);
}

/* _linalg_eigh: the vectors are a copy of the matrices, which is freed last if only values are wanted. */
MT_RULE(symmetric_eigenvalues)
{
    enum { VALUES, VECTORS };
    const struct mt_operand *matrices = mt_call_tensor(call, "A");
    const bool has_vectors = mt_call_number(call, "compute_v", 1) != 0;
    struct matrices a;
    if (call->output_count <= VECTORS || !read_matrices(matrices, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    if (has_vectors)
        mt_inner_output(plan, VECTORS);
    mt_inner_output(plan, VALUES);
    if (!has_vectors)
        mt_inner_take_like(plan, matrices);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, INT_BYTES));
    find_eigenvalues(plan, &a, matrices->dtype == MT_SCALAR_FLOAT);
    check_status(plan, matrices);
    mt_inner_give(plan, status);
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
