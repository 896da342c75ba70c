/* Attention ops beyond elementwise arithmetic: softmax by rows, attention as a whole, their
 * gradients. They fail if a device that computes lacks their kernels. */
#include "kernels/attention_plan.h"
#include "producers/model/op_rules.h"
#include "producers/model/ops.h"

static void fail_without_kernel(struct mt_runtime *rt, const char *op)
{
    mt_runtime_fail(
        rt, mt_fail(MT_USAGE, "%s: %s has no kernel for it; attention custom needs none", op, rt->device->name));
}

/* Calls the kernel as MT_OP_LAUNCH does, or fails with MT_USAGE if the device computes and lacks it. */
#define LAUNCH(rt, op, kernel, ...)                                                                                    \
    do {                                                                                                               \
        if (mt_device_executes((rt)->device) && (rt)->device->kernels->kernel == NULL)                                 \
            fail_without_kernel((rt), (op));                                                                           \
        else                                                                                                           \
            MT_OP_LAUNCH(rt, op, kernel, __VA_ARGS__);                                                                 \
    } while (0)

/* True if `column` has one element for each row of `wide`, in the dtype of sums. */
static bool is_column_of(const struct mt_tensor *column, const struct mt_tensor *wide)
{
    int last = wide->dims - 1;
    return column->dims == wide->dims && column->shape[last] == 1 && column->dtype == mt_sum_dtype(wide->dtype) &&
           mt_tensor_same_leading(column, wide, last) && column->storage != wide->storage;
}

/* Checks that each column is a column of `wide`. */
static bool columns_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *columns, int count,
                        const struct mt_tensor *wide)
{
    if (!mt_op_ready(rt, op, columns, count))
        return false;
    for (int i = 0; i < count; i++)
        if (!mt_op_expect(rt, is_column_of(columns[i], wide), op, columns[i], wide))
            return false;
    return true;
}

/* Checks a softmax or its gradient: tensors[0] is the output, and gets views[0]. */
static bool softmax_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count,
                         struct mtk_view *views)
{
    if (!mt_op_ready(rt, op, tensors, count))
        return false;
    for (int i = 0; i < count; i++) {
        bool fits = mt_tensor_same_shape(tensors[0], tensors[i]) && mt_op_alias_allowed(tensors[0], tensors[i]);
        if (!mt_op_expect(rt, fits, op, tensors[0], tensors[i]))
            return false;
        views[i] = mt_op_view(tensors[i]);
    }
    return true;
}

void mt_op_softmax(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                   const struct mt_tensor *in)
{
    const struct mt_tensor *const tensors[] = {out, in};
    struct mtk_view v[2];
    if (!softmax_fits(rt, "softmax", tensors, 2, v))
        return;
    mt_use_note(rt, out, &in, 1);
    mt_op_spend(rt, "softmax", (double)mt_tensor_count(out), tensors, 2, false);
    LAUNCH(rt, "softmax", softmax, scale, keys, &v[0], &v[1]);
}

void mt_op_softmax_grad(struct mt_runtime *rt, double scale, mtk_keys keys, struct mt_tensor *out,
                        const struct mt_tensor *grad, const struct mt_tensor *weights)
{
    const char *op = "softmax_grad";
    const struct mt_tensor *const tensors[] = {out, grad, weights};
    struct mtk_view v[3];
    if (!softmax_fits(rt, op, tensors, 3, v))
        return;
    mt_use_note(rt, out, (const struct mt_tensor *[]){grad, weights}, 2);
    mt_op_spend(rt, op, (double)mt_tensor_count(out), tensors, 3, false);
    LAUNCH(rt, op, softmax_grad, scale, keys, &v[0], &v[1], &v[2]);
}

/* Operations for a score of attention, a pair of a query and a key, that its products do not hide. Fitted to bf16
 * kernels on an H200 with heads of 64, 80 and 128 features and 2,048 to 16,384 tokens (docs/measurements.md). With
 * them, estimates are 0.74 to 1.21 of the measured times; without them 0.49 to 0.98. */
static const double OF_SCORE_FORWARD = 12, OF_SCORE_BACKWARD = 40;

/* True if `head` has the shape and dtype of q, with dense rows of a size that kernels know. */
static bool is_head_like(const struct mt_tensor *head, const struct mt_tensor *q)
{
    return head->dims == 4 && q->dims == 4 && head->dtype == q->dtype && mt_tensor_same_shape(head, q) &&
           head->shape[3] <= MTK_MOST_HEAD_FEATURES && (head->stride[3] == 1 || head->shape[3] == 1);
}

/* True if two heads of one shape are different columns of the same rows, as in the product of several weights that are
 * stored together. */
static bool lie_side_by_side(const struct mt_tensor *a, const struct mt_tensor *b)
{
    int64_t width = a->shape[1] * a->shape[3], row = a->stride[2];
    mt_addr apart = a->address > b->address ? a->address - b->address : b->address - a->address;
    int64_t columns = (int64_t)(apart / mt_dtype_bytes(a->dtype));
    return mt_tensor_same_strides(a, b) && a->stride[1] == a->shape[3] && columns >= width && columns + width <= row;
}

