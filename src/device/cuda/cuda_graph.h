/* Steps that a card repeats. What is queued between begin and end is known by a key: the first time that one comes up,
 * work is queued as always; the second time it is captured as a graph, which is then launched; from then on the graph
 * is launched at begin, and what the host would queue until end is left out.
 *
 * Captured work writes and reads the addresses that it was captured with: equal keys promise equal launches. */
#ifndef MT_DEVICE_CUDA_GRAPH_H
#define MT_DEVICE_CUDA_GRAPH_H

#include "base/status.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* What is done with the work between begin and end; without a begin it is queued. */
typedef enum mt_cuda_graph_mode {
    MT_CUDA_GRAPH_QUEUES,
    MT_CUDA_GRAPH_CAPTURES,
    MT_CUDA_GRAPH_REPLAYS
} mt_cuda_graph_mode;

/* A key that came up; a graph that has none yet is NULL. */
struct mt_cuda_graph {
    uint64_t key;
    uint64_t used_at; /* the number of the begin that used it last; 0: there is no key here */
    cudaGraphExec_t graph;
};

enum { MT_CUDA_GRAPHS = 8 };

/* All zero at first. Invariant: keys of the used ones differ; `current` is one of them, or NULL outside of begin and
 * end. */
struct mt_cuda_graphs {
    struct mt_cuda_graph list[MT_CUDA_GRAPHS];
    struct mt_cuda_graph *current;
    mt_cuda_graph_mode mode;
    uint64_t begins;
};

/* The key that was used the longest ago is forgotten where there are too many. */
mt_status mt_cuda_graph_begin(struct mt_cuda_graphs *graphs, uint64_t key, cudaStream_t stream);
mt_status mt_cuda_graph_end(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* In the place of end: forgets the key, with what was captured, which is not launched. MT_FAILED unless the work was
 * queued as it was given. */
mt_status mt_cuda_graph_drop(struct mt_cuda_graphs *graphs, cudaStream_t stream);

/* Remembers the moment in the queue, also in what is captured; a graph that replays does it by itself. */
mt_status mt_cuda_graph_mark(const struct mt_cuda_graphs *graphs, cudaEvent_t event, cudaStream_t stream);

/* Forgets every key, outside of begin and end: so they are destroyed, too. */
void mt_cuda_graphs_forget(struct mt_cuda_graphs *graphs);

#endif
