/* The module whose forward created the autograd node that backward runs now.
 *
 *   forward    module ln1 begins   attn begins      ends          PyTorch numbers the nodes of its graph in order
 *   nodes            17 18          19 20 21         22 23
 *   boundaries   17: ln1         19: attn         22: (outside)
 *   backward                            20 runs ──▶ attn
 *
 * So the backward of an unmodified program has labels without a hook on any tensor. Only nodes of the thread that
 * called mt_torch_backward_begin are known: each thread numbers its own nodes.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/torch_label.h"

/* A node that runs. */
struct mt_torch_node {
    const char
        *class_name; /* as the compiler writes it: "N5torch8autograd9generated11MmBackward0E"; of static storage */
    bool is_known;   /* the thread of mt_torch_backward_begin created it; then `number` is its number */
    uint64_t number;
};

/* PyTorch's graph, as functions. */
struct mt_torch_graph {
    /* Returns the number that the calling thread's next node gets. */
    uint64_t (*next)(void);

    /* Finds the node that the calling thread runs. False if it runs none. */
    bool (*running)(struct mt_torch_node *out);
};

/* Starts keeping boundaries of the calling thread's modules. `graph` must live until the process ends. */
void mt_torch_backward_begin(const struct mt_torch_graph *graph);

/* Keeps a boundary: from now on the thread's nodes belong to the current label's span. Does nothing in other
 * threads. */
void mt_torch_backward_mark(void);

/* Returns the thread's current label: in backward, the label of the running node's module; otherwise
 * mt_torch_label_now. Sets *class_name to the class of the node, or to NULL if the label does not come from a node. */
struct mt_torch_label mt_torch_label_here(const char **class_name);

/* True if the calling thread runs a node of autograd, as far as that is known. */
bool mt_torch_backward_is_running(void);

/* Begins anew, for tests. */
void mt_torch_backward_forget(void);
