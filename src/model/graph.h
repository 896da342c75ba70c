/* The tape: which op made a tensor, from what, and how a gradient goes back through it.
 *
 *   loss ──node──▶ op ──edges──▶ ops of its inputs … ──▶ accumulators of parameters
 *
 * A differentiable op records a node when any of its inputs has one. A node holds what its backward needs until it has
 * run. Backward runs nodes latest first (accumulators at once), as an eager framework's engine does, so that blocks
 * live and die in the same order. */
#ifndef MT_MODEL_GRAPH_H
#define MT_MODEL_GRAPH_H

#include "model/runtime.h"

enum { MT_NODE_EDGES = 3, MT_NODE_SAVED = 5 };

/* Where the gradient of one input goes, and how it must look there. */
struct mt_edge {
    struct mt_node *node; /* held; NULL: that input needs no gradient */
    mt_dtype dtype;
    int dims;
    int64_t shape[MT_MAX_DIMS];
};

/* Makes the gradients of the inputs: out[i] for edges[i] where that has a node, owned by the caller. `grad` has the
 * shape of the op's output and is borrowed. out[i] may still have the op's broadcast shape and dtype: the engine sums
 * and casts it to the input's. */
typedef void mt_backward_function(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                                  struct mt_tensor **out);

struct mt_node {
    int references;
    uint64_t sequence; /* order of recording; accumulators come before everything */
    mt_backward_function *backward;
    struct mt_edge edges[MT_NODE_EDGES];
    struct mt_tensor *saved[MT_NODE_SAVED]; /* held until backward has run; released in this order */
    double scalar;
    int order[MT_MAX_DIMS]; /* of a permutation */
    struct mt_scope scope;  /* of the op; its `op` points to op_text */
    char op_text[MT_OP_TEXT];

    struct mt_parameter *parameter; /* of an accumulator: whose gradient it keeps; borrowed */

    /* While backward runs: */
    struct mt_tensor *grad; /* sum of what arrived, held */
    int waiting;            /* for so many more gradients */
    bool reached;
    bool has_run; /* and let go of what it kept: a graph runs once */
};

/* Records that `backward` leads from `out` to the inputs a and b (b may be NULL): out->node is set and returned. NULL,
 * and nothing recorded, if gradients are off, the runtime has failed or no input has a node. */
struct mt_node *mt_graph_record(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                struct mt_tensor *out, const struct mt_tensor *a, const struct mt_tensor *b);

/* The same for `count` inputs, at most MT_NODE_EDGES; edges are in their order. */
struct mt_node *mt_graph_record_inputs(struct mt_runtime *rt, const char *name, mt_backward_function *backward,
                                       struct mt_tensor *out, const struct mt_tensor *const *inputs, int count);

/* Keeps `tensor` for the node's backward; an alias, so that an op may keep its own output. `node` may be NULL: then
 * nothing is kept. */
void mt_node_save(struct mt_runtime *rt, struct mt_node *node, int slot, struct mt_tensor *tensor);

static inline bool mt_node_wants(const struct mt_node *node, int edge)
{
    return node->edges[edge].node != NULL;
}

/* Whether what goes along this edge becomes a parameter's gradient as it is. */
bool mt_edge_leads_to_parameter(const struct mt_edge *edge);

/* The accumulator of a parameter, with one reference for the caller. */
struct mt_node *mt_node_accumulator(struct mt_runtime *rt, struct mt_parameter *parameter);

/* One reference less; the last lets go of what the node keeps. NULL is allowed. */
void mt_node_release(struct mt_runtime *rt, struct mt_node *node);

/* Runs backward from a scalar, or from the sum of what is none: afterwards every parameter that it depends on has its
 * gradient, added to what it had. Each part of a graph runs once: a second time is MT_FAILED, wherever it begins. */
void mt_graph_backward(struct mt_runtime *rt, struct mt_tensor *loss);

#endif
