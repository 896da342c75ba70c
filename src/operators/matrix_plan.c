/* torch.linalg by cuSOLVER and cuBLAS: factors, and what is solved by them. The workspaces follow what cuSOLVER 12 said
 * of an H200 for sizes up to 1,024 (tests/data/operators). */
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    POINTER_BYTES = 8, /* also of an index */
    INT_BYTES = 4,
    SMALL = 8, /* matrices that cuBLAS solves as a batch, also one alone */
    SMALL_SQUARE = 16,
    LOOP_BATCH = 8, /* cuBLAS is called for each matrix of fewer and large ones */
    LOOP_SIZE = 64,
    LONE_SIZE = 64,         /* a lone matrix that cuSOLVER solves */
    LONE_COLUMN_SIZE = 128, /* with one column */
    LARGE = 512             /* no batch of cuBLAS takes such */
};

/* A batch of matrices of n columns. */
struct matrices {
    int64_t batch, n, item_bytes, bytes;
};

static bool read_matrices(const struct mt_operand *tensor, struct matrices *out)
{
    if (tensor == NULL || tensor->dims < 2 || tensor->elements == 0)
        return false;
    const int64_t n = tensor->sizes[tensor->dims - 1], m = tensor->sizes[tensor->dims - 2];
    *out = (struct matrices){tensor->elements / (m * n), m < n ? m : n, tensor->item_bytes, mt_operand_bytes(tensor)};
    return true;
}

/* ---- workspaces ---- */

/* Returns cuSOLVER's workspace of a Cholesky factor: 32 bytes for tiles of it, counted by quarters of 128 columns. */
static int64_t cholesky_bytes(int64_t n)
{
    enum { LEAST = 128, TILE = 32, COLUMNS = 128, QUARTER = 32 };
    const int64_t whole = n / COLUMNS, rest = n % COLUMNS;
    const int64_t of_rest[] = {0, whole + 1, 2 * whole + 1, 3 * whole + 2, 4 * whole + 2};
    return LEAST + TILE * (2 * whole * whole + of_rest[mt_divide_up(rest, QUARTER)]);
}

/* Returns cuSOLVER's workspace of LU factors. */
static int64_t factor_bytes(int64_t n)
{
    enum { UNIT = 256, COLUMNS = 32, MOST = 16 };
    const int64_t blocks = mt_divide_up(n, COLUMNS);
    int64_t power = 1;
    while (power < blocks && power < MOST)
        power *= 2;
    return UNIT * (blocks + power + 1);
}

