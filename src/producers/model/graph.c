#include "producers/model/graph.h"

#include "base/memory.h"
#include "operators/operator_memory.h"
#include "producers/model/ops.h"
#include "producers/model/use.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_accumulator(const struct mt_node *node)
{
    return node->leaf != NULL;
}

static void set_edge(struct mt_edge *edge, const struct mt_tensor *input, uint64_t sequence)
{
    if (input == NULL || input->node == NULL)
        return;
    assert(input->node->references > 0);
    assert(is_accumulator(input->node) || input->node->sequence < sequence); /* an op comes after its inputs */
    (void)sequence;
    *edge = (struct mt_edge){.node = input->node, .dtype = input->dtype, .dims = input->dims};
    memcpy(edge->shape, input->shape, sizeof edge->shape);
    input->node->references++;
}

static struct mt_node *node_create(struct mt_runtime *rt, const char *name)
{
    struct mt_node *node = mt_host_alloc(sizeof *node);
    node->references = 1;
    node->sequence = rt->next_sequence++;
    snprintf(node->op_text, sizeof node->op_text, "%s%s%s", rt->scope.op, name != NULL ? "." : "",
             name != NULL ? name : "");
    node->scope = rt->scope;
    node->scope.op = node->op_text;
    return node;
}

struct mt_node *mt_graph_add_inputs(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                    struct mt_tensor *out, const struct mt_tensor *const *inputs, int count)
{
    bool needed = false;
    assert(backward != NULL && count <= MT_NODE_EDGES);
    for (int i = 0; i < count; i++)
        needed |= inputs[i] != NULL && inputs[i]->node != NULL;
    if (!rt->grad_enabled || !needed || out == NULL)
        return NULL;
    assert(out->node == NULL && mt_tensor_is_sound(out)); /* only one op makes a tensor */
    struct mt_node *node = node_create(rt, name);
    node->backward = backward;
    for (int i = 0; i < count; i++)
        set_edge(&node->edges[i], inputs[i], node->sequence);
    out->node = node;
    return node;
}

struct mt_node *mt_graph_add(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                             struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b)
{
    return mt_graph_add_inputs(rt, name, backward, out, (const struct mt_tensor *[]){a, b}, 2);
}

void mt_graph_add_leaf(struct mt_runtime *rt, struct mt_tensor *leaf, mt_span_id span, int layer,
                       struct mt_tensor **grad)
{
    if (leaf == NULL)
        return;
    assert(leaf->node == NULL && grad != NULL);
    struct mt_node *node = node_create(rt, NULL);
    node->sequence = UINT64_MAX;
    node->leaf = leaf;
    node->leaf_grad = grad;
    node->scope =
        (struct mt_scope){.span = span, .category = MT_CATEGORY_GRADIENT, .op = "accumulate_grad", .layer = layer};
    leaf->node = node;
}

void mt_node_save(struct mt_runtime *rt, struct mt_node *node, int slot, struct mt_tensor *tensor)
{
    if (node == NULL || tensor == NULL)
        return;
    assert(slot >= 0 && slot < MT_NODE_SAVED && node->saved[slot] == NULL && !node->has_run);
    node->saved[slot] = mt_tensor_view(rt, tensor, tensor->dims, tensor->shape, tensor->stride, 0);
}

struct mt_tensor *mt_edge_gradient(struct mt_runtime *rt, const char *name, mt_dtype dtype, const struct mt_edge *edge)
{
    bool is_final = edge->node != NULL && is_accumulator(edge->node);
    struct mt_scope outer = rt->scope;
    if (is_final)
        rt->scope.category = MT_CATEGORY_GRADIENT;
    struct mt_tensor *out =
        mt_tensor_empty(rt, is_final ? MT_ROLE_GRADIENT : MT_ROLE_TEMPORARY, name, dtype, edge->dims, edge->shape);
    rt->scope = outer;
    return out;
}

/* The nodes below the root of a backward, each once. */
struct schedule {
    struct mt_node **nodes;
    size_t count;
};

static void schedule_add(struct schedule *schedule, struct mt_node *node)
{
    if (node->reached)
        return;
    node->reached = true;
    *MT_HOST_ADD(schedule->nodes, schedule->count) = node;
}

static int compare_latest_first(const void *a, const void *b)
{
    uint64_t left = (*(struct mt_node *const *)a)->sequence, right = (*(struct mt_node *const *)b)->sequence;
    return (left < right) - (left > right);
}

/* Lists the nodes below `root`, latest first, and counts the gradients that each will receive. An op comes
 * after its inputs on the tape, so in this order a node runs after every node that sends it a gradient. */
