#include "producers/model/tensor.h"

#include "base/checked.h"
#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes from the first element of a tensor to the end of the last one. */
static uint64_t extent_bytes(const struct mt_tensor *tensor)
{
    uint64_t last = 0;
    for (int i = 0; i < tensor->dims; i++)
        last += (uint64_t)(tensor->shape[i] - 1) * (uint64_t)tensor->stride[i];
    return (last + 1) * mt_dtype_bytes(tensor->dtype);
}

bool mt_tensor_is_sound(const struct mt_tensor *tensor)
{
    if (tensor->references <= 0 || tensor->storage->references <= 0 || tensor->dims < 0 || tensor->dims > MT_MAX_DIMS)
        return false;
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->shape[i] <= 0 || tensor->stride[i] < 0)
            return false;
    mt_addr begin = mt_block_address(tensor->storage->block);
    return tensor->address >= begin &&
           tensor->address + extent_bytes(tensor) <= begin + mt_block_requested_bytes(tensor->storage->block);
}

/* Interns the label of a block in the current scope. */
static mt_label_id scope_label(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, int dims,
                               const int64_t *shape)
{
    char op[MT_OP_TEXT];
    assert(rt->scope.op != NULL); /* some scope was entered */
    snprintf(op, sizeof op, "%s%s%s", rt->scope.op, name != NULL ? "." : "", name != NULL ? name : "");
    struct mt_label label = {.category = rt->scope.category,
                             .role = role,
                             .phase = rt->phase,
                             .dtype = dtype,
                             .op = op,
                             .span = rt->scope.span,
                             .layer = rt->scope.layer,
                             .dims = dims};
    for (int i = 0; i < dims; i++)
        label.shape[i] = shape[i];
    return mt_alloc_intern_label(rt->alloc, &label);
}

/* Computes the bytes of a row-major tensor. Fails with MT_USAGE if a dimension is empty or the product overflows. */
static mt_status shape_bytes(mt_dtype dtype, int dims, const int64_t *shape, uint64_t *out)
{
    uint64_t bytes = mt_dtype_bytes(dtype);
    for (int i = 0; i < dims; i++) {
        if (shape[i] <= 0)
            return mt_fail(MT_USAGE, "a tensor has %lld elements in dimension %d; each needs one at least",
                           (long long)shape[i], i);
        if (!mt_checked_mul(bytes, (uint64_t)shape[i], &bytes))
            return mt_fail(MT_USAGE, "a tensor of %s with %lld in dimension %d does not fit into 64 bits",
                           mt_dtype_name(dtype), (long long)shape[i], i);
    }
    *out = bytes;
    return MT_OK;
}

static void set_shape(struct mt_tensor *tensor, int dims, const int64_t *shape)
{
    int64_t stride = 1;
    tensor->dims = dims;
    for (int i = dims - 1; i >= 0; i--) {
        tensor->shape[i] = shape[i];
        tensor->stride[i] = stride;
        stride *= shape[i];
    }
}

struct mt_tensor *mt_tensor_empty(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, int dims,
                                  const int64_t *shape)
{
    uint64_t bytes = 0;
    struct mt_block *block = NULL;
    assert(dims >= 0 && dims <= MT_MAX_DIMS && role < MT_ROLE_COUNT);
    assert(dtype < MT_COMPUTED_DTYPE_COUNT || mt_is_fp8(dtype) || !mt_device_executes(rt->device));
    if (rt->status != MT_OK)
        return NULL;
    mt_status status = shape_bytes(dtype, dims, shape, &bytes);
    if (status == MT_OK) {
        mt_label_id label = scope_label(rt, role, name, dtype, dims, shape);
        status = mt_alloc_take(rt->alloc, bytes, rt->stream, label, rt->scope.span, &block);
    }
    if (status != MT_OK) {
        mt_runtime_fail(rt, status);
        return NULL;
    }
    struct mt_tensor *tensor = mt_host_alloc(sizeof *tensor);
    struct mt_storage *storage = mt_host_alloc(sizeof *storage);
    *storage = (struct mt_storage){.references = 1, .block = block, .use = {.block = mt_block_sequence(block)}};
    *tensor =
        (struct mt_tensor){.references = 1, .dtype = dtype, .storage = storage, .address = mt_block_address(block)};
    set_shape(tensor, dims, shape);
    assert(mt_tensor_is_sound(tensor) && mt_tensor_bytes(tensor) == bytes);
    return tensor;
}

