/* The ops of attention that are more than arithmetic on elements: softmax by rows, attention as a whole, their gradients.
 * A device may lack their kernels; one that computes then refuses. */
#include "model/op_rules.h"

#include "model/use.h"

#include <string.h>

/* Whether the device computes nothing, or has a kernel for the op. */
static bool is_known(struct mt_runtime *rt, const char *op, bool has_kernel)
{
    if (has_kernel)
        return true;
    mt_runtime_fail(rt, mt_fail(MT_USAGE, "%s: the kernels of %s have none for it; attention custom does without", op,
                                rt->device->name));
    return false;
}

/* Whether `column` has one element for each row of `wide`, in the dtype of sums. */
static bool is_column_of(const struct mt_tensor *column, const struct mt_tensor *wide)
{
    bool fits = column->dims == wide->dims && column->shape[column->dims - 1] == 1 &&
                column->dtype == mt_sum_dtype(wide->dtype);
    for (int i = 0; fits && i < wide->dims - 1; i++)
        fits = column->shape[i] == wide->shape[i];
    return fits && column->storage != wide->storage;
}

/* What a softmax and its gradient have in common: tensors[0] is the output, and gets views[0]; lse may be NULL. */
static bool softmax_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count,
                         const struct mt_tensor *lse, struct mtk_view *views)
{
    if (!mt_op_ready(rt, op, tensors, count) || (lse != NULL && !mt_op_ready(rt, op, &lse, 1)))
        return false;
    for (int i = 0; i < count; i++) {
        views[i] = mt_op_view(tensors[i]);
        if (mt_tensor_same_shape(tensors[0], tensors[i]) && mt_op_alias_allowed(tensors[0], tensors[i]))
            continue;
        mt_op_fail_shapes(rt, op, tensors[0], tensors[i]);
        return false;
    }
    if (lse != NULL && !is_column_of(lse, tensors[0])) {
        mt_op_fail_shapes(rt, op, lse, tensors[0]);
        return false;
    }
    return true;
}

void mt_op_softmax(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out, struct mt_tensor *lse,
                   const struct mt_tensor *in)
{
    const struct mt_tensor *const tensors[] = {out, in};
    struct mtk_view v[2];
    if (!softmax_fits(rt, "softmax", tensors, 2, lse, v))
        return;
    mt_use_note(rt, out, &in, 1);
    if (lse != NULL)
        mt_use_write(rt, lse);
    mt_op_spend(rt, (double)mt_tensor_count(out), tensors, 2, false);
    if (!mt_op_launches(rt, "softmax") || !is_known(rt, "softmax", rt->device->kernels->softmax != NULL))
        return;
    struct mtk_view lse_view = lse != NULL ? mt_op_view(lse) : (struct mtk_view){0};
    mt_op_launched(rt, "softmax",
                   rt->device->kernels->softmax(scale, keys, &v[0], lse != NULL ? &lse_view : NULL, &v[1],
                                                mt_device_queue(rt->device, rt->stream)));
}

void mt_op_softmax_grad(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                        const struct mt_tensor *grad, const struct mt_tensor *kept, const struct mt_tensor *lse)
{
    const struct mt_tensor *const tensors[] = {out, grad, kept};
    struct mtk_view v[3];
    if (!softmax_fits(rt, "softmax_grad", tensors, 3, lse, v))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){grad, kept, lse}, lse != NULL ? 3 : 2);
    mt_op_spend(rt, (double)mt_tensor_count(out), tensors, 3, false);
    if (!mt_op_launches(rt, "softmax_grad") || !is_known(rt, "softmax_grad", rt->device->kernels->softmax_grad != NULL))
        return;
    struct mtk_view lse_view = lse != NULL ? mt_op_view(lse) : (struct mtk_view){0};
    mt_op_launched(rt, "softmax_grad",
                   rt->device->kernels->softmax_grad(scale, keys, &v[0], &v[1], &v[2], lse != NULL ? &lse_view : NULL,
                                                     mt_device_queue(rt->device, rt->stream)));
}

/* Whether `head` is shaped as q, of its dtype, with dense rows of a size that kernels know. */
static bool is_head_like(const struct mt_tensor *head, const struct mt_tensor *q)
{
    return head->dims == 4 && q->dims == 4 && head->dtype == q->dtype && mt_tensor_same_shape(head, q) &&
           head->shape[3] <= MTK_MOST_HEAD_FEATURES && (head->stride[3] == 1 || head->shape[3] == 1);
}

/* Whether two heads alike are different columns of the same rows, as of a product that has several side by side. */
static bool lie_side_by_side(const struct mt_tensor *a, const struct mt_tensor *b)
{
    int64_t width = a->shape[1] * a->shape[3], row = a->stride[2];
    mt_addr apart = a->address > b->address ? a->address - b->address : b->address - a->address;
    int64_t columns = (int64_t)(apart / mt_dtype_bytes(a->dtype));
    return memcmp(a->stride, b->stride, (size_t)a->dims * sizeof a->stride[0]) == 0 && a->stride[1] == a->shape[3] &&
           columns >= width && columns + width <= row;
}

