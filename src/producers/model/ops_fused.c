/* Ops that do in one pass what an eager program does in several. */
#include "base/memory.h"
#include "producers/model/op_rules.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <stdlib.h>

mt_status mt_ops_fused_check(const struct mt_device *device)
{
    const struct mtk_table *kernels = device->kernels;
    if (kernels == NULL || (kernels->rms_norm != NULL && kernels->rms_norm_grad != NULL && kernels->swiglu != NULL &&
                            kernels->swiglu_grad != NULL && kernels->cross_entropy != NULL && kernels->adamw != NULL))
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "%s has no kernels of the fused model: use impl eager, or device sim for the memory of the "
                   "fused model",
                   device->name);
}

/* Checks that all tensors are contiguous and have the shape of the first, and that a tensor that shares memory with the
 * first is the same view. Ignores NULLs. */
static bool rows_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        const struct mt_tensor *t = tensors[i];
        if (t == NULL)
            continue;
        if (!mt_op_ready(rt, op, &t, 1))
            return false;
        bool fits = mt_tensor_same_shape(t, tensors[0]) && mt_tensor_is_contiguous(t) && mt_is_floating(t->dtype) &&
                    mt_op_alias_allowed(tensors[0], t);
        if (!mt_op_expect(rt, fits, op, tensors[0], t))
            return false;
    }
    return true;
}

/* Checks that `vector` is (C) for rows of C. */
static bool vector_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *vector,
                        const struct mt_tensor *rows)
{
    if (!mt_op_ready(rt, op, &vector, 1))
        return false;
    bool fits = vector->dims == 1 && vector->shape[0] == rows->shape[rows->dims - 1] &&
                mt_tensor_is_contiguous(vector) && mt_is_floating(vector->dtype);
    return mt_op_expect(rt, fits, op, rows, vector);
}

/* Checks that `column` has one element for each row. */
static bool column_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *column,
                        const struct mt_tensor *rows)
{
    if (!mt_op_ready(rt, op, &column, 1))
        return false;
    int last = rows->dims - 1;
    bool fits = column->dims == rows->dims && column->shape[last] == 1 && mt_tensor_is_contiguous(column) &&
                mt_is_floating(column->dtype) && mt_tensor_count(column) == mt_tensor_count(rows) / rows->shape[last];
    return mt_op_expect(rt, fits, op, rows, column);
}

/* Checks a norm. If something is added, there is a sum, and the norm is in other memory. */
static bool norm_fits(struct mt_runtime *rt, const char *op, const struct mt_norm_tensors *norm)
{
    const struct mt_tensor *const needed[] = {norm->x, norm->out, norm->sum};
    const struct mt_tensor *const rows[] = {norm->x, norm->y, norm->sum};
    bool adds = norm->y != NULL;
    if (!mt_op_ready(rt, op, needed, adds ? 3 : 2) || !rows_fit(rt, op, rows, adds ? 3 : 1) ||
        !rows_fit(rt, op, (const struct mt_tensor *[]){norm->out, norm->x}, 2) ||
        !vector_fits(rt, op, norm->weight, norm->x) ||
        (norm->rstd != NULL && !column_fits(rt, op, norm->rstd, norm->x)))
        return false;
    return !adds || mt_op_expect(rt, norm->out->storage != norm->sum->storage, op, norm->out, norm->sum);
}

