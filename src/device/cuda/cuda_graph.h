/* Steps that a card repeats. A key identifies the work between begin and end. The first time, the work of a key is
 * queued op by op. The second time it is captured as a graph, which is then launched. From then on begin launches the
 * graph, and the host queues nothing until end.
 *
 * Captured work uses the addresses with which it was captured: equal keys must mean equal launches. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* How the work between begin and end is handled. Outside of them, work is queued. */
typedef enum mt_cuda_graph_mode {
    MT_CUDA_GRAPH_QUEUES,
    MT_CUDA_GRAPH_CAPTURES,
    MT_CUDA_GRAPH_REPLAYS
} mt_cuda_graph_mode;

/* A key with its graph; NULL before it is captured. */
struct mt_cuda_graph {
    uint64_t key;
    uint64_t used_at; /* number of the last begin that used it; 0: a free entry */
    cudaGraphExec_t graph;
};

enum { MT_CUDA_GRAPHS = 8 };

/* Initially all zero. Invariants: used entries have different keys; `current` is one of them between begin and end;
 * outside, it is NULL and the mode is MT_CUDA_GRAPH_QUEUES. */
struct mt_cuda_graphs {
    struct mt_cuda_graph list[MT_CUDA_GRAPHS];
    struct mt_cuda_graph *current;
    mt_cuda_graph_mode mode;
    uint64_t begins;
};

/* Begin and end the work of `key`. If there are too many keys, the least recently used one is discarded. */
mt_status mt_cuda_graph_begin(struct mt_cuda_graphs *graphs, uint64_t key, cudaStream_t stream);
mt_status mt_cuda_graph_end(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* Replaces end: discards the key, and launches nothing of the capture. Fails with MT_FAILED unless the work was queued
 * op by op. */
mt_status mt_cuda_graph_drop(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* Records an event in the queue, or in the capture. A graph records it again when it is launched. */
mt_status mt_cuda_graph_mark(const struct mt_cuda_graphs *graphs, cudaEvent_t event, cudaStream_t stream);

/* Discards every key and destroys the graphs. Not between begin and end. */
void mt_cuda_graphs_forget(struct mt_cuda_graphs *graphs);
