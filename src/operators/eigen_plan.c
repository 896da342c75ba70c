/* torch.linalg's eigenvalues of matrices that need not be symmetric: linalg_eig and _linalg_eigvals of PyTorch 2.11
 * (aten/src/ATen/native/BatchLinearAlgebra.cpp). All 316 calls that were recorded on an H200 are equal
 * (tests/data/operators/eigen.txt). */
#include "operators/linear_matrices.h"
#include "operators/operator_memory.h"

/* Takes which of so many real numbers are finite. Returns the block. */
static int take_finite(struct mt_operator_plan *plan, int64_t count, int64_t real_bytes)
{
    const int absolute = mt_inner_take(plan, MT_PRODUCT(count, real_bytes)), bounded = mt_inner_take(plan, count),
              number = mt_inner_take(plan, count), finite = mt_inner_take(plan, count);
    mt_inner_give(plan, number);
    mt_inner_give(plan, bounded);
    mt_inner_give(plan, absolute);
    return finite;
}

/* linalg_eig checks that the input is finite. */
static void check_finite(struct mt_operator_plan *plan, int64_t count, int64_t real_bytes, bool is_complex)
{
    const int finite = take_finite(plan, count, real_bytes);
    if (is_complex)
        mt_inner_give(plan, take_finite(plan, count, real_bytes));
    mt_inner_stage_truth(plan, count);
    mt_inner_give(plan, finite);
}

/* Real matrices have real values and vectors first, which become complex. */
static void find_eigenvalues(struct mt_operator_plan *plan, const struct mt_operator_call *call, bool has_vectors)
{
    enum { VALUES, VECTORS };
    const struct mt_operand *input = mt_call_tensor(call, "self");
    struct mt_matrices a;
    if (call->output_count <= (has_vectors ? VECTORS : VALUES) || !mt_matrices_read(input, &a)) {
        mt_inner_outputs(plan, call, 0);
        return;
    }
    const int64_t values = call->outputs[VALUES].elements, value_bytes = mt_operand_bytes(&call->outputs[VALUES]);
    const bool is_complex = call->outputs[VALUES].item_bytes == a.item_bytes;
    if (has_vectors)
        check_finite(plan, input->elements, is_complex ? a.item_bytes / 2 : a.item_bytes, is_complex);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, MT_STATUS_BYTES));
    if (has_vectors)
        mt_inner_output(plan, VECTORS);
    mt_inner_output(plan, VALUES);
    const int real_values = is_complex ? -1 : mt_inner_take(plan, value_bytes),
              copy = a.n == 1 ? -1 : mt_inner_take_like(plan, input),
              real_vectors = is_complex || !has_vectors ? -1 : mt_inner_take_like(plan, input);
    mt_inner_use(plan, mt_solver_eigenvalues_bytes(a.n, a.item_bytes, is_complex));
    mt_inner_give(plan, copy);
    if (!is_complex) {
        const int imaginary = mt_inner_take(plan, values);
        mt_inner_stage_truth(plan, values);
        mt_inner_give(plan, imaginary);
    }
    mt_inner_give(plan, real_vectors);
    mt_inner_give(plan, real_values);
    const int out_values = mt_inner_take(plan, value_bytes);
    if (has_vectors)
        mt_inner_use(plan, mt_operand_bytes(&call->outputs[VECTORS]));
    mt_inner_give(plan, out_values);
    mt_matrices_check_status(plan, a.batch);
    mt_inner_give(plan, status);
}

/* linalg_eig */
MT_RULE(eigenvectors)
{
    find_eigenvalues(plan, call, true);
}

/* _linalg_eigvals */
MT_RULE(eigenvalues)
{
    find_eigenvalues(plan, call, false);
}
