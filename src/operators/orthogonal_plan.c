/* torch.linalg's factors by reflections, singular values, eigenvalues of symmetric matrices, and their factors. The
 * workspaces are cuSOLVER's (solver_memory.h). */
#include "operators/linear_matrices.h"

#include <stddef.h>

enum {
    MOST_LISTED = 20, /* workspaces of a batch; more, one after the other, change no peak */
    BATCH_ROWS = 256,
    BATCH_STEP = 16 /* cuBLAS takes a batch of a matrix for so many rows */
};

static int64_t reflections_of(const struct mt_matrices *a)
{
    return mt_smaller(a->m, a->n);
}

/* Adds a workspace for each matrix, one after the other, and the status that all share. */
static void use_for_each(struct mt_operator_plan *plan, int64_t batch, int64_t bytes)
{
    const int status = mt_inner_take(plan, MT_STATUS_BYTES);
    for (int64_t i = 0; i < mt_smaller(batch, MOST_LISTED); i++)
        mt_inner_use(plan, bytes);
    mt_inner_give(plan, status);
}

/* True if cuBLAS takes the matrices as a batch. */
static bool is_batch_of_small(const struct mt_matrices *a)
{
    return a->m <= BATCH_ROWS && a->batch >= mt_greater(2, a->m / BATCH_STEP);
}

