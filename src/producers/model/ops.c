#include "producers/model/ops.h"

#include "producers/model/op_rules.h"

#include <assert.h>

static const char *const unary_names[] = {
    [MTK_COPY] = "copy",
    [MTK_NEGATE] = "neg",
    [MTK_ABS] = "abs",
    [MTK_EXP] = "exp",
    [MTK_SQRT] = "sqrt",
    [MTK_RSQRT] = "rsqrt",
    [MTK_SIGMOID] = "sigmoid",
    [MTK_LOG] = "log",
    [MTK_POWER] = "power",
    [MTK_ADD_SCALAR] = "add_scalar",
    [MTK_MUL_SCALAR] = "mul_scalar",
    [MTK_DIV_SCALAR] = "div_scalar",
    [MTK_EQUAL_SCALAR] = "equal_scalar",
};
static const char *const binary_names[] = {
    [MTK_ADD] = "add",      [MTK_SUBTRACT] = "sub",
    [MTK_MULTIPLY] = "mul", [MTK_DIVIDE] = "div",
    [MTK_EQUAL] = "equal",  [MTK_SIGMOID_GRAD] = "sigmoid_grad",
    [MTK_LERP] = "lerp",    [MTK_LERP_SQUARE] = "lerp_square",
};
static const char *const ternary_names[] = {[MTK_SELECT] = "select", [MTK_ADD_QUOTIENT] = "add_quotient"};
static const char *const reduce_names[] = {[MTK_SUM] = "sum", [MTK_MEAN] = "mean", [MTK_MAX] = "max"};

/* Returns the name of an op by its table. */
#define OP_NAME(names, op) (assert((size_t)(op) < sizeof(names) / sizeof(names)[0]), (names)[op])

/* The number of kernels that PyTorch launches for an op, if ours replaces several. Each but the first reads and writes
 * the output again: a lerp multiplies in place and adds, and a root or a quotient comes with a factor or an addend. */
static int kernels_of_unary(mtk_unary_op op, double s)
{
    return op == MTK_SQRT && s != 0 ? 2 : 1;
}

static int kernels_of_binary(mtk_binary_op op)
{
    return op == MTK_LERP || op == MTK_LERP_SQUARE ? 2 : 1;
}

static int kernels_of_ternary(mtk_ternary_op op)
{
    return op == MTK_ADD_QUOTIENT ? 2 : 1;
}

/* A transposing copy gets a quarter of the bandwidth: PyTorch's on an H200 takes 25.6 ms for the 225 weight
 * gradients of 2.7 billion parameters (tests/data/kernels_h200.json). */
enum { TURNING = 4 };

/* True if neighbouring elements of `in` are not neighbours in `out`. */
static bool turns(const struct mt_tensor *out, const struct mt_tensor *in)
{
    int last = out->dims - 1;
    return out->dims == in->dims && last >= 0 && out->shape[last] > 1 && in->shape[last] > 1 &&
           (out->stride[last] == 1) != (in->stride[last] == 1);
}

/* Accounts for an elementwise op whose output is tensors[0]. */
static void spend_elementwise(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count,
                              int kernels)
{
    struct mt_work work = {.op = op,
                           .operations = (double)mt_tensor_count(tensors[0]),
                           .dtype = tensors[count - 1]->dtype,
                           .launches = kernels,
                           .host_ns = (uint64_t)kernels * rt->launch_ns};
    assert(kernels >= 1);
    for (int i = 0; i < count; i++)
        work.bytes += mt_tensor_bytes(tensors[i]);
    work.bytes += 2 * (uint64_t)(kernels - 1) * mt_tensor_bytes(tensors[0]);
    if (count == 2 && turns(tensors[0], tensors[1]))
        work.bytes *= TURNING;
    mt_op_spend_work(rt, &work);
}

/* Checks an elementwise op: tensors[0] is the output, and gets views[0]; the rest are broadcast to it. */
static bool elementwise(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count,
                        int kernels, struct mtk_view *views)
{
    if (!mt_op_ready(rt, op, tensors, count))
        return false;
    const struct mt_tensor *out = tensors[0];
    views[0] = mt_op_view(out);
    if (!mt_op_expect(rt, !mt_op_repeats(out), op, out, out))
        return false;
    for (int i = 1; i < count; i++) {
        bool fits = mt_op_broadcast(tensors[i], out->dims, out->shape, &views[i]);
        if (!mt_op_expect(rt, fits && mt_op_alias_allowed(out, tensors[i]), op, out, tensors[i]))
            return false;
    }
    mt_use_note(rt, out, tensors + 1, count - 1);
    spend_elementwise(rt, op, tensors, count, kernels);
    return true;
}

