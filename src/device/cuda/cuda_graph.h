/* Steps that a card repeats. A key identifies the work between begin and end. The first time that a key comes up, its
 * work is queued op by op. The second time it is captured as a graph, which is then launched. From then on begin
 * launches the graph, and the host queues nothing until end.
 *
 * Captured work reads and writes the addresses that it was captured with: equal keys promise equal launches. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* The treatment of the work between begin and end. Outside of them work is queued. */
typedef enum mt_cuda_graph_mode {
    MT_CUDA_GRAPH_QUEUES,
    MT_CUDA_GRAPH_CAPTURES,
    MT_CUDA_GRAPH_REPLAYS
} mt_cuda_graph_mode;

/* A key that came up, with its graph, NULL before it is captured. */
struct mt_cuda_graph {
    uint64_t key;
    uint64_t used_at; /* number of the begin that used it last; 0: a free place */
    cudaGraphExec_t graph;
};

enum { MT_CUDA_GRAPHS = 8 };

/* All zero at first. Invariants: used places have different keys; `current` is one of them between begin and end, and
 * NULL with the mode MT_CUDA_GRAPH_QUEUES outside. */
struct mt_cuda_graphs {
    struct mt_cuda_graph list[MT_CUDA_GRAPHS];
    struct mt_cuda_graph *current;
    mt_cuda_graph_mode mode;
    uint64_t begins;
};

/* Begin and end the work of `key`. If there are too many keys, the one that was used the longest ago is forgotten. */
mt_status mt_cuda_graph_begin(struct mt_cuda_graphs *graphs, uint64_t key, cudaStream_t stream);
mt_status mt_cuda_graph_end(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* Takes the place of end: forgets the key, and launches nothing of what was captured. Fails with MT_FAILED unless the
 * work was queued op by op. */
mt_status mt_cuda_graph_drop(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* Notes the moment in the queue, also in what is captured. A graph that replays notes it by itself. */
mt_status mt_cuda_graph_mark(const struct mt_cuda_graphs *graphs, cudaEvent_t event, cudaStream_t stream);

/* Forgets every key and destroys the graphs. Outside of begin and end. */
void mt_cuda_graphs_forget(struct mt_cuda_graphs *graphs);