/* Adds the reflections of a QR factor: cuBLAS takes a batch of small matrices. */
static void reflect(struct mt_operator_plan *plan, const struct mt_matrices *a)
{
    enum { FIXED_BYTES = 128 };
    if (is_batch_of_small(a)) {
        const int matrices = mt_inner_take(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
        mt_inner_use(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
        mt_inner_give(plan, matrices);
        return;
    }
    use_for_each(plan, a->batch, MT_PRODUCT(mt_solver_reflect(a->n), a->item_bytes) + FIXED_BYTES);
}

/* Adds the product of `count` reflections. */
static void multiply_reflections(struct mt_operator_plan *plan, const struct mt_matrices *a, int64_t count)
{
    use_for_each(plan, a->batch, MT_PRODUCT(mt_solver_reflections(a->m, count), a->item_bytes));
}

/* geqrf: reflections in place, and their factors. */
MT_RULE(reflections)
{
    struct mt_matrices a;
    mt_inner_outputs(plan, call, 0);
    if (mt_matrices_read(mt_call_tensor(call, "self"), &a))
        reflect(plan, &a);
}

/* linalg_householder_product */
MT_RULE(reflections_product)
{
    const struct mt_operand *factors = mt_call_tensor(call, "tau");
    struct mt_matrices a;
    mt_inner_outputs(plan, call, 0);
    if (factors != NULL && factors->dims > 0 && mt_matrices_read(mt_call_tensor(call, "input"), &a))
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
    struct mt_matrices a;
    mt_inner_outputs(plan, call, 0);
    if (factors == NULL || factors->dims == 0 || !mt_matrices_read(mt_call_tensor(call, "input3"), &a))
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
    struct mt_matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!mt_matrices_read(mt_call_tensor(call, "A"), &a))
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

/* ---- least squares ---- */

/* Adds what cuBLAS takes for a batch: a second copy of the matrices, and pointers. */
static void solve_batch(struct mt_operator_plan *plan, const struct mt_matrices *a)
{
    const int copy = mt_inner_take(plan, MT_PRODUCT(a->batch, a->m, a->n, a->item_bytes)),
              matrices = mt_inner_take(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
    mt_inner_use(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
    mt_inner_give(plan, matrices);
    mt_inner_give(plan, copy);
}

/* Adds the pointers of a triangular solution, which cuBLAS computes as a batch if the matrices are small or many. */
static void solve_triangle(struct mt_operator_plan *plan, const struct mt_matrices *a)
{
    enum { LOOP_BATCH = 8, LOOP_SIZE = 64 };
    if (a->batch <= LOOP_BATCH && reflections_of(a) >= LOOP_SIZE)
        return;
    const int matrices = mt_inner_take(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
    mt_inner_use(plan, MT_PRODUCT(a->batch, MT_POINTER_BYTES));
    mt_inner_give(plan, matrices);
}

/* Adds reflections of the matrices, or of their transposed copies if they are wide, and what is solved by them. */
static void solve_by_reflections(struct mt_operator_plan *plan, const struct mt_matrices *a, int64_t columns)
{
    const int64_t count = reflections_of(a), rows = mt_greater(a->m, a->n);
    const struct mt_matrices tall = {a->batch, rows, count, a->item_bytes};
    const bool is_wide = a->m < a->n;
    const int factors = mt_inner_take(plan, MT_PRODUCT(a->batch, count, a->item_bytes)),
              copy = is_wide ? mt_inner_take(plan, MT_PRODUCT(a->batch, rows, count, a->item_bytes)) : -1;
    reflect(plan, &tall);
    if (is_wide)
        solve_triangle(plan, a);
    use_for_each(plan, a->batch, MT_PRODUCT(mt_solver_multiply_left(rows, columns, count), a->item_bytes));
    if (!is_wide)
        solve_triangle(plan, a);
    mt_inner_give(plan, copy);
    mt_inner_give(plan, factors);
}

/* Adds the residuals of tall matrices: the squares of complex numbers are complex at first. */
static void take_residuals(struct mt_operator_plan *plan, const struct mt_matrices *a, int64_t columns, bool is_complex)
{
    enum { RESIDUALS = 1 };
    if (a->m <= a->n)
        return;
    if (is_complex)
        mt_inner_use(plan, MT_PRODUCT(a->batch, a->m - a->n, columns, a->item_bytes));
    mt_inner_wide_output(plan, RESIDUALS,
                         MT_PRODUCT(a->batch, columns, is_complex ? a->item_bytes / 2 : a->item_bytes));
}

/* linalg_lstsq: the solution has as many rows as the larger side, and cuSOLVER finds no rank. */
MT_RULE(least_squares)
{
    enum { SOLUTION, RESIDUALS, RANK };
    const struct mt_operand *input = mt_call_tensor(call, "self"), *right = mt_call_tensor(call, "b");
    struct mt_matrices a;
    if (call->output_count <= RANK || right == NULL || right->elements == 0 || !mt_matrices_read(input, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    const int64_t columns = right->elements / (a.batch * a.m);
    const bool is_complex = input->dtype == MT_SCALAR_COMPLEX_FLOAT || input->dtype == MT_SCALAR_COMPLEX_DOUBLE;
    mt_inner_host(plan, RANK);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, MT_STATUS_BYTES));
    mt_inner_wide_output(plan, SOLUTION, MT_PRODUCT(a.batch, mt_greater(a.m, a.n), columns, a.item_bytes));
    const int copy = mt_inner_take_like(plan, input);
    if (a.m >= a.n && is_batch_of_small(&a))
        solve_batch(plan, &a);
    else
        solve_by_reflections(plan, &a, columns);
    take_residuals(plan, &a, columns, is_complex);
    mt_inner_give(plan, copy);
    mt_matrices_check_status(plan, a.batch);
    mt_inner_give(plan, status);
}

/* ---- singular values and eigenvalues ---- */

/* Matrices of up to so many rows and columns are computed as a batch. */
enum { SMALL = 32 };

static bool is_small(const struct mt_matrices *a)
{
    return a->m <= SMALL && a->n <= SMALL;
}

/* Takes one side's vectors, of n rows: of all matrices and as many as rows if they are computed as a batch. */
static int take_vectors(struct mt_operator_plan *plan, const struct mt_matrices *a, bool is_batch, int64_t n)
{
    return is_batch ? mt_inner_take(plan, MT_PRODUCT(a->batch, n, n, a->item_bytes))
                    : mt_inner_take(plan, MT_PRODUCT(n, reflections_of(a), a->item_bytes));
}

/* True if the vectors of a side of n rows can't be computed in the result. */
static bool needs_vectors(const struct mt_matrices *a, bool is_full, bool has_vectors, int64_t n)
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
    struct mt_matrices a;
    if (call->output_count <= RIGHT || !mt_matrices_read(matrices, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    if (has_vectors) {
        mt_inner_output(plan, LEFT);
        mt_inner_output(plan, RIGHT);
    }
    mt_inner_output(plan, VALUES);
    const bool is_batch = is_small(&a);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, MT_STATUS_BYTES)),
              copy = mt_inner_take_like(plan, matrices),
              left = needs_vectors(&a, is_full, has_vectors, a.m) ? take_vectors(plan, &a, is_batch, a.m) : -1,
              right = needs_vectors(&a, is_full, has_vectors, a.n) ? take_vectors(plan, &a, is_batch, a.n) : -1;
    mt_inner_use(
        plan, MT_PRODUCT(is_batch ? mt_solver_small_singular() : mt_solver_singular(a.m, a.n, is_full), a.item_bytes));
    mt_inner_give(plan, right);
    mt_inner_give(plan, left);
    mt_inner_give(plan, copy);
    mt_matrices_check_status(plan, a.batch);
    mt_inner_give(plan, status);
}

/* Adds the workspaces of eigenvalues: by division with its 128 bytes for small batches and large matrices, by rotations
 * between. */
static void find_eigenvalues(struct mt_operator_plan *plan, const struct mt_matrices *a, bool is_single)
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
    struct mt_matrices a;
    if (call->output_count <= VECTORS || !mt_matrices_read(matrices, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    if (has_vectors)
        mt_inner_output(plan, VECTORS);
    mt_inner_output(plan, VALUES);
    if (!has_vectors)
        mt_inner_take_like(plan, matrices);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, MT_STATUS_BYTES));
    find_eigenvalues(plan, &a, matrices->dtype == MT_SCALAR_FLOAT);
    mt_matrices_check_status(plan, a.batch);
    mt_inner_give(plan, status);
}

/* linalg_ldl_factor_ex: each matrix needs the same workspace, which is taken once. */
MT_RULE(symmetric_factor)
{
    enum { ROW = 64, LEAST = 24608, LEAST_WIDE = 13328 };
    struct mt_matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!mt_matrices_read(mt_call_tensor(call, "self"), &a))
        return;
    const int64_t least = a.item_bytes > MT_FLOAT_BYTES ? LEAST_WIDE : LEAST, elements = ROW * (a.n + 1);
    mt_inner_use(plan, MT_PRODUCT(elements < least ? least : elements, a.item_bytes));
}
