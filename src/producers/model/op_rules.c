#include "producers/model/op_rules.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

static const char *shape_text(const struct mt_tensor *tensor, struct mt_text *text)
{
    for (int i = 0; i < tensor->dims; i++)
        mt_text_add(text, "%s%lld", i > 0 ? "," : "", (long long)tensor->shape[i]);
    return mt_text_get(text);
}

bool mt_op_expect(struct mt_runtime *rt, bool fits, const char *op, const struct mt_tensor *out,
                  const struct mt_tensor *in)
{
    struct mt_text out_text = {0}, in_text = {0};
    if (fits)
        return true;
    mt_runtime_fail(rt, mt_fail(MT_FAILED, "%s: operand (%s) of %s does not fit output (%s) of %s", op,
                                shape_text(in, &in_text), mt_dtype_name(in->dtype), shape_text(out, &out_text),
                                mt_dtype_name(out->dtype)));
    mt_text_release(&out_text);
    mt_text_release(&in_text);
    return false;
}

bool mt_op_alias_allowed(const struct mt_tensor *out, const struct mt_tensor *in)
{
    return out->storage != in->storage || (out->address == in->address && out->dtype == in->dtype &&
                                           mt_tensor_same_shape(out, in) && mt_tensor_same_strides(out, in));
}

bool mt_op_repeats(const struct mt_tensor *tensor)
{
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->shape[i] > 1 && tensor->stride[i] == 0)
            return true;
    return false;
}

bool mt_op_broadcast(const struct mt_tensor *tensor, int dims, const int64_t *shape, struct mtk_view *out)
{
    assert(dims >= 0 && dims <= MT_MAX_DIMS && tensor->dims <= MT_MAX_DIMS);
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
    struct mtk_view view = {0};
    if (tensor == NULL)
        return view;
    bool fits = mt_op_broadcast(tensor, tensor->dims, tensor->shape, &view);
    assert(fits); /* every tensor fits its own shape */
    (void)fits;
    return view;
}

struct mtk_view mt_op_column_view(const struct mt_tensor *tensor)
{
    assert(tensor->dims < MT_MAX_DIMS);
    struct mtk_view view = mt_op_view(tensor);
    memmove(view.shape, view.shape + 1, (MT_MAX_DIMS - 1) * sizeof view.shape[0]);
    memmove(view.stride, view.stride + 1, (MT_MAX_DIMS - 1) * sizeof view.stride[0]);
    view.shape[MT_MAX_DIMS - 1] = 1;
    view.stride[MT_MAX_DIMS - 1] = 0;
    return view;
}

/* Attributes later kernels to the op and the current scope. */
static void tag_kernels(struct mt_runtime *rt, const char *op)
{
    char text[MT_OP_TEXT];
    if (!mt_device_watches_kernels(rt->device))
        return;
    snprintf(text, sizeof text, "%s.%s", rt->scope.op, op);
    struct mt_label label = {.category = rt->scope.category,
                             .role = MT_ROLE_TEMPORARY,
                             .phase = rt->phase,
                             .op = text,
                             .span = rt->scope.span,
                             .layer = rt->scope.layer};
    mt_device_tag(rt->device, mt_alloc_intern_label(rt->alloc, &label));
}

void mt_op_spend_work(struct mt_runtime *rt, const struct mt_work *work)
{
    assert(work->op != NULL);
    tag_kernels(rt, work->op);
    mt_device_spend(rt->device, work);
}

struct mt_work mt_op_work(const struct mt_runtime *rt, const char *op, double operations,
                          const struct mt_tensor *const *tensors, int count, bool matrix_product)
{
    assert(count > 0 && tensors[count - 1] != NULL && operations >= 0);
    struct mt_work work = {.op = op,
                           .operations = operations,
                           .dtype = tensors[count - 1]->dtype,
                           .rounds_to_tf32 = rt->math == MTK_MATH_TF32,
                           .matrix_product = matrix_product,
                           .host_ns = rt->launch_ns};
    for (int i = 0; i < count; i++)
        work.bytes += tensors[i] != NULL ? mt_tensor_bytes(tensors[i]) : 0;
    return work;
}

void mt_op_spend(struct mt_runtime *rt, const char *op, double operations, const struct mt_tensor *const *tensors,
                 int count, bool matrix_product)
{
    const struct mt_work work = mt_op_work(rt, op, operations, tensors, count, matrix_product);
    mt_op_spend_work(rt, &work);
}

void mt_op_launched(struct mt_runtime *rt, const char *op, mt_status status)
{
    assert(rt->status == MT_OK); /* an op without ready tensors launches nothing */
    if (status != MT_OK)
        mt_runtime_fail(rt, mt_fail_context(status, "%s", op));
}
