#include "model/ops.h"

#include "base/text.h"
#include "model/op_rules.h"
#include "model/use.h"

#include <stdio.h>
#include <string.h>

static const char *const unary_names[] = {"copy",       "neg",        "abs",         "exp",   "sqrt",
                                          "rsqrt",      "sigmoid",    "log",         "power", "add_scalar",
                                          "mul_scalar", "div_scalar", "equal_scalar"};
static const char *const binary_names[] = {"add", "sub", "mul", "div", "equal", "sigmoid_grad", "lerp", "lerp_square"};
static const char *const ternary_names[] = {"select", "add_quotient"};
static const char *const reduce_names[] = {"sum", "mean", "max"};

/* The view of `tensor` broadcast to `dims` dimensions of `shape`, padded to the kernels' four. False if it can't be. */
static bool broadcast_view(const struct mt_tensor *tensor, int dims, const int64_t *shape, struct mtk_view *out)
{
    *out = (struct mtk_view){.address = tensor->address, .dtype = tensor->dtype, .shape = {1, 1, 1, 1}};
    if (tensor->dims > dims)
        return false;
    for (int i = 0; i < dims; i++) {
        int to = MT_MAX_DIMS - 1 - i, from = tensor->dims - 1 - i;
        int64_t size = shape[dims - 1 - i];
        out->shape[to] = size;
        if (from < 0 || tensor->shape[from] == 1)
            continue;
        if (tensor->shape[from] != size)
            return false;
        out->stride[to] = tensor->stride[from];
    }
    return true;
}

struct mtk_view mt_op_view(const struct mt_tensor *tensor)
{
    struct mtk_view view;
    broadcast_view(tensor, tensor->dims, tensor->shape, &view);
    return view;
}

/* The view of `tensor` with a last dimension of 1 added: an index beside what it selects. */
struct mtk_view mt_op_column_view(const struct mt_tensor *tensor)
{
    struct mtk_view view = mt_op_view(tensor);
    memmove(view.shape, view.shape + 1, (MT_MAX_DIMS - 1) * sizeof view.shape[0]);
    memmove(view.stride, view.stride + 1, (MT_MAX_DIMS - 1) * sizeof view.stride[0]);
    view.shape[MT_MAX_DIMS - 1] = 1;
    view.stride[MT_MAX_DIMS - 1] = 0;
    return view;
}

static const char *shape_text(const struct mt_tensor *tensor, struct mt_text *text)
{
    for (int i = 0; i < tensor->dims; i++)
        mt_text_add(text, "%s%lld", i > 0 ? "," : "", (long long)tensor->shape[i]);
    return mt_text_get(text);
}

void mt_op_fail_shapes(struct mt_runtime *rt, const char *op, const struct mt_tensor *out, const struct mt_tensor *in)
{
    struct mt_text out_text = {0}, in_text = {0};
    mt_runtime_fail(rt, mt_fail(MT_FAILED, "%s: operand (%s) of %s does not fit output (%s) of %s", op,
                                shape_text(in, &in_text), mt_dtype_name(in->dtype), shape_text(out, &out_text),
                                mt_dtype_name(out->dtype)));
    mt_text_release(&out_text);
    mt_text_release(&in_text);
}

/* Whether an op may run at all: nothing has failed and every tensor is there and alive. */
bool mt_op_ready(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count)
{
    if (rt->status != MT_OK)
        return false;
    for (int i = 0; i < count; i++) {
        if (tensors[i] != NULL && tensors[i]->references > 0 && tensors[i]->storage->references > 0)
            continue;
        mt_runtime_fail(rt, mt_fail(MT_FAILED, "%s: operand %d is not alive", op, i));
        return false;
    }
    return true;
}

/* An operand may share memory with the output only if it is the very same view of it. */
bool mt_op_alias_allowed(const struct mt_tensor *out, const struct mt_tensor *in)
{
    if (out->storage != in->storage)
        return true;
    return out->address == in->address && out->dtype == in->dtype && mt_tensor_same_shape(out, in) &&
           memcmp(out->stride, in->stride, (size_t)out->dims * sizeof out->stride[0]) == 0;
}

/* Whether several elements of a tensor are one in memory: then it can't be written. */
static bool repeats(const struct mt_tensor *tensor)
{
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->shape[i] > 1 && tensor->stride[i] == 0)
            return true;
    return false;
}