void mt_op_rms_norm(struct mt_runtime *rt, const struct mt_norm_tensors *norm)
{
    if (!norm_fits(rt, "rms_norm", norm))
        return;
    const struct mt_tensor *written_sum = norm->y != NULL ? norm->sum : NULL;
    mt_use_note(rt, norm->out, (const struct mt_tensor *[]){norm->x, norm->weight, norm->y}, 3);
    mt_use_write(rt, written_sum);
    mt_use_write(rt, norm->rstd);
    mt_op_spend(rt, "rms_norm", 4.0 * (double)mt_tensor_count(norm->x),
                (const struct mt_tensor *[]){norm->out, norm->y, written_sum, norm->x}, 4, false);
    MT_OP_LAUNCH(rt, "rms_norm", rms_norm, norm->epsilon, MT_OP_VIEW(norm->out), MT_OP_OPTIONAL_VIEW(norm->rstd),
                 MT_OP_OPTIONAL_VIEW(written_sum), MT_OP_VIEW(norm->x), MT_OP_OPTIONAL_VIEW(norm->y),
                 MT_OP_VIEW(norm->weight));
}

/* Checks the gradients of a norm. Only `before` may share memory with dx. */
static bool norm_grad_fits(struct mt_runtime *rt, const char *op, const struct mt_norm_grad_tensors *norm)
{
    const struct mt_tensor *const needed[] = {norm->dx, norm->grad, norm->x, norm->partial_sum};
    if (!mt_op_ready(rt, op, needed, 4) ||
        !rows_fit(rt, op, (const struct mt_tensor *[]){norm->dx, norm->before, norm->cast, norm->grad, norm->x}, 5) ||
        !vector_fits(rt, op, norm->weight, norm->x) || !vector_fits(rt, op, norm->dweight, norm->x) ||
        !column_fits(rt, op, norm->rstd, norm->x))
        return false;
    bool distinct = norm->dx->storage != norm->grad->storage && norm->dx->storage != norm->x->storage &&
                    norm->grad->storage != norm->x->storage &&
                    (norm->cast == NULL || norm->cast->storage != norm->dx->storage);
    return mt_op_expect(rt,
                        distinct && norm->partial_sum->dims == 2 && norm->partial_sum->shape[0] == MTK_NORM_PARTS &&
                            norm->partial_sum->shape[1] == norm->weight->shape[0],
                        op, norm->dx, norm->partial_sum);
}

static void note_norm_grad(struct mt_runtime *rt, const struct mt_norm_grad_tensors *norm)
{
    mt_use_note(rt, norm->dx, (const struct mt_tensor *[]){norm->grad, norm->x, norm->rstd, norm->weight, norm->before},
                5);
    if (norm->beta != 0)
        mt_use_read(rt, norm->dweight);
    mt_use_write(rt, norm->dweight);
    mt_use_write(rt, norm->grad);
    mt_use_write(rt, norm->cast);
    mt_use_scratch(rt, norm->partial_sum);
    mt_op_spend(rt, "rms_norm_grad", 10.0 * (double)mt_tensor_count(norm->x),
                (const struct mt_tensor *[]){norm->grad, norm->grad, norm->dx, norm->before, norm->cast, norm->x}, 6,
                false);
}

static struct mtk_norm_grad call_of(const struct mt_norm_grad_tensors *norm)
{
    return (struct mtk_norm_grad){.dx = mt_op_view(norm->dx),
                                  .before = mt_op_view(norm->before),
                                  .cast = mt_op_view(norm->cast),
                                  .grad = mt_op_view(norm->grad),
                                  .dweight = mt_op_view(norm->dweight),
                                  .x = mt_op_view(norm->x),
                                  .rstd = mt_op_view(norm->rstd),
                                  .weight = mt_op_view(norm->weight),
                                  .partial_sum = mt_op_view(norm->partial_sum),
                                  .beta = norm->beta};
}

void mt_op_rms_norm_grad(struct mt_runtime *rt, const struct mt_norm_grad_tensors *norm)
{
    if (!norm_grad_fits(rt, "rms_norm_grad", norm))
        return;
    note_norm_grad(rt, norm);
    MT_OP_LAUNCH(rt, "rms_norm_grad", rms_norm_grad, (const struct mtk_norm_grad[]){call_of(norm)});
}

