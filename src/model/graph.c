#include "model/graph.h"

#include "base/memory.h"
#include "model/functions.h"
#include "model/parameter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_edge(struct mt_edge *edge, const struct mt_tensor *input)
{
    if (input == NULL || input->node == NULL)
        return;
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

struct mt_node *mt_graph_record_inputs(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                       struct mt_tensor *out, const struct mt_tensor *const *inputs, int count)
{
    bool needed = false;
    for (int i = 0; i < count; i++)
        needed |= inputs[i] != NULL && inputs[i]->node != NULL;
    if (!rt->grad_enabled || !needed || out == NULL)
        return NULL;
    struct mt_node *node = node_create(rt, name);
    node->backward = backward;
    for (int i = 0; i < count; i++)
        set_edge(&node->edges[i], inputs[i]);
    out->node = node;
    return node;
}

struct mt_node *mt_graph_record(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b)
{
    return mt_graph_record_inputs(rt, name, backward, out, (const struct mt_tensor *[]){a, b}, 2);
}

void mt_node_save(struct mt_runtime *rt, struct mt_node *node, int slot, struct mt_tensor *tensor)
{
    if (node != NULL && tensor != NULL)
        node->saved[slot] = mt_tensor_view(rt, tensor, tensor->dims, tensor->shape, tensor->stride, 0);
}

bool mt_edge_leads_to_parameter(const struct mt_edge *edge)
{
    return edge->node != NULL && edge->node->parameter != NULL;
}

struct mt_node *mt_node_accumulator(struct mt_runtime *rt, struct mt_parameter *parameter)
{
    struct mt_node *node = node_create(rt, NULL);
    node->sequence = UINT64_MAX;
    node->parameter = parameter;
    node->scope = (struct mt_scope){
        .span = parameter->span, .category = MT_CATEGORY_GRADIENT, .op = "accumulate_grad", .layer = parameter->layer};
    return node;
}

static void release_saved(struct mt_runtime *rt, struct mt_node *node)
{
    for (int i = 0; i < MT_NODE_SAVED; i++) {
        mt_tensor_release(rt, node->saved[i]);
        node->saved[i] = NULL;
    }
}

/* A graph is as deep as the model is long, so nodes that die are queued through their first edge's place instead of by
 * recursion: `dying` links nodes whose references have gone. */
void mt_node_release(struct mt_runtime *rt, struct mt_node *node)
{
    if (node == NULL || --node->references > 0)
        return;
    struct mt_node **dying = NULL;
    size_t count = 0;
    while (node != NULL) {
        release_saved(rt, node);
        mt_tensor_release(rt, node->grad);
        for (int i = 0; i < MT_NODE_EDGES; i++) {
            struct mt_node *input = node->edges[i].node;
            if (input == NULL || --input->references > 0)
                continue;
            dying = mt_host_room(dying, count, sizeof(struct mt_node *));
            dying[count++] = input;
        }
        free(node);
        node = count > 0 ? dying[--count] : NULL;
    }
    free(dying);
}

/* Nodes that are ready to run, highest sequence first: a binary heap. */
struct ready_heap {
    struct mt_node **nodes;
    size_t count;
};

static void heap_swap(struct ready_heap *heap, size_t a, size_t b)
{
    struct mt_node *node = heap->nodes[a];
    heap->nodes[a] = heap->nodes[b];
    heap->nodes[b] = node;
}

static void heap_push(struct ready_heap *heap, struct mt_node *node)
{
    heap->nodes = mt_host_room(heap->nodes, heap->count, sizeof(struct mt_node *));
    size_t at = heap->count++;
    heap->nodes[at] = node;
    for (; at > 0 && heap->nodes[(at - 1) / 2]->sequence < heap->nodes[at]->sequence; at = (at - 1) / 2)
        heap_swap(heap, at, (at - 1) / 2);
}

static struct mt_node *heap_pop(struct ready_heap *heap)
{
    struct mt_node *top = heap->nodes[0];
    heap->nodes[0] = heap->nodes[--heap->count];
    for (size_t at = 0;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            return top;
        if (child + 1 < heap->count && heap->nodes[child + 1]->sequence > heap->nodes[child]->sequence)
            child++;
        if (heap->nodes[at]->sequence >= heap->nodes[child]->sequence)
            return top;
        heap_swap(heap, at, child);
        at = child;
    }
}

/* Counts, for every node below `root`, how many gradients it will be sent. */
static void count_gradients(struct mt_node *root)
{
    struct ready_heap pending = {0};
    root->reached = true;
    heap_push(&pending, root);
    while (pending.count > 0) {
        struct mt_node *node = heap_pop(&pending);
        for (int i = 0; i < MT_NODE_EDGES; i++) {
            struct mt_node *input = node->edges[i].node;
            if (input == NULL)
                continue;
            input->waiting++;
            if (!input->reached)
                heap_push(&pending, input);
            input->reached = true;
        }
    }
    free(pending.nodes);
}

/* Continues in the place of the model that recorded `node`. */
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

/* Brings a gradient to the shape and dtype of the input that it belongs to. Takes `grad`, returns what replaces it. */
static struct mt_tensor *fit_to_input(struct mt_runtime *rt, const struct mt_edge *edge, struct mt_tensor *grad)
{
    if (grad == NULL)
        return NULL;
    bool same_shape =
        grad->dims == edge->dims && memcmp(grad->shape, edge->shape, (size_t)edge->dims * sizeof edge->shape[0]) == 0;
    if (!same_shape) {
        struct mt_tensor *sum = mt_sum_to_input(rt, "sum", grad, edge);
        mt_tensor_release(rt, grad);
        grad = sum;
    }
    if (grad != NULL && grad->dtype != edge->dtype) {
        struct mt_tensor *cast = mt_cast(rt, MT_ROLE_TEMPORARY, "cast", grad, edge->dtype);
        mt_tensor_release(rt, grad);
        grad = cast;
    }
    return grad;
}

/* Adds a gradient to what a node has been sent so far: into it if nobody else can see that, else into a new one. */
static void send(struct mt_runtime *rt, struct mt_node *node, struct mt_tensor *grad)
{
    if (node->grad == NULL || grad == NULL) {
        if (grad != NULL)
            node->grad = grad;
        return;
    }
    struct mt_tensor *old = node->grad;
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
    mt_tensor_release(rt, old);
    mt_tensor_release(rt, grad);
}

/* Keeps what has arrived as the parameter's gradient, or adds it to that: as it is if it is laid out as the parameter,
 * else a copy. */
static void accumulate(struct mt_runtime *rt, struct mt_node *node)
{
    struct mt_tensor *grad = node->grad;
    struct mt_parameter *parameter = node->parameter;
    node->grad = NULL;
    if (grad == NULL)
        return;
    if (parameter->grad != NULL) {
        mt_op_binary(rt, MTK_ADD, 0, parameter->grad, parameter->grad, grad);
        mt_tensor_release(rt, grad);
        return;
    }
    bool same_layout = memcmp(grad->stride, parameter->value->stride, (size_t)grad->dims * sizeof grad->stride[0]) == 0;
    if (mt_tensor_is_exclusive(grad) && same_layout) {
        parameter->grad = grad;
        return;
    }
    parameter->grad = mt_tensor_empty(rt, MT_ROLE_GRAD, NULL, grad->dtype, grad->dims, grad->shape);
    mt_op_unary(rt, MTK_COPY, 0, parameter->grad, grad);
    mt_tensor_release(rt, grad);
}

/* The gradients of a node's inputs from its own, which may be NULL. */
static void differentiate(struct mt_runtime *rt, struct mt_node *node, struct mt_tensor *grad, struct mt_tensor **out)
{
    bool is_second = node->has_run;
    if (is_second && rt->status == MT_OK)
        mt_runtime_fail(rt, mt_fail(MT_FAILED, "backward has run through this graph already"));
    if (!is_second && grad != NULL)
        node->backward(rt, node, grad, out);
    node->has_run = true;
}

/* Runs one node: first its inputs' gradients, then its own gradient goes, then what it kept, then they are sent. */
static void run_node(struct mt_runtime *rt, struct mt_node *node)
{
    struct mt_tensor *out[MT_NODE_EDGES] = {NULL};
    struct mt_tensor *grad = node->grad;
    node->grad = NULL;
    differentiate(rt, node, grad, out);
    for (int i = 0; i < MT_NODE_EDGES; i++)
        out[i] = fit_to_input(rt, &node->edges[i], out[i]);
    mt_tensor_release(rt, grad);
    release_saved(rt, node);
    for (int i = 0; i < MT_NODE_EDGES; i++)
        if (mt_node_wants(node, i))
            send(rt, node->edges[i].node, out[i]);
}

static void queue_inputs(struct ready_heap *ready, struct mt_node *node)
{
    for (int i = 0; i < MT_NODE_EDGES; i++) {
        struct mt_node *input = node->edges[i].node;
        if (input == NULL || --input->waiting > 0)
            continue;
        input->reached = false;
        heap_push(ready, input);
    }
}

static struct mt_tensor *ones_like(struct mt_runtime *rt, const struct mt_tensor *loss)
{
    struct mt_tensor *ones = mt_tensor_empty(rt, MT_ROLE_TEMPORARY, "ones", loss->dtype, loss->dims, loss->shape);
    mt_op_fill(rt, ones, 1);
    return ones;
}

void mt_graph_backward(struct mt_runtime *rt, struct mt_tensor *loss)
{
    if (loss == NULL || loss->node == NULL)
        return;
    struct mt_scope outer = rt->scope;
    bool outer_grad_enabled = rt->grad_enabled;
    struct mt_node *root = loss->node;
    struct ready_heap ready = {0};
    rt->grad_enabled = false;
    rt->scope = root->scope;
    struct mt_tensor *ones = ones_like(rt, loss);
    rt->scope = outer;
    count_gradients(root);
    root->reached = false;
    root->grad = mt_tensor_retain(ones);
    heap_push(&ready, root);
    while (ready.count > 0) {
        struct mt_node *node = heap_pop(&ready);
        enter_node_scope(rt, node, outer.span);
        if (node->parameter != NULL)
            accumulate(rt, node);
        else
            run_node(rt, node);
        queue_inputs(&ready, node);
    }
    if (rt->scope.span != outer.span)
        mt_alloc_mark(rt->alloc, MT_EVENT_SPAN_END, 0, rt->scope.span);
    mt_tensor_release(rt, ones);
    free(ready.nodes);
    rt->scope = outer;
    rt->grad_enabled = outer_grad_enabled;
}