/* Adds LU factors: one by cuSOLVER, a batch by cuBLAS, which gets a list of pointers. */
static void factor(struct mt_operator_plan *plan, const struct matrices *a)
{
    if (a->batch == 1)
        mt_inner_use(plan, factor_bytes(a->n));
    else if (a->n < LARGE)
        mt_inner_use(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
}

/* ---- solutions ---- */

/* Adds the two lists of pointers that a batch of cuBLAS gets. */
static void list_pointers(struct mt_operator_plan *plan, int64_t batch)
{
    const int first = mt_inner_take(plan, MT_PRODUCT(batch, POINTER_BYTES));
    mt_inner_use(plan, MT_PRODUCT(batch, POINTER_BYTES));
    mt_inner_give(plan, first);
}

static void solve_triangular(struct mt_operator_plan *plan, const struct matrices *a)
{
    if (a->batch > LOOP_BATCH || a->n < LOOP_SIZE)
        list_pointers(plan, a->batch);
}

/* Adds two triangular solutions of the permuted right side: the permutation, its inverse, and the permuted side. */
static void solve_by_triangles(struct mt_operator_plan *plan, const struct matrices *a, int64_t side_bytes)
{
    const int64_t places = MT_PRODUCT(a->batch, a->n, POINTER_BYTES), range = MT_PRODUCT(a->n, POINTER_BYTES);
    int blocks[4];
    const int first = mt_inner_take(plan, range);
    blocks[0] = a->batch > 1 ? mt_inner_take(plan, places) : first;
    if (a->batch > 1)
        mt_inner_give(plan, first);
    blocks[1] = mt_inner_take(plan, range);
    blocks[2] = mt_inner_take(plan, places);
    blocks[3] = mt_inner_take(plan, side_bytes);
    solve_triangular(plan, a);
    solve_triangular(plan, a);
    mt_inner_give(plan, blocks[3]);
    mt_inner_give(plan, blocks[2]);
    mt_inner_give(plan, blocks[1]);
    mt_inner_give(plan, blocks[0]);
}

/* True if cuBLAS solves all as a batch (lu_solve_kernel; the sizes are as recorded calls have them). */
static bool is_batch(const struct matrices *a, int64_t columns)
{
    if (a->n <= SMALL)
        return true;
    return a->batch > 1 && a->n < LARGE &&
           (columns == 1 || columns <= SMALL || (a->n <= SMALL_SQUARE && columns == a->n));
}

/* Adds a solution by LU factors, of a right side of `columns`. */
static void solve(struct mt_operator_plan *plan, const struct matrices *a, int64_t columns, int64_t side_bytes)
{
    const bool is_lone =
        a->batch == 1 && columns != a->n && (a->n <= LONE_SIZE || (columns == 1 && a->n <= LONE_COLUMN_SIZE));
    if (is_batch(a, columns))
        list_pointers(plan, a->batch);
    else if (is_lone)
        mt_inner_use(plan, INT_BYTES);
    else
        solve_by_triangles(plan, a, side_bytes);
}

/* Returns the columns of a right side; a vector is one. */
static int64_t columns_of(const struct mt_operand *side, const struct matrices *a)
{
    return side->elements / (a->batch * a->n);
}

/* ---- rules ---- */

/* linalg_cholesky_ex */
MT_RULE(cholesky)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (read_matrices(mt_call_tensor(call, "self"), &a))
        mt_inner_use(plan, a.batch == 1 ? cholesky_bytes(a.n) : MT_PRODUCT(a.batch, POINTER_BYTES));
}

/* _cholesky_solve_helper: copies of both; one matrix is solved by cuSOLVER, a batch by MAGMA. */
MT_RULE(cholesky_solve)
{
    const struct mt_operand *factors = mt_call_tensor(call, "A");
    struct matrices a;
    if (!read_matrices(factors, &a))
        return;
    const int status = a.batch == 1 ? mt_inner_take(plan, INT_BYTES) : -1;
    mt_inner_output(plan, 0);
    mt_inner_use(plan, a.bytes);
    mt_inner_give(plan, status);
}

/* cholesky_inverse */
MT_RULE(cholesky_inverse)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "self"), &a))
        return;
    const int copy = mt_inner_take(plan, a.bytes);
    if (a.batch == 1)
        mt_inner_use(plan, INT_BYTES);
    mt_inner_give(plan, copy);
}

/* linalg_lu_factor_ex: factors, pivots, status. */
MT_RULE(lu_factor)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (read_matrices(mt_call_tensor(call, "A"), &a))
        factor(plan, &a);
}

/* linalg_inv_ex: the factors of a copy, by which the identity is solved. */
MT_RULE(inverse)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    const int factors = mt_inner_take(plan, a.bytes), pivots = mt_inner_take(plan, MT_PRODUCT(a.batch, a.n, INT_BYTES));
    factor(plan, &a);
    solve(plan, &a, a.n, a.bytes);
    mt_inner_give(plan, pivots);
    mt_inner_give(plan, factors);
}