/* True if the elements cover their block without gaps or repetition, in any order of dimensions. */
static bool is_dense(const struct mt_tensor *tensor)
{
    bool used[MT_MAX_DIMS] = {false};
    int64_t expected = 1;
    for (int step = 0; step < tensor->dims; step++) {
        int found = -1;
        for (int i = 0; i < tensor->dims && found < 0; i++)
            if (!used[i] && (tensor->shape[i] == 1 || tensor->stride[i] == expected))
                found = i;
        if (found < 0)
            return false;
        used[found] = true;
        expected *= tensor->shape[found];
    }
    return true;
}

struct mt_tensor *mt_tensor_empty_like(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype,
                                       const struct mt_tensor *like)
{
    if (like == NULL)
        return NULL;
    struct mt_tensor *tensor = mt_tensor_empty(rt, role, name, dtype, like->dims, like->shape);
    if (tensor != NULL && is_dense(like))
        memcpy(tensor->stride, like->stride, sizeof tensor->stride);
    return tensor;
}

struct mt_tensor *mt_tensor_view(struct mt_runtime *rt, struct mt_tensor *tensor, int dims, const int64_t *shape,
                                 const int64_t *stride, int64_t offset)
{
    if (tensor == NULL || rt->status != MT_OK)
        return NULL;
    assert(dims >= 0 && dims <= MT_MAX_DIMS && offset >= 0);
    struct mt_tensor *view = mt_host_alloc(sizeof *view);
    *view = (struct mt_tensor){.references = 1,
                               .dtype = tensor->dtype,
                               .dims = dims,
                               .address = tensor->address + (mt_addr)offset * mt_dtype_bytes(tensor->dtype),
                               .storage = tensor->storage,
                               .is_view = true};
    tensor->storage->references++;
    memcpy(view->shape, shape, (size_t)dims * sizeof shape[0]);
    memcpy(view->stride, stride, (size_t)dims * sizeof stride[0]);
    assert(mt_tensor_is_sound(view));
    return view;
}

struct mt_tensor *mt_tensor_retain(struct mt_tensor *tensor)
{
    assert(tensor == NULL || tensor->references > 0);
    if (tensor != NULL)
        tensor->references++;
    return tensor;
}

static void storage_release(struct mt_runtime *rt, struct mt_storage *storage)
{
    assert(storage->references > 0);
    if (--storage->references > 0)
        return;
    mt_alloc_use(rt->alloc, &storage->use);
    mt_alloc_give(rt->alloc, storage->block);
    free(storage);
}

void mt_tensor_release(struct mt_runtime *rt, struct mt_tensor *tensor)
{
    assert(tensor == NULL || (tensor->references > 0 && tensor->storage->references > 0));
    if (tensor == NULL || --tensor->references > 0)
        return;
    struct mt_node *node = tensor->node;
    storage_release(rt, tensor->storage);
    free(tensor);
    mt_node_release(rt, node);
}

void mt_tensors_release(struct mt_runtime *rt, struct mt_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mt_tensor_release(rt, tensors[i]);
}

void mt_tensor_drop(struct mt_runtime *rt, struct mt_tensor **tensor)
{
    mt_tensor_release(rt, *tensor);
    *tensor = NULL;
}

void mt_node_release_saved(struct mt_runtime *rt, struct mt_node *node)
{
    for (int i = 0; i < MT_NODE_SAVED; i++)
        mt_tensor_drop(rt, &node->saved[i]);
}