/* Checks that `both` is (…, 2F) for a `half` of (…, F). */
static bool halves_fit(struct mt_runtime *rt, const char *op, const struct mt_tensor *half,
                       const struct mt_tensor *both)
{
    if (!mt_op_ready(rt, op, (const struct mt_tensor *[]){half, both}, 2))
        return false;
    int last = half->dims - 1;
    bool fits = half->dims == both->dims && both->shape[last] == 2 * half->shape[last] && half->dtype == both->dtype &&
                mt_is_floating(half->dtype) && half->storage != both->storage && mt_tensor_is_contiguous(half) &&
                mt_tensor_is_contiguous(both) && mt_tensor_same_leading(half, both, last);
    return mt_op_expect(rt, fits, op, half, both);
}

void mt_op_swiglu(struct mt_runtime *rt, struct mt_tensor *out, const struct mt_tensor *in)
{
    if (!halves_fit(rt, "swiglu", out, in))
        return;
    mt_use_note(rt, out, &in, 1);
    mt_op_spend(rt, "swiglu", 5.0 * (double)mt_tensor_count(out), (const struct mt_tensor *[]){out, in}, 2, false);
    MT_OP_LAUNCH(rt, "swiglu", swiglu, MT_OP_VIEW(out), MT_OP_VIEW(in));
}

void mt_op_swiglu_grad(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *grad)
{
    if (!halves_fit(rt, "swiglu_grad", grad, in))
        return;
    mt_use_note(rt, in, (const struct mt_tensor *[]){in, grad}, 2);
    mt_use_write(rt, grad);
    mt_op_spend(rt, "swiglu_grad", 10.0 * (double)mt_tensor_count(grad),
                (const struct mt_tensor *[]){in, in, grad, grad}, 4, false);
    MT_OP_LAUNCH(rt, "swiglu_grad", swiglu_grad, MT_OP_VIEW(in), MT_OP_VIEW(grad));
}

/* Checks the operands of a product with a gate over `both` (…, 2F): `rows` (…, C) and a weight of rows x columns, of
 * one dtype, in separate memory. */
static bool gate_product_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *both,
                              const struct mt_tensor *rows, const struct mt_tensor *weight, int64_t weight_rows,
                              int64_t weight_columns)
{
    if (!mt_op_ready(rt, op, (const struct mt_tensor *[]){both, rows, weight}, 3))
        return false;
    bool fits = rows->dims == both->dims && mt_tensor_same_leading(rows, both, rows->dims - 1) &&
                rows->dtype == both->dtype && rows->storage != both->storage && mt_tensor_is_contiguous(rows) &&
                mt_tensor_is_contiguous(both);
    bool weight_fits = weight->dims == 2 && weight->shape[0] == weight_rows && weight->shape[1] == weight_columns &&
                       weight->dtype == both->dtype && weight->storage != both->storage &&
                       mt_tensor_is_contiguous(weight);
    return mt_op_expect(rt, fits, op, both, rows) && mt_op_expect(rt, weight_fits, op, both, weight);
}

/* Counts the operations of a product of `rows` with a matrix of `columns` columns, and of the gate over its results. */
static double gate_product_operations(const struct mt_tensor *rows, int64_t columns, double gate)
{
    return 2.0 * (double)mt_tensor_count(rows) * (double)columns + gate;
}

void mt_op_swiglu_product(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *out, const struct mt_tensor *x,
                          const struct mt_tensor *weight)
{
    const char *op = "matmul";
    if (!mt_op_ready(rt, op, (const struct mt_tensor *[]){in, x}, 2))
        return;
    int64_t columns = in->shape[in->dims - 1];
    if (!gate_product_fits(rt, op, in, x, weight, columns, x->shape[x->dims - 1]) ||
        (out != NULL && !halves_fit(rt, op, out, in)))
        return;
    mt_use_note(rt, in, (const struct mt_tensor *[]){x, weight}, 2);
    mt_use_write(rt, out);
    mt_op_spend(rt, op, gate_product_operations(x, columns, out != NULL ? 5.0 * (double)mt_tensor_count(out) : 0),
                (const struct mt_tensor *[]){out, in, weight, x}, 4, true);
    MT_OP_LAUNCH(rt, op, swiglu_product, MT_OP_VIEW(in), MT_OP_VIEW(out), MT_OP_VIEW(x), MT_OP_VIEW(weight));
}