/* True if heads[i] is like q = heads[0], and no output shares memory with an operand. The last `written` heads are
 * outputs; two of them share memory only as columns of the same rows. */
static bool head_fits(const struct mt_tensor *const *heads, int count, int written, int i)
{
    int first_output = count - written;
    bool fits = is_head_like(heads[i], heads[0]);
    for (int j = i >= first_output ? 0 : i; fits && j < i; j++)
        fits = heads[i]->storage != heads[j]->storage || (j >= first_output && lie_side_by_side(heads[i], heads[j]));
    return fits;
}

/* Checks the heads of an op of attention. */
static bool heads_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *heads, int count,
                      int written)
{
    if (!mt_op_ready(rt, op, heads, count))
        return false;
    for (int i = 0; i < count; i++)
        if (!mt_op_expect(rt, head_fits(heads, count, written, i), op, heads[0], heads[i]))
            return false;
    return true;
}

/* True if matrix units compute the products. fp32 without rounding to tf32 is multiplied elsewhere. */
static bool on_matrix_units(const struct mt_runtime *rt, const struct mt_tensor *q)
{
    return q->dtype == MT_BF16 || (q->dtype == MT_F32 && rt->math == MTK_MATH_TF32);
}

/* Accounts for attention as one op over heads that begin with q: `products` products of every query with every key up
 * to it, and `of_score` operations of fp32 for each of these pairs. */
static void spend(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *heads, int count, int products,
                  double of_score)
{
    const struct mt_tensor *q = heads[0];
    double scores = (double)(q->shape[0] * q->shape[1]) * (double)q->shape[2] * (double)q->shape[2] / 2;
    struct mt_work work =
        mt_op_work(rt, op, products * 2 * scores * (double)q->shape[3], heads, count, on_matrix_units(rt, q));
    work.besides = of_score * scores;
    mt_op_spend_work(rt, &work);
}

void mt_op_attention(struct mt_runtime *rt, const struct mt_attention *a)
{
    const struct mt_tensor *const heads[] = {a->q, a->k, a->v, a->out};
    const struct mt_tensor *const lse = a->lse;
    if (!heads_fit(rt, "attention", heads, 4, 1) || (lse != NULL && !columns_fit(rt, "attention", &lse, 1, a->q)))
        return;
    mt_use_note(rt, a->out, heads, 3);
    mt_use_write(rt, lse);
    spend(rt, "attention", heads, 4, 2, OF_SCORE_FORWARD);
    LAUNCH(rt, "attention", attention, a->scale, rt->math, MT_OP_VIEW(a->out), MT_OP_OPTIONAL_VIEW(lse),
           MT_OP_VIEW(a->q), MT_OP_VIEW(a->k), MT_OP_VIEW(a->v));
}

static struct mtk_attention_grad gradient_call(const struct mt_runtime *rt, const struct mt_attention *a)
{
    return (struct mtk_attention_grad){.scale = a->scale,
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
}

/* Allocates the card's workspace for a call. The caller owns it; NULL if the card needs none. */
static struct mt_tensor *take_workspace(struct mt_runtime *rt, uint64_t bytes)
{
    if (bytes == 0)
        return NULL;
    struct mt_scope outer = mt_scope_category(rt, MT_CATEGORY_WORKSPACE, "attention.workspace");
    struct mt_tensor *workspace =
        mt_tensor_empty(rt, MT_ROLE_WORKSPACE, NULL, MT_U8, 1, (const int64_t[]){(int64_t)bytes});
    rt->scope = outer;
    return workspace;
}

/* Five products in one pass over queries and keys, or seven in two. The gradients of keys and values need the products
 * of queries with keys, and of the gradient with values; in two passes, the queries' gradients compute both again. */
void mt_op_attention_grad(struct mt_runtime *rt, const struct mt_attention *a)
{
    const char *op = "attention_grad";
    const struct mt_tensor *const heads[] = {a->q, a->k, a->v, a->grad, a->out, a->dq, a->dk, a->dv};
    const struct mt_tensor *const columns[] = {a->lse, a->delta};
    if (!heads_fit(rt, op, heads, 8, 3) || !columns_fit(rt, op, columns, 2, a->q) ||
        !mt_op_expect(rt, a->lse->storage != a->delta->storage, op, a->delta, a->lse))
        return;
    struct mtk_attention_grad call = gradient_call(rt, a);
    const int capability = rt->device->card.capability;
    call.workspace_bytes = mtk_attention_grad_bytes(capability, &call.q);
    struct mt_tensor *workspace = take_workspace(rt, call.workspace_bytes);
    if (rt->status != MT_OK)
        return;
    mt_use_note(rt, a->dq, (const struct mt_tensor *[]){a->q, a->k, a->v, a->grad, a->out, a->lse}, 6);
    mt_use_write(rt, a->dk);
    mt_use_write(rt, a->dv);
    mt_use_scratch(rt, a->delta);
    if (workspace != NULL) {
        mt_use_scratch(rt, workspace);
        call.workspace = workspace->address;
    }
    spend(rt, op, heads, 8, mtk_attention_on_hopper(capability, &call.q) ? 5 : 7, OF_SCORE_BACKWARD);
    LAUNCH(rt, op, attention_grad, &call);
    mt_tensor_release(rt, workspace);
}