/* Releases everything that an unreferenced node keeps. Nodes of its inputs that are now unreferenced, too, are added to
 * `dying`. */
static struct mt_node **node_destroy(struct mt_runtime *rt, struct mt_node *node, struct mt_node **dying, size_t *count)
{
    assert(node->references == 0);
    mt_node_release_saved(rt, node);
    mt_tensor_release(rt, node->grad);
    for (int i = 0; i < MT_NODE_EDGES; i++) {
        struct mt_node *input = node->edges[i].node;
        assert(input == NULL || input->references > 0);
        if (input == NULL || --input->references > 0)
            continue;
        *MT_HOST_ADD(dying, *count) = input;
    }
    free(node);
    return dying;
}

/* A graph is as deep as the model is long, so nodes are listed for release instead of recursing. */
void mt_node_release(struct mt_runtime *rt, struct mt_node *node)
{
    assert(node == NULL || node->references > 0);
    if (node == NULL || --node->references > 0)
        return;
    struct mt_node **dying = NULL;
    size_t count = 0;
    for (; node != NULL; node = count > 0 ? dying[--count] : NULL)
        dying = node_destroy(rt, node, dying, &count);
    free(dying);
}

int64_t mt_tensor_count(const struct mt_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

uint64_t mt_tensor_bytes(const struct mt_tensor *tensor)
{
    uint64_t bytes = mt_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->stride[i] != 0)
            bytes *= (uint64_t)tensor->shape[i];
    return bytes;
}

bool mt_tensor_is_contiguous(const struct mt_tensor *tensor)
{
    int64_t stride = 1;
    for (int i = tensor->dims - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->stride[i] != stride)
            return false;
        stride *= tensor->shape[i];
    }
    return true;
}

bool mt_tensor_is_exclusive(const struct mt_tensor *tensor)
{
    return !tensor->is_view && tensor->references == 1 && tensor->storage->references == 1;
}

bool mt_tensor_same_shape(const struct mt_tensor *a, const struct mt_tensor *b)
{
    return a->dims == b->dims && mt_tensor_same_leading(a, b, a->dims);
}

bool mt_tensor_same_leading(const struct mt_tensor *a, const struct mt_tensor *b, int dims)
{
    assert(dims <= a->dims && dims <= b->dims);
    return memcmp(a->shape, b->shape, (size_t)dims * sizeof a->shape[0]) == 0;
}

bool mt_tensor_same_strides(const struct mt_tensor *a, const struct mt_tensor *b)
{
    assert(a->dims == b->dims);
    return memcmp(a->stride, b->stride, (size_t)a->dims * sizeof a->stride[0]) == 0;
}

/* Walks both shapes from the last dimension. Old dimensions that are contiguous in memory form a run, which the new
 * shape may divide differently. */
bool mt_tensor_view_strides(const struct mt_tensor *tensor, int dims, const int64_t *shape, int64_t *out_stride)
{
    int wanted = dims - 1;
    int64_t run_stride = tensor->dims > 0 ? tensor->stride[tensor->dims - 1] : 1;
    int64_t run = 1, made = 1;
    for (int i = tensor->dims - 1; i >= 0; i--) {
        run *= tensor->shape[i];
        bool run_ends = i == 0 || (tensor->shape[i - 1] != 1 && tensor->stride[i - 1] != run * run_stride);
        if (!run_ends)
            continue;
        while (wanted >= 0 && (made < run || shape[wanted] == 1)) {
            out_stride[wanted] = made * run_stride;
            made *= shape[wanted--];
        }
        if (made != run)
            return false;
        if (i > 0)
            run_stride = tensor->stride[i - 1];
        run = made = 1;
    }
    while (wanted >= 0 && shape[wanted] == 1)
        out_stride[wanted--] = 1;
    return wanted < 0;
}
