/* The tape: the ops that made a tensor, and the way of a gradient back through them.
 *
 *   loss ──node──▶ op ──edges──▶ ops of its inputs … ──▶ accumulators of leaves
 *
 * A differentiable op adds a node if any of its inputs has one. A node holds the tensors for its backward until it has
 * run. Backward runs nodes latest first (accumulators at once), like an eager framework's engine, so that blocks
 * are allocated and freed in the same order. */
#pragma once

#include "producers/model/tensor.h"

/* Adds a node: `backward` leads from `out` to the inputs a and b (b may be NULL). Sets out->node and returns it.
 * Returns NULL, and adds nothing, if gradients are disabled, the runtime has failed or no input has a node. */
struct mt_node *mt_graph_add(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                             struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b);

/* The same for `count` inputs, at most MT_NODE_EDGES; edges are in their order. */
struct mt_node *mt_graph_add_inputs(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                    struct mt_tensor *out, const struct mt_tensor *const *inputs, int count);

/* Makes `leaf` a leaf: backward stores its gradient in *grad, or adds it to an existing one. Gradients are
 * labelled with `span` and `layer`. Borrows both, for as long as a graph leads to the leaf; `leaf` may be NULL. */
void mt_graph_add_leaf(struct mt_runtime *rt, struct mt_tensor *leaf, mt_span_id span, int layer,
                       struct mt_tensor **grad);

/* Keeps a view of `tensor` for the node's backward, in an empty slot. Since it is a view, an op may keep its own
 * output. Does nothing if the node or the tensor is NULL. */
void mt_node_save(struct mt_runtime *rt, struct mt_node *node, int slot, struct mt_tensor *tensor);

/* Keeps the scalar of an op for its backward. Does nothing if the node is NULL. */
static inline void mt_node_set_scalar(struct mt_node *node, double scalar)
{
    if (node != NULL)
        node->scalar = scalar;
}

/* True if the input of that edge needs a gradient. */
static inline bool mt_node_wants(const struct mt_node *node, int edge)
{
    return node->edges[edge].node != NULL;
}

/* Allocates a backward's output for one input. It is labelled as a gradient if it becomes a leaf's gradient
 * unchanged. */
struct mt_tensor *mt_edge_gradient(struct mt_runtime *rt, const char *name, mt_dtype dtype, const struct mt_edge *edge);

/* Runs backward from `loss`, or from the sum of its elements. Afterwards every leaf on which it depends has its
 * gradient, added to its earlier one. Each part of a graph runs once: a second time fails with MT_FAILED, wherever it
 * begins. */
void mt_graph_backward(struct mt_runtime *rt, struct mt_tensor *loss);