void mt_op_fill(struct mt_runtime *rt, struct mt_tensor *out, double value)
{
    struct mtk_view view;
    if (elementwise(rt, "fill", (const struct mt_tensor *[]){out}, 1, 1, &view))
        MT_OP_LAUNCH(rt, "fill", fill, value, &view);
}

void mt_op_unary(struct mt_runtime *rt, mtk_unary_op op, double s, struct mt_tensor *out, const struct mt_tensor *in)
{
    const char *name = OP_NAME(unary_names, op);
    struct mtk_view v[2];
    if (elementwise(rt, name, (const struct mt_tensor *[]){out, in}, 2, kernels_of_unary(op, s), v))
        MT_OP_LAUNCH(rt, name, unary, op, s, &v[0], &v[1]);
    if (op == MTK_COPY && rt->status == MT_OK)
        mt_use_copy(out, in);
}

void mt_op_binary(struct mt_runtime *rt, mtk_binary_op op, double s, struct mt_tensor *out, const struct mt_tensor *a,
                  const struct mt_tensor *b)
{
    const char *name = OP_NAME(binary_names, op);
    struct mtk_view v[3];
    if (elementwise(rt, name, (const struct mt_tensor *[]){out, a, b}, 3, kernels_of_binary(op), v))
        MT_OP_LAUNCH(rt, name, binary, op, s, &v[0], &v[1], &v[2]);
}

void mt_op_ternary(struct mt_runtime *rt, mtk_ternary_op op, double s, double t, struct mt_tensor *out,
                   const struct mt_tensor *a, const struct mt_tensor *b, const struct mt_tensor *c)
{
    const char *name = OP_NAME(ternary_names, op);
    struct mtk_view v[4];
    if (elementwise(rt, name, (const struct mt_tensor *[]){out, a, b, c}, 4, kernels_of_ternary(op), v))
        MT_OP_LAUNCH(rt, name, ternary, op, s, t, &v[0], &v[1], &v[2], &v[3]);
}

void mt_op_reduce(struct mt_runtime *rt, mtk_reduce_op op, struct mt_tensor *out, const struct mt_tensor *in)
{
    const char *name = OP_NAME(reduce_names, op);
    const struct mt_tensor *const tensors[] = {out, in};
    struct mtk_view seen_as_in;
    if (!mt_op_ready(rt, "reduce", tensors, 2))
        return;
    bool fits = mt_op_broadcast(out, in->dims, in->shape, &seen_as_in);
    if (!mt_op_expect(rt, fits && out->storage != in->storage && !mt_op_repeats(out), "reduce", out, in))
        return;
    mt_use_note(rt, out, &in, 1);
    mt_op_spend(rt, name, (double)mt_tensor_count(in), tensors, 2, false);
    MT_OP_LAUNCH(rt, name, reduce, op, MT_OP_VIEW(out), MT_OP_VIEW(in));
}

void mt_op_lower_triangle(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in)
{
    struct mtk_view v[2];
    if (elementwise(rt, "lower_triangle", (const struct mt_tensor *[]){out, in}, 2, 1, v))
        MT_OP_LAUNCH(rt, "lower_triangle", lower_triangle, &v[0], &v[1]);
}

/* True if libraries can read a matrix: its rows or its columns are dense. */
static bool is_readable_matrix(const struct mt_tensor *m)
{
    int row = m->dims - 2, column = m->dims - 1;
    return m->stride[row] == 1 || m->stride[column] == 1 || m->shape[row] == 1 || m->shape[column] == 1;
}

/* True if operands of dtypes `a` and `b` have products of dtype `out`. */
static bool matmul_dtypes_fit(mt_dtype out, mt_dtype a, mt_dtype b)
{
    if (mt_is_fp8(a))
        return mt_is_fp8(b) && (a == MT_F8_E4M3FN || b == MT_F8_E4M3FN) && (out == MT_F32 || out == MT_BF16);
    return a == b && (out == a || (out == MT_F32 && a == MT_BF16));
}

/* True if the last two dimensions fit a product, and the dimensions before are equal. */
static bool matmul_fits(const struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b)
{
    int dims = out->dims;
    return (dims == 3 || dims == 4) && a->dims == dims && b->dims == dims &&
           matmul_dtypes_fit(out->dtype, a->dtype, b->dtype) && out->storage != a->storage &&
           out->storage != b->storage && !mt_op_repeats(out) && is_readable_matrix(out) && is_readable_matrix(a) &&
           is_readable_matrix(b) && mt_tensor_same_leading(out, a, dims - 1) &&
           mt_tensor_same_leading(out, b, dims - 2) && out->shape[dims - 1] == b->shape[dims - 1] &&
           a->shape[dims - 1] == b->shape[dims - 2];
}