/* Checks an op of attention: heads[0] is q, of the others the last `written` are outputs, which share no memory with
 * operands, and with each other only as columns of the same rows. */
static bool heads_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *heads, int count,
                      int written)
{
    if (!mt_op_ready(rt, op, heads, count))
        return false;
    for (int i = 0; i < count; i++) {
        bool fits = is_head_like(heads[i], heads[0]);
        for (int j = i >= count - written ? 0 : i; fits && j < i; j++)
            fits = heads[i]->storage != heads[j]->storage ||
                   (j >= count - written && lie_side_by_side(heads[i], heads[j]));
        if (fits)
            continue;
        mt_op_fail_shapes(rt, op, heads[0], heads[i]);
        return false;
    }
    return true;
}

static bool columns_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *columns, int count,
                        const struct mt_tensor *q)
{
    if (!mt_op_ready(rt, op, columns, count))
        return false;
    for (int i = 0; i < count; i++) {
        if (is_column_of(columns[i], q))
            continue;
        mt_op_fail_shapes(rt, op, columns[i], q);
        return false;
    }
    return true;
}

/* Operations of `products` products of every query with every key up to it. */
static double causal_operations(const struct mt_tensor *q, int products)
{
    return products * 2.0 * (double)mt_tensor_count(q) * (double)q->shape[2] / 2;
}

/* fp32 that may not be rounded is multiplied elsewhere. */
static bool on_matrix_units(const struct mt_runtime *rt, const struct mt_tensor *q)
{
    return q->dtype == MT_BF16 || (q->dtype == MT_F32 && rt->math == MTK_MATH_TF32);
}

void mt_op_attention(struct mt_runtime *rt, const struct mt_attention *a)
{
    const struct mt_tensor *const heads[] = {a->q, a->k, a->v, a->out};
    const struct mt_tensor *const lse[] = {a->lse};
    if (!heads_fit(rt, "attention", heads, 4, 1) || (a->lse != NULL && !columns_fit(rt, "attention", lse, 1, a->q)))
        return;
    mt_use_note(rt, a->out, heads, 3);
    if (a->lse != NULL)
        mt_use_write(rt, a->lse);
    mt_op_spend(rt, causal_operations(a->q, 2), heads, 4, on_matrix_units(rt, a->q));
    if (!mt_op_launches(rt, "attention") || !is_known(rt, "attention", rt->device->kernels->attention != NULL))
        return;
    struct mtk_view q = mt_op_view(a->q), k = mt_op_view(a->k), v = mt_op_view(a->v), out = mt_op_view(a->out);
    struct mtk_view lse_view = a->lse != NULL ? mt_op_view(a->lse) : (struct mtk_view){0};
    mt_op_launched(rt, "attention",
                   rt->device->kernels->attention(a->scale, rt->math, &out, a->lse != NULL ? &lse_view : NULL, &q, &k,
                                                  &v, mt_device_queue(rt->device, rt->stream)));
}

/* The keys' and values' gradients take the products of queries with keys, and of the gradient with values, and so do the
 * queries' a second time: seven products in all. */
void mt_op_attention_grad(struct mt_runtime *rt, const struct mt_attention *a)
{
    const struct mt_tensor *const heads[] = {a->q, a->k, a->v, a->grad, a->out, a->dq, a->dk, a->dv};
    const struct mt_tensor *const columns[] = {a->lse, a->delta};
    if (!heads_fit(rt, "attention_grad", heads, 8, 3) || !columns_fit(rt, "attention_grad", columns, 2, a->q))
        return;
    if (a->lse->storage == a->delta->storage) {
        mt_op_fail_shapes(rt, "attention_grad", a->delta, a->lse);
        return;
    }
    mt_use_note(rt, a->dq, (const struct mt_tensor *[]){a->q, a->k, a->v, a->grad, a->out, a->lse}, 6);
    mt_use_write(rt, a->dk);
    mt_use_write(rt, a->dv);
    mt_use_scratch(rt, a->delta);
    mt_op_spend(rt, causal_operations(a->q, 7), heads, 8, on_matrix_units(rt, a->q));
    if (!mt_op_launches(rt, "attention_grad") ||
        !is_known(rt, "attention_grad", rt->device->kernels->attention_grad != NULL))
        return;
    const struct mtk_attention_grad call = {.scale = a->scale,
                                            .math = rt->math,
                                            .dq = mt_op_view(a->dq),
                                            .dk = mt_op_view(a->dk),
                                            .dv = mt_op_view(a->dv),
                                            .delta = mt_op_view(a->delta),
                                            .grad = mt_op_view(a->grad),
                                            .q = mt_op_view(a->q),
                                            .k = mt_op_view(a->k),
                                            .v = mt_op_view(a->v),
                                            .out = mt_op_view(a->out),
                                            .lse = mt_op_view(a->lse)};
    mt_op_launched(rt, "attention_grad",
                   rt->device->kernels->attention_grad(&call, mt_device_queue(rt->device, rt->stream)));
}