static struct schedule schedule_from(struct mt_node *root)
{
    struct schedule schedule = {0};
    root->waiting = 1;
    schedule_add(&schedule, root);
    for (size_t next = 0; next < schedule.count; next++) {
        for (int i = 0; i < MT_NODE_EDGES; i++) {
            struct mt_node *input = schedule.nodes[next]->edges[i].node;
            if (input == NULL)
                continue;
            assert(input->waiting >= 0);
            input->waiting++;
            schedule_add(&schedule, input);
        }
    }
    qsort(schedule.nodes, schedule.count, sizeof(struct mt_node *), compare_latest_first);
    return schedule;
}

/* Enters the scope of the node's part of the model. */
static void enter_node_scope(struct mt_runtime *rt, const struct mt_node *node, mt_span_id outermost)
{
    mt_span_id from = rt->scope.span, to = node->scope.span;
    rt->scope = node->scope;
    if (from == to)
        return;
    if (from != outermost)
        mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_END, 0, from);
    mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_BEGIN, 0, to);
}

static struct mt_tensor *scratch(struct mt_runtime *rt, const char *name, int64_t bytes)
{
    return bytes == 0 ? NULL : mt_tensor_empty(rt, MT_ROLE_TEMPORARY, name, MT_U8, 1, &bytes);
}

/* Returns `grad` summed to the shape of the edge's input, with the staging memory of PyTorch's reduction. In an
 * autocast region sums are fp32. */
static struct mt_tensor *sum_to_input(struct mt_runtime *rt, const struct mt_tensor *grad, const struct mt_edge *edge)
{
    mt_dtype dtype = rt->casts != NULL ? mt_sum_dtype(grad->dtype) : grad->dtype;
    struct mt_tensor *out = mt_edge_gradient(rt, "sum", dtype, edge);
    int64_t staging_bytes = 0, counter_bytes = 0, columns = edge->dims > 0 ? edge->shape[edge->dims - 1] : 1;
    if (edge->dims == 1 && columns == grad->shape[grad->dims - 1]) {
        const struct mt_reduction rows = mt_reduction_of_rows(mt_tensor_count(grad) / columns, columns);
        mt_reduction_staging(&rt->device->card, &rows, &staging_bytes, &counter_bytes);
    }
    struct mt_tensor *staging = scratch(rt, "sum.staging", staging_bytes);
    struct mt_tensor *counter = scratch(rt, "sum.counter", counter_bytes);
    mt_use_scratch(rt, staging);
    mt_use_scratch(rt, counter);
    mt_op_reduce(rt, MTK_SUM, out, grad);
    MT_RELEASE(rt, counter, staging);
    return out;
}

static bool has_shape_of(const struct mt_tensor *tensor, const struct mt_edge *edge)
{
    return tensor->dims == edge->dims &&
           memcmp(tensor->shape, edge->shape, (size_t)edge->dims * sizeof edge->shape[0]) == 0;
}

/* Converts a gradient to the shape and dtype of its input. Takes `grad`, which may be NULL, and
 * returns its replacement. */
static struct mt_tensor *fit_to_input(struct mt_runtime *rt, const struct mt_edge *edge, struct mt_tensor *grad)
{
    if (grad != NULL && !has_shape_of(grad, edge)) {
        struct mt_tensor *sum = sum_to_input(rt, grad, edge);
        mt_tensor_release(rt, grad);
        grad = sum;
    }
    if (grad != NULL && grad->dtype != edge->dtype) {
        struct mt_tensor *cast = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "cast", edge->dtype, grad);
        mt_op_unary(rt, MTK_COPY, 0, cast, grad);
        mt_tensor_release(rt, grad);
        grad = cast;
    }
    assert(grad == NULL || (has_shape_of(grad, edge) && grad->dtype == edge->dtype));
    return grad;
}

/* Adds a gradient to the sum that a node has received so far: in place if nothing else can see that sum, otherwise in a
 * new tensor. Takes `grad`. */
static void send(struct mt_runtime *rt, struct mt_node *node, struct mt_tensor *grad)
{
    if (node->grad == NULL || grad == NULL) {
        if (grad != NULL)
            node->grad = grad;
        return;
    }
    struct mt_tensor *old = node->grad;
    assert(mt_tensor_same_shape(old, grad));
    if (mt_tensor_is_exclusive(old)) {
        mt_op_binary(rt, MTK_ADD, 0, old, old, grad);
        mt_tensor_release(rt, grad);
        return;
    }
    struct mt_scope outer = rt->scope;
    rt->scope = node->scope;
    node->grad = mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, "sum_grads", old->dtype, old);
    rt->scope = outer;
    mt_op_binary(rt, MTK_ADD, 0, node->grad, old, grad);
    MT_RELEASE(rt, old, grad);
}

