#include "device/cuda/cuda_graph.h"

#include "kernels/cuda/cuda_call.h"

#include <assert.h>
#include <stddef.h>

/* Captured work is not queued, so a step that can't be captured can't continue without a graph either. */
static mt_status fail_step(mt_status status)
{
    return mt_fail_context(status, "a step could not be queued as one (cuda-graph off does without)");
}

static void forget(struct mt_cuda_graph *graph)
{
    if (graph->graph != NULL)
        (void)cudaGraphExecDestroy(graph->graph);
    *graph = (struct mt_cuda_graph){0};
}

/* Returns the entry of a key, new or existing. */
static struct mt_cuda_graph *find(struct mt_cuda_graphs *graphs, uint64_t key)
{
    struct mt_cuda_graph *oldest = &graphs->list[0];
    for (int i = 0; i < MT_CUDA_GRAPHS; i++) {
        struct mt_cuda_graph *graph = &graphs->list[i];
        if (graph->used_at > 0 && graph->key == key)
            return graph;
        if (graph->used_at < oldest->used_at)
            oldest = graph;
    }
    forget(oldest);
    oldest->key = key;
    return oldest;
}

mt_status mt_cuda_graph_begin(struct mt_cuda_graphs *graphs, uint64_t key, cudaStream_t stream)
{
    assert(graphs->current == NULL && graphs->mode == MT_CUDA_GRAPH_QUEUES);
    struct mt_cuda_graph *graph = find(graphs, key);
    bool is_known = graph->used_at > 0;
    mt_status status = MT_OK;
    graph->used_at = ++graphs->begins;
    graphs->current = graph;
    if (!is_known)
        return MT_OK;
    graphs->mode = graph->graph != NULL ? MT_CUDA_GRAPH_REPLAYS : MT_CUDA_GRAPH_CAPTURES;
    if (graphs->mode == MT_CUDA_GRAPH_REPLAYS)
        status = mtk_cuda_check(cudaGraphLaunch(graph->graph, stream), "cudaGraphLaunch");
    else /* relaxed: the allocator may allocate from the driver meanwhile */
        status = mtk_cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    if (status == MT_OK)
        return MT_OK;
    graphs->mode = MT_CUDA_GRAPH_QUEUES;
    graphs->current = NULL;
    return fail_step(status);
}

/* Creates the current graph from the capture, and launches it. */
static mt_status finish(struct mt_cuda_graph *current, cudaStream_t stream)
{
    cudaGraph_t captured = NULL;
    mt_status status = mtk_cuda_check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    MT_THEN(status, mtk_cuda_check(cudaGraphInstantiate(&current->graph, captured, 0), "cudaGraphInstantiate"));
    MT_THEN(status, mtk_cuda_check(cudaGraphLaunch(current->graph, stream), "cudaGraphLaunch"));
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    if (status == MT_OK)
        return MT_OK;
    forget(current);
    return fail_step(status);
}

mt_status mt_cuda_graph_end(struct mt_cuda_graphs *graphs, cudaStream_t stream)
{
    assert(graphs->current != NULL);
    mt_status status = MT_OK;
    if (graphs->mode == MT_CUDA_GRAPH_CAPTURES)
        status = finish(graphs->current, stream);
    graphs->mode = MT_CUDA_GRAPH_QUEUES;
    graphs->current = NULL;
    return status;
}

/* Ends a capture. If it was invalidated by an operation in it, it ends with an error and without a graph. */
static void throw_capture_away(cudaStream_t stream)
{
    cudaGraph_t captured = NULL;
    (void)cudaStreamEndCapture(stream, &captured);
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    (void)cudaGetLastError(); /* otherwise it would be the next launch's error */
}

mt_status mt_cuda_graph_drop(struct mt_cuda_graphs *graphs, cudaStream_t stream)
{
    assert(graphs->current != NULL);
    mt_cuda_graph_mode mode = graphs->mode;
    if (mode == MT_CUDA_GRAPH_CAPTURES)
        throw_capture_away(stream);
    forget(graphs->current);
    graphs->mode = MT_CUDA_GRAPH_QUEUES;
    graphs->current = NULL;
    if (mode == MT_CUDA_GRAPH_QUEUES)
        return MT_OK;
    return fail_step(mt_fail(MT_FAILED, "memory was requested in a step that the graph recorded without"));
}

mt_status mt_cuda_graph_mark(const struct mt_cuda_graphs *graphs, cudaEvent_t event, cudaStream_t stream)
{
    if (graphs->mode == MT_CUDA_GRAPH_REPLAYS)
        return MT_OK;
    unsigned flags = graphs->mode == MT_CUDA_GRAPH_CAPTURES ? cudaEventRecordExternal : cudaEventRecordDefault;
    return mtk_cuda_check(cudaEventRecordWithFlags(event, stream, flags), "cudaEventRecordWithFlags");
}

void mt_cuda_graphs_forget(struct mt_cuda_graphs *graphs)
{
    for (int i = 0; i < MT_CUDA_GRAPHS; i++)
        forget(&graphs->list[i]);
}