/* Returns the current phase's workspace for matrix products, borrowed; NULL if the device is out of memory. */
static const struct mt_tensor *take_workspace(struct mt_runtime *rt)
{
    struct mt_tensor **workspace = &rt->workspaces[rt->phase == MT_PHASE_BACKWARD];
    if (*workspace == NULL) {
        struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_WORKSPACE, "matmul.workspace");
        const int64_t shape[] = {(int64_t)rt->device->card.matmul_workspace_bytes};
        *workspace = mt_tensor_empty(rt, MT_ROLE_WORKSPACE, NULL, MT_U8, 1, shape);
        rt->scope = outer;
    }
    return *workspace;
}

void mt_op_workspaces_release(struct mt_runtime *rt)
{
    for (int i = 0; i < 2; i++)
        mt_tensor_drop(rt, &rt->workspaces[i]);
}

/* Accounts for a product that fits, and launches it. */
static void multiply(struct mt_runtime *rt, const struct mtk_product *product, struct mt_tensor *out,
                     const struct mt_tensor *a, const struct mt_tensor *b)
{
    const struct mt_tensor *workspace = take_workspace(rt);
    if (workspace == NULL)
        return;
    mt_use_scratch(rt, workspace);
    mt_use_note(rt, out, (const struct mt_tensor *[]){a, b, out}, product->beta != 0 ? 3 : 2);
    mt_op_spend(rt, "matmul", 2.0 * (double)mt_tensor_count(out) * (double)a->shape[a->dims - 1],
                (const struct mt_tensor *[]){out, a, b}, 3, true);
    MT_OP_LAUNCH(rt, "matmul", matmul, product, MT_OP_VIEW(out), MT_OP_VIEW(a), MT_OP_VIEW(b), workspace->address,
                 rt->device->card.matmul_workspace_bytes);
}

void mt_op_product(struct mt_runtime *rt, double alpha, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                   const struct mt_tensor *b)
{
    const struct mtk_product product = {.math = rt->math, .alpha = alpha, .beta = beta, .choosing = rt->choosing};
    if (mt_op_ready(rt, "matmul", (const struct mt_tensor *[]){out, a, b}, 3) &&
        mt_op_expect(rt, matmul_fits(out, a, b) && !mt_is_fp8(a->dtype), "matmul", out, a))
        multiply(rt, &product, out, a, b);
}

/* True if products can read the scale, and the fp8 matrix, which must be dense along dimension `dense`. */
static bool fp8_operand_fits(const struct mt_tensor *operand, int dense, const struct mt_tensor *scale)
{
    const int across = 3 - dense;
    return mt_is_fp8(operand->dtype) && operand->dims == 3 && operand->shape[0] == 1 && operand->stride[dense] == 1 &&
           operand->shape[dense] % MTK_FP8_UNIT == 0 && operand->stride[across] % MTK_FP8_UNIT == 0 &&
           operand->address % MTK_FP8_ALIGNMENT == 0 && mt_op_fp8_scale_fits(scale);
}

void mt_op_product_fp8(struct mt_runtime *rt, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                       const struct mt_tensor *a_scale, const struct mt_tensor *b, const struct mt_tensor *b_scale)
{
    const int row = 1, column = 2;
    if (!mt_op_ready(rt, "matmul", (const struct mt_tensor *[]){out, a, b, a_scale, b_scale}, 5) ||
        !mt_op_expect(rt, matmul_fits(out, a, b) && fp8_operand_fits(a, column, a_scale), "matmul", out, a) ||
        !mt_op_expect(rt,
                      fp8_operand_fits(b, row, b_scale) && out->stride[column] == 1 &&
                          out->shape[column] % MTK_FP8_UNIT == 0 && out->address % MTK_FP8_ALIGNMENT == 0,
                      "matmul", out, b))
        return;
    const struct mtk_product product = {.math = rt->math,
                                        .alpha = 1,
                                        .beta = beta,
                                        .choosing = rt->choosing,
                                        .a_scale = a_scale->address,
                                        .b_scale = b_scale->address};
    mt_use_read(rt, a_scale);
    mt_use_read(rt, b_scale);
    multiply(rt, &product, out, a, b);
}