/* Adds the received gradient to the leaf's gradient. If there is none yet, keeps the gradient itself if its layout is
 * the leaf's, otherwise a copy. */
static void accumulate(struct mt_runtime *rt, struct mt_node *node)
{
    struct mt_tensor *grad = node->grad;
    struct mt_tensor **kept = node->leaf_grad;
    node->grad = NULL;
    if (grad == NULL)
        return;
    assert(node->leaf->node == node && mt_tensor_same_shape(grad, node->leaf));
    if (*kept != NULL) {
        mt_op_binary(rt, MTK_ADD, 0, *kept, *kept, grad);
        mt_tensor_release(rt, grad);
        return;
    }
    if (mt_tensor_is_exclusive(grad) && mt_tensor_same_strides(grad, node->leaf)) {
        *kept = grad;
        return;
    }
    *kept = mt_tensor_empty(rt, MT_ROLE_GRADIENT, NULL, grad->dtype, grad->dims, grad->shape);
    mt_op_unary(rt, MTK_COPY, 0, *kept, grad);
    mt_tensor_release(rt, grad);
}

/* Computes the gradients of a node's inputs from the node's own gradient, which may be NULL. */
static void differentiate(struct mt_runtime *rt, struct mt_node *node, struct mt_tensor *grad, struct mt_tensor **out)
{
    bool is_second = node->has_run;
    if (is_second && rt->status == MT_OK)
        mt_runtime_fail(rt, mt_fail(MT_FAILED, "backward has run through this graph already"));
    if (!is_second && grad != NULL)
        node->backward(rt, node, grad, out);
    node->has_run = true;
}

/* Runs one node: computes its inputs' gradients, releases its own and its saved tensors, then sends them. */
static void run_node(struct mt_runtime *rt, struct mt_node *node)
{
    struct mt_tensor *out[MT_NODE_EDGES] = {NULL};
    struct mt_tensor *grad = node->grad;
    node->grad = NULL;
    differentiate(rt, node, grad, out);
    for (int i = 0; i < MT_NODE_EDGES; i++)
        out[i] = fit_to_input(rt, &node->edges[i], out[i]);
    mt_tensor_release(rt, grad);
    mt_node_release_saved(rt, node);
    for (int i = 0; i < MT_NODE_EDGES; i++)
        if (mt_node_wants(node, i))
            send(rt, node->edges[i].node, out[i]);
}

/* Counts a gradient that a node has received. An accumulator runs at once after the last one. */
static void arrive(struct mt_runtime *rt, struct mt_node *node, mt_span_id outermost)
{
    assert(node->waiting > 0);
    if (--node->waiting > 0 || !is_accumulator(node))
        return;
    enter_node_scope(rt, node, outermost);
    accumulate(rt, node);
}

static struct mt_tensor *ones_like(struct mt_runtime *rt, const struct mt_tensor *loss)
{
    struct mt_tensor *ones = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "ones", loss->dtype, loss->dims, loss->shape);
    mt_op_fill(rt, ones, 1);
    return ones;
}

/* Runs every node below `root`, latest first. */
static void run_from(struct mt_runtime *rt, struct mt_node *root)
{
    mt_span_id outermost = rt->scope.span;
    struct schedule schedule = schedule_from(root);
    arrive(rt, root, outermost);
    for (size_t next = 0; next < schedule.count; next++) {
        struct mt_node *node = schedule.nodes[next];
        node->reached = false;
        if (is_accumulator(node))
            continue;
        assert(node->waiting == 0);
        enter_node_scope(rt, node, outermost);
        run_node(rt, node);
        for (int i = 0; i < MT_NODE_EDGES; i++)
            if (mt_node_wants(node, i))
                arrive(rt, node->edges[i].node, outermost);
    }
    if (rt->scope.span != outermost)
        mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_END, 0, rt->scope.span);
    free(schedule.nodes);
}

void mt_graph_backward(struct mt_runtime *rt, struct mt_tensor *loss)
{
    if (loss == NULL || loss->node == NULL)
        return;
    struct mt_scope outer = rt->scope;
    bool outer_grad_enabled = rt->grad_enabled;
    struct mt_node *root = loss->node;
    assert(root->waiting == 0 && root->grad == NULL);
    rt->grad_enabled = false; /* backward adds no nodes */
    rt->scope = root->scope;
    struct mt_tensor *ones = ones_like(rt, loss);
    rt->scope = outer;
    root->grad = mt_tensor_retain(ones);
    run_from(rt, root);
    mt_tensor_release(rt, ones);
    rt->scope = outer;
    rt->grad_enabled = outer_grad_enabled;
}