void mt_op_spend(struct mt_runtime *rt, double operations, const struct mt_tensor *const *tensors, int count,
                 bool matrix_product)
{
    struct mt_work work = {.operations = operations,
                           .dtype = tensors[count - 1]->dtype,
                           .math = rt->math,
                           .matrix_product = matrix_product};
    for (int i = 0; i < count; i++)
        work.bytes += mt_tensor_bytes(tensors[i]);
    mt_device_spend(rt->device, &work);
}

/* Whether `op` is to be launched; then kernels that are watched belong to it and to the current scope. */
bool mt_op_launches(struct mt_runtime *rt, const char *op)
{
    char text[MT_OP_TEXT];
    if (!mt_device_executes(rt->device))
        return false;
    if (!mt_device_watches_kernels(rt->device))
        return true;
    snprintf(text, sizeof text, "%s.%s", rt->scope.op, op);
    struct mt_label label = {.category = rt->scope.category,
                             .role = MT_ROLE_TEMPORARY,
                             .phase = rt->phase,
                             .op = text,
                             .span = rt->scope.span,
                             .layer = rt->scope.layer};
    mt_device_tag(rt->device, mt_alloc_intern_label(rt->alloc, &label));
    return true;
}

/* Keeps a launch's error. */
void mt_op_launched(struct mt_runtime *rt, const char *op, mt_status status)
{
    if (status != MT_OK)
        mt_runtime_fail(rt, mt_fail_context(status, "%s", op));
}

/* Checks an elementwise op: tensors[0] is the output, and gets views[0]; the rest are broadcast to it. */
static bool elementwise(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count,
                        struct mtk_view *views)
{
    if (!mt_op_ready(rt, op, tensors, count))
        return false;
    const struct mt_tensor *out = tensors[0];
    views[0] = mt_op_view(out);
    if (repeats(out)) {
        mt_op_fail_shapes(rt, op, out, out);
        return false;
    }
    for (int i = 1; i < count; i++) {
        if (broadcast_view(tensors[i], out->dims, out->shape, &views[i]) && mt_op_alias_allowed(out, tensors[i]))
            continue;
        mt_op_fail_shapes(rt, op, out, tensors[i]);
        return false;
    }
    mt_use_note(rt, out, tensors + 1, count - 1);
    mt_op_spend(rt, (double)mt_tensor_count(out), tensors, count, false);
    return mt_op_launches(rt, op);
}