/* _linalg_solve_ex: the result, factors, pivots and status are results. */
MT_RULE(solve)
{
    const struct mt_operand *side = mt_call_tensor(call, "B");
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (side == NULL || !read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    factor(plan, &a);
    solve(plan, &a, columns_of(side, &a), mt_operand_bytes(side));
}

/* linalg_lu_solve: a copy of the factors. */
MT_RULE(lu_solve)
{
    const struct mt_operand *side = mt_call_tensor(call, "B");
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (side == NULL || !read_matrices(mt_call_tensor(call, "LU"), &a))
        return;
    const int factors = mt_inner_take(plan, a.bytes);
    solve(plan, &a, columns_of(side, &a), mt_operand_bytes(side));
    mt_inner_give(plan, factors);
}

/* Takes how many pivots are not in place, of which the sign of a permutation follows. Returns the block. */
static int count_swaps(struct mt_operator_plan *plan, const struct matrices *a)
{
    const int range = mt_inner_take(plan, MT_PRODUCT(a->n, INT_BYTES)), differs = mt_inner_take(plan, a->batch * a->n);
    const int swaps = mt_inner_take(plan, MT_PRODUCT(a->batch, POINTER_BYTES));
    mt_inner_use(plan, MT_PRODUCT(a->batch, a->n, POINTER_BYTES));
    mt_inner_give(plan, differs);
    mt_inner_give(plan, range);
    return swaps;
}

/* _linalg_det */
MT_RULE(determinant)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, INT_BYTES));
    factor(plan, &a);
    const int product = mt_inner_take(plan, MT_PRODUCT(a.batch, a.item_bytes));
    mt_inner_give(plan, count_swaps(plan, &a));
    mt_inner_give(plan, product);
    mt_inner_give(plan, status);
}

/* _linalg_slogdet */
MT_RULE(log_determinant)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    const int64_t diagonal = MT_PRODUCT(a.batch, a.n, a.item_bytes);
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, INT_BYTES));
    factor(plan, &a);
    const int swaps = count_swaps(plan, &a), signs = mt_inner_take(plan, diagonal);
    mt_inner_use(plan, MT_PRODUCT(a.batch, a.item_bytes));
    mt_inner_give(plan, signs);
    mt_inner_give(plan, swaps);
    mt_inner_use(plan, diagonal);
    mt_inner_give(plan, status);
}

/* lu_unpack: the pivots become a permutation of rows, one for each matrix. */
MT_RULE(lu_unpack)
{
    const struct mt_operand *factors = mt_call_tensor(call, "LU_data");
    mt_inner_outputs(plan, call, 0);
    if (factors == NULL || factors->dims < 2 || factors->elements == 0 ||
        mt_call_integer(call, "unpack_pivots", 1) == 0)
        return;
    const int64_t rows = factors->sizes[factors->dims - 2];
    const int64_t batch = factors->elements / (rows * factors->sizes[factors->dims - 1]);
    const int range = mt_inner_take(plan, MT_PRODUCT(rows, POINTER_BYTES));
    if (factors->dims == 2)
        return;
    mt_inner_take(plan, MT_PRODUCT(batch, rows, POINTER_BYTES));
    mt_inner_give(plan, range);
}

/* linalg_lu: the factors are copied apart, and the pivots become a permutation. */
MT_RULE(lu)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (!read_matrices(mt_call_tensor(call, "A"), &a))
        return;
    const int factors = mt_inner_take(plan, a.bytes), pivots = mt_inner_take(plan, MT_PRODUCT(a.batch, a.n, INT_BYTES));
    const int status = mt_inner_take(plan, MT_PRODUCT(a.batch, INT_BYTES));
    factor(plan, &a);
    mt_inner_give(plan, factors);
    const int range = mt_inner_take(plan, MT_PRODUCT(a.n, POINTER_BYTES));
    const int places = a.batch > 1 ? mt_inner_take(plan, MT_PRODUCT(a.batch, a.n, POINTER_BYTES)) : -1;
    mt_inner_give(plan, range);
    mt_inner_give(plan, places);
    mt_inner_give(plan, status);
    mt_inner_give(plan, pivots);
}

/* linalg_solve_triangular */
MT_RULE(solve_triangular)
{
    struct matrices a;
    mt_inner_outputs(plan, call, 0);
    if (read_matrices(mt_call_tensor(call, "self"), &a))
        solve_triangular(plan, &a);
}