void mt_op_swiglu_product_grad(struct mt_runtime *rt, struct mt_tensor *in, struct mt_tensor *out,
                               const struct mt_tensor *grad, const struct mt_tensor *weight)
{
    const char *op = "matmul";
    if (!mt_op_ready(rt, op, (const struct mt_tensor *[]){out, grad}, 2))
        return;
    int64_t columns = out->shape[out->dims - 1];
    if (!gate_product_fits(rt, op, out, grad, weight, grad->shape[grad->dims - 1], columns) ||
        !halves_fit(rt, op, out, in))
        return;
    mt_use_note(rt, in, (const struct mt_tensor *[]){in, grad, weight}, 3);
    mt_use_write(rt, out);
    mt_op_spend(rt, op, gate_product_operations(grad, columns, 10.0 * (double)mt_tensor_count(out)),
                (const struct mt_tensor *[]){in, in, out, weight, grad}, 5, true);
    MT_OP_LAUNCH(rt, op, swiglu_product_grad, MT_OP_VIEW(in), MT_OP_VIEW(out), MT_OP_VIEW(grad), MT_OP_VIEW(weight));
}

/* True if `narrow` has one element for each row of `rows`. */
static bool has_one_a_row(const struct mt_tensor *narrow, const struct mt_tensor *rows)
{
    return narrow->dims == rows->dims - 1 && narrow->storage != rows->storage &&
           mt_tensor_same_leading(narrow, rows, narrow->dims);
}

void mt_op_cross_entropy(struct mt_runtime *rt, double scale, struct mt_tensor *logits, struct mt_tensor *losses,
                         const struct mt_tensor *targets)
{
    if (!mt_op_ready(rt, "cross_entropy", (const struct mt_tensor *[]){logits, losses, targets}, 3))
        return;
    bool fits = has_one_a_row(losses, logits) && has_one_a_row(targets, logits) && targets->dtype == MT_I64 &&
                mt_is_floating(logits->dtype) && mt_is_floating(losses->dtype) && mt_tensor_is_contiguous(logits);
    if (!mt_op_expect(rt, fits, "cross_entropy", logits, mt_is_floating(losses->dtype) ? targets : losses))
        return;
    mt_use_note(rt, logits, (const struct mt_tensor *[]){logits, targets}, 2);
    mt_use_write(rt, losses);
    mt_op_spend(rt, "cross_entropy", 6.0 * (double)mt_tensor_count(logits),
                (const struct mt_tensor *[]){logits, logits}, 2, false);
    MT_OP_LAUNCH(rt, "cross_entropy", cross_entropy, scale, MT_OP_VIEW(logits), MT_OP_COLUMN_VIEW(losses),
                 MT_OP_COLUMN_VIEW(targets));
}

static mtk_moments form_of(const struct mt_adamw_tensors *p)
{
    return p->mean->dtype == MT_BF16 ? MTK_MOMENTS_BF16 : p->mean->dtype == MT_U8 ? MTK_MOMENTS_8BIT : MTK_MOMENTS_FULL;
}