void mt_op_fill(struct mt_runtime *rt, struct mt_tensor *out, double value)
{
    struct mtk_view view;
    if (elementwise(rt, "fill", (const struct mt_tensor *[]){out}, 1, &view))
        mt_op_launched(rt, "fill", rt->device->kernels->fill(value, &view, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_unary(struct mt_runtime *rt, mtk_unary_op op, double s, struct mt_tensor *out, const struct mt_tensor *in)
{
    struct mtk_view v[2];
    if (elementwise(rt, unary_names[op], (const struct mt_tensor *[]){out, in}, 2, v))
        mt_op_launched(rt, unary_names[op],
                       rt->device->kernels->unary(op, s, &v[0], &v[1], mt_device_queue(rt->device, rt->stream)));
    if (op == MTK_COPY && rt->status == MT_OK)
        mt_use_copy(out, in);
}

void mt_op_binary(struct mt_runtime *rt, mtk_binary_op op, double s, struct mt_tensor *out, const struct mt_tensor *a,
                  const struct mt_tensor *b)
{
    struct mtk_view v[3];
    if (elementwise(rt, binary_names[op], (const struct mt_tensor *[]){out, a, b}, 3, v))
        mt_op_launched(
            rt, binary_names[op],
            rt->device->kernels->binary(op, s, &v[0], &v[1], &v[2], mt_device_queue(rt->device, rt->stream)));
}

void mt_op_ternary(struct mt_runtime *rt, mtk_ternary_op op, double s, double t, struct mt_tensor *out,
                   const struct mt_tensor *a, const struct mt_tensor *b, const struct mt_tensor *c)
{
    struct mtk_view v[4];
    if (elementwise(rt, ternary_names[op], (const struct mt_tensor *[]){out, a, b, c}, 4, v))
        mt_op_launched(rt, ternary_names[op],
                       rt->device->kernels->ternary(op, s, t, &v[0], &v[1], &v[2], &v[3],
                                                    mt_device_queue(rt->device, rt->stream)));
}

void mt_op_reduce(struct mt_runtime *rt, mtk_reduce_op op, struct mt_tensor *out, const struct mt_tensor *in)
{
    const struct mt_tensor *const tensors[] = {out, in};
    struct mtk_view seen_as_in, out_view;
    if (!mt_op_ready(rt, "reduce", tensors, 2))
        return;
    if (!broadcast_view(out, in->dims, in->shape, &seen_as_in) || out->storage == in->storage || repeats(out)) {
        mt_op_fail_shapes(rt, "reduce", out, in);
        return;
    }
    mt_use_note(rt, out, &in, 1);
    mt_op_spend(rt, (double)mt_tensor_count(in), tensors, 2, false);
    out_view = mt_op_view(out);
    struct mtk_view in_view = mt_op_view(in);
    if (mt_op_launches(rt, reduce_names[op]))
        mt_op_launched(rt, reduce_names[op],
                       rt->device->kernels->reduce(op, &out_view, &in_view, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_lower_triangle(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in)
{
    struct mtk_view v[2];
    if (elementwise(rt, "lower_triangle", (const struct mt_tensor *[]){out, in}, 2, v))
        mt_op_launched(rt, "lower_triangle",
                       rt->device->kernels->lower_triangle(&v[0], &v[1], mt_device_queue(rt->device, rt->stream)));
}

/* A matrix that libraries can read has rows or columns that are dense. */
static bool is_readable_matrix(const struct mt_tensor *m)
{
    int row = m->dims - 2, column = m->dims - 1;
    return m->stride[row] == 1 || m->stride[column] == 1 || m->shape[row] == 1 || m->shape[column] == 1;
}

/* The last two dimensions are a matrix's; those before are equal. */
static bool matmul_fits(const struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b)
{
    int dims = out->dims;
    bool fits = (dims == 3 || dims == 4) && a->dims == dims && b->dims == dims && a->dtype == b->dtype &&
                (out->dtype == a->dtype || (out->dtype == MT_F32 && a->dtype == MT_BF16)) &&
                out->storage != a->storage && out->storage != b->storage && !repeats(out) && is_readable_matrix(out) &&
                is_readable_matrix(a) && is_readable_matrix(b);
    for (int i = 0; fits && i < dims - 2; i++)
        fits = out->shape[i] == a->shape[i] && out->shape[i] == b->shape[i];
    return fits && out->shape[dims - 2] == a->shape[dims - 2] && out->shape[dims - 1] == b->shape[dims - 1] &&
           a->shape[dims - 1] == b->shape[dims - 2];
}

void mt_op_product(struct mt_runtime *rt, double alpha, double beta, struct mt_tensor *out, const struct mt_tensor *a,
                   const struct mt_tensor *b)
{
    const struct mt_tensor *const tensors[] = {out, a, b};
    if (!mt_op_ready(rt, "matmul", tensors, 3))
        return;
    if (!matmul_fits(out, a, b)) {
        mt_op_fail_shapes(rt, "matmul", out, a);
        return;
    }
    const struct mt_tensor *workspace = mt_runtime_workspace(rt);
    if (workspace == NULL)
        return;
    mt_use_scratch(rt, workspace);
    mt_use_note(rt, out, (const struct mt_tensor *[]){a, b, out}, beta != 0 ? 3 : 2);
    mt_op_spend(rt, 2.0 * (double)mt_tensor_count(out) * (double)a->shape[a->dims - 1], tensors, 3, true);
    const struct mtk_product product = {.math = rt->math, .alpha = alpha, .beta = beta, .choosing = rt->choosing};
    struct mtk_view out_view = mt_op_view(out), a_view = mt_op_view(a), b_view = mt_op_view(b);
    if (mt_op_launches(rt, "matmul"))
        mt_op_launched(rt, "matmul",
                       rt->device->kernels->matmul(&product, &out_view, &a_view, &b_view, workspace->address,
                                                   MT_MATMUL_WORKSPACE_BYTES, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_matmul(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b)
{
    mt_op_product(rt, 1, 0, out, a, b);
}

/* Checks an op that selects by an index: `wide` is (…, c), `index` and, if there is one, `narrow` are (…). */
static bool indexed(struct mt_runtime *rt, const char *op, const struct mt_tensor *wide, const struct mt_tensor *index,
                    const struct mt_tensor *other)
{
    const struct mt_tensor *const tensors[] = {wide, index, other};
    if (!mt_op_ready(rt, op, tensors, 3))
        return false;
    bool leading = index->dims == wide->dims - 1 && index->dtype == MT_I64;
    for (int i = 0; leading && i < index->dims; i++)
        leading = index->shape[i] == wide->shape[i];
    if (!leading) {
        mt_op_fail_shapes(rt, op, wide, index);
        return false;
    }
    return true;
}

/* Costs of an op that touches as many elements as `moved` has, of `moved` and of what it selects from. */
static bool spend_moved(struct mt_runtime *rt, const char *op, const struct mt_tensor *moved)
{
    const struct mt_tensor *const tensors[] = {moved, moved};
    mt_op_spend(rt, (double)mt_tensor_count(moved), tensors, 2, false);
    return mt_op_launches(rt, op);
}

static bool rows_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *rows, const struct mt_tensor *table,
                     const struct mt_tensor *index)
{
    if (!indexed(rt, op, rows, index, table))
        return false;
    if (table->dims != 2 || table->shape[1] != rows->shape[rows->dims - 1] || table->storage == rows->storage) {
        mt_op_fail_shapes(rt, op, rows, table);
        return false;
    }
    return true;
}

void mt_op_gather_rows(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *table,
                       const struct mt_tensor *index)
{
    if (!rows_fit(rt, "gather_rows", out, table, index))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){table, index}, 2);
    if (!spend_moved(rt, "gather_rows", out))
        return;
    struct mtk_view out_view = mt_op_view(out), table_view = mt_op_view(table), index_view = mt_op_column_view(index);
    mt_op_launched(
        rt, "gather_rows",
        rt->device->kernels->gather_rows(&out_view, &table_view, &index_view, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_scatter_add_rows(struct mt_runtime *rt, struct mt_tensor *table, const struct mt_tensor *index,
                            const struct mt_tensor *in)
{
    if (!rows_fit(rt, "scatter_add_rows", in, table, index))
        return;
    mt_use_note(rt, table, (const struct mt_tensor *[]){table, index, in}, 3);
    if (!spend_moved(rt, "scatter_add_rows", in))
        return;
    struct mtk_view table_view = mt_op_view(table), in_view = mt_op_view(in), index_view = mt_op_column_view(index);
    mt_op_launched(rt, "scatter_add_rows",
                   rt->device->kernels->scatter_add_rows(&table_view, &index_view, &in_view,
                                                         mt_device_queue(rt->device, rt->stream)));
}

static bool elements_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *wide,
                         const struct mt_tensor *index, const struct mt_tensor *narrow)
{
    if (!indexed(rt, op, wide, index, narrow))
        return false;
    if (!mt_tensor_same_shape(narrow, index) || narrow->storage == wide->storage) {
        mt_op_fail_shapes(rt, op, narrow, index);
        return false;
    }
    return true;
}

void mt_op_pick(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in, const struct mt_tensor *index)
{
    if (!elements_fit(rt, "pick", in, index, out))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){in, index}, 2);
    if (!spend_moved(rt, "pick", out))
        return;
    struct mtk_view out_view = mt_op_column_view(out), in_view = mt_op_view(in), index_view = mt_op_column_view(index);
    mt_op_launched(
        rt, "pick",
        rt->device->kernels->pick(&out_view, &in_view, &index_view, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_place_add(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *index,
                     const struct mt_tensor *in)
{
    if (!elements_fit(rt, "place_add", out, index, in))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){out, index, in}, 3);
    if (!spend_moved(rt, "place_add", in))
        return;
    struct mtk_view out_view = mt_op_view(out), in_view = mt_op_column_view(in), index_view = mt_op_column_view(index);
    mt_op_launched(
        rt, "place_add",
        rt->device->kernels->place_add(&out_view, &index_view, &in_view, mt_device_queue(rt->device, rt->stream)));
}

void mt_op_rotate(struct mt_runtime *rt, double theta, int direction, struct mt_tensor *out, const struct mt_tensor *in)
{
    if (out != NULL && in != NULL && (out->dims < 2 || out->shape[out->dims - 1] % 2 != 0)) {
        mt_op_fail_shapes(rt, "rotate", out, in);
        return;
    }
    struct mtk_view v[2];
    if (elementwise(rt, "rotate", (const struct mt_tensor *[]){out, in}, 2, v))
        mt_op_launched(
            rt, "rotate",
            rt->device->kernels->rotate(theta, direction, &v[0], &v[1], mt_device_queue(rt->device, rt->stream)));
}

void mt_op_random(struct mt_runtime *rt, struct mt_tensor *out, uint64_t generator, double center, double spread)
{
    if (out != NULL && !mt_tensor_is_contiguous(out)) {
        mt_op_fail_shapes(rt, "random", out, out);
        return;
    }
    struct mtk_view view;
    if (elementwise(rt, "random", (const struct mt_tensor *[]){out}, 1, &view))
        mt_op_launched(
            rt, "random",
            rt->device->kernels->random(generator, center, spread, &view, mt_device_queue(rt->device, rt->stream)));
}