/* Checks an op that selects by an index: `wide` is (…, c), `index` is (…) of int64. */
static bool indexed(struct mt_runtime *rt, const char *op, const struct mt_tensor *wide, const struct mt_tensor *index,
                    const struct mt_tensor *other)
{
    return mt_op_ready(rt, op, (const struct mt_tensor *[]){wide, index, other}, 3) &&
           mt_op_expect(rt,
                        index->dims == wide->dims - 1 && index->dtype == MT_I64 &&
                            mt_tensor_same_leading(index, wide, index->dims),
                        op, wide, index);
}

/* Checks an op that selects rows (…, c) of a table (v, c). */
static bool rows_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *rows, const struct mt_tensor *table,
                     const struct mt_tensor *index)
{
    return indexed(rt, op, rows, index, table) &&
           mt_op_expect(rt,
                        table->dims == 2 && table->shape[1] == rows->shape[rows->dims - 1] &&
                            table->storage != rows->storage,
                        op, rows, table);
}

/* Checks an op that selects one element, of `narrow` (…), from each row of `wide` (…, v). */
static bool elements_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *wide,
                         const struct mt_tensor *index, const struct mt_tensor *narrow)
{
    return indexed(rt, op, wide, index, narrow) &&
           mt_op_expect(rt, mt_tensor_same_shape(narrow, index) && narrow->storage != wide->storage, op, narrow, index);
}

/* Accounts for an op that reads and writes as many elements as `moved` has. */
static void spend_moved(struct mt_runtime *rt, const char *op, const struct mt_tensor *moved)
{
    mt_op_spend(rt, op, (double)mt_tensor_count(moved), (const struct mt_tensor *[]){moved, moved}, 2, false);
}

void mt_op_gather_rows(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *table,
                       const struct mt_tensor *index)
{
    if (!rows_fit(rt, "gather_rows", out, table, index))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){table, index}, 2);
    spend_moved(rt, "gather_rows", out);
    MT_OP_LAUNCH(rt, "gather_rows", gather_rows, MT_OP_VIEW(out), MT_OP_VIEW(table), MT_OP_COLUMN_VIEW(index));
}

void mt_op_scatter_add_rows(struct mt_runtime *rt, struct mt_tensor *table, const struct mt_tensor *index,
                            const struct mt_tensor *in)
{
    if (!rows_fit(rt, "scatter_add_rows", in, table, index))
        return;
    mt_use_note(rt, table, (const struct mt_tensor *[]){table, index, in}, 3);
    spend_moved(rt, "scatter_add_rows", in);
    MT_OP_LAUNCH(rt, "scatter_add_rows", scatter_add_rows, MT_OP_VIEW(table), MT_OP_COLUMN_VIEW(index), MT_OP_VIEW(in));
}

void mt_op_pick(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in, const struct mt_tensor *index)
{
    if (!elements_fit(rt, "pick", in, index, out))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){in, index}, 2);
    spend_moved(rt, "pick", out);
    MT_OP_LAUNCH(rt, "pick", pick, MT_OP_COLUMN_VIEW(out), MT_OP_VIEW(in), MT_OP_COLUMN_VIEW(index));
}

void mt_op_place_add(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *index,
                     const struct mt_tensor *in)
{
    if (!elements_fit(rt, "place_add", out, index, in))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){out, index, in}, 3);
    spend_moved(rt, "place_add", in);
    MT_OP_LAUNCH(rt, "place_add", place_add, MT_OP_VIEW(out), MT_OP_COLUMN_VIEW(index), MT_OP_COLUMN_VIEW(in));
}

void mt_op_rotate(struct mt_runtime *rt, double theta, int direction, struct mt_tensor *out, const struct mt_tensor *in)
{
    struct mtk_view v[2];
    assert(direction == 1 || direction == -1);
    if (out != NULL && in != NULL &&
        !mt_op_expect(rt, out->dims >= 2 && out->shape[out->dims - 1] % 2 == 0, "rotate", out, in))
        return;
    if (elementwise(rt, "rotate", (const struct mt_tensor *[]){out, in}, 2, 1, v))
        MT_OP_LAUNCH(rt, "rotate", rotate, theta, direction, &v[0], &v[1]);
}

void mt_op_random(struct mt_runtime *rt, struct mt_tensor *out, uint64_t generator, double center, double spread)
{
    struct mtk_view view;
    if (out != NULL && !mt_op_expect(rt, mt_tensor_is_contiguous(out), "random", out, out))
        return;
    if (elementwise(rt, "random", (const struct mt_tensor *[]){out}, 1, 1, &view))
        MT_OP_LAUNCH(rt, "random", random, generator, center, spread, &view);
}