/* Checks that 8-bit moments, and no others, have two scales of fp32 for each block of elements. */
static bool scales_fit(struct mt_runtime *rt, const struct mt_adamw_tensors *p)
{
    int64_t blocks = (mt_tensor_count(p->value) + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK;
    const struct mt_tensor *scales = p->scales;
    if (form_of(p) != MTK_MOMENTS_8BIT || scales == NULL)
        return mt_op_expect(rt, scales == NULL && form_of(p) != MTK_MOMENTS_8BIT, "adamw", p->value, p->mean);
    if (!mt_op_ready(rt, "adamw", &scales, 1))
        return false;
    bool fits = scales->dtype == MT_F32 && scales->dims == 2 && scales->shape[0] == blocks && scales->shape[1] == 2 &&
                mt_tensor_is_contiguous(scales);
    return mt_op_expect(rt, fits, "adamw", p->value, scales);
}

/* Checks one parameter: tensors of its shape in separate memory, all of `dtype`, except that the cast is bf16, and that
 * both moments may have another common form if `dtype` is fp32. */
static bool adamw_fits(struct mt_runtime *rt, mt_dtype dtype, const struct mt_adamw_tensors *p)
{
    const struct mt_tensor *const tensors[] = {p->value, p->grad, p->mean, p->square, p->cast};
    int count = p->cast != NULL ? 5 : 4;
    if (!mt_op_ready(rt, "adamw", tensors, count))
        return false;
    mt_dtype of_moments = dtype == MT_F32 && form_of(p) != MTK_MOMENTS_FULL ? p->mean->dtype : dtype;
    const mt_dtype expected[] = {dtype, dtype, of_moments, of_moments, MT_BF16};
    for (int i = 0; i < count; i++) {
        bool fits = mt_tensor_same_shape(tensors[i], p->value) && mt_tensor_is_contiguous(tensors[i]) &&
                    tensors[i]->dtype == expected[i];
        for (int j = 0; fits && j < i; j++)
            fits = tensors[i]->storage != tensors[j]->storage;
        if (!mt_op_expect(rt, fits, "adamw", p->value, tensors[i]))
            return false;
    }
    return scales_fit(rt, p);
}

static uint64_t bytes_of(const struct mt_tensor *tensor)
{
    return tensor != NULL ? mt_tensor_bytes(tensor) : 0;
}

static void note_adamw(struct mt_runtime *rt, const struct mt_adamw_tensors *p, struct mt_work *work)
{
    mt_use_note(rt, p->value, (const struct mt_tensor *[]){p->value, p->grad, p->mean, p->square, p->scales}, 5);
    mt_use_write(rt, p->mean);
    mt_use_write(rt, p->square);
    mt_use_write(rt, p->scales);
    mt_use_write(rt, p->cast);
    work->operations += 12.0 * (double)mt_tensor_count(p->value);
    work->bytes += 3 * bytes_of(p->value) + 2 * (bytes_of(p->mean) + bytes_of(p->square) + bytes_of(p->scales)) +
                   bytes_of(p->cast);
}

static struct mtk_adamw_item item_of(const struct mt_adamw_tensors *p)
{
    return (struct mtk_adamw_item){.count = mt_tensor_count(p->value),
                                   .value = p->value->address,
                                   .grad = p->grad->address,
                                   .mean = p->mean->address,
                                   .square = p->square->address,
                                   .cast = p->cast != NULL ? p->cast->address : 0,
                                   .scales = p->scales != NULL ? p->scales->address : 0,
                                   .moments = form_of(p),
                                   .generator = p->generator};
}

void mt_op_adamw(struct mt_runtime *rt, const struct mtk_adamw *how, int count,
                 const struct mt_adamw_tensors *parameters)
{
    struct mt_work work = {.op = "adamw", .dtype = how->dtype};
    assert(count > 0);
    for (int i = 0; i < count; i++)
        if (!adamw_fits(rt, how->dtype, &parameters[i]))
            return;
    for (int i = 0; i < count; i++)
        note_adamw(rt, &parameters[i], &work);
    mt_op_spend_work(rt, &work);
    if (!mt_device_executes(rt->device))
        return;
    struct mtk_adamw_item *items = mt_host_alloc((size_t)count * sizeof *items);
    for (int i = 0; i < count; i++)
        items[i] = item_of(&parameters[i]);
    MT_OP_LAUNCH(rt, "adamw", adamw, how, count, items);
    free(items);
}
