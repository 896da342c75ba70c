#include "device/cuda/cuda_stream.h"

#include "base/memory.h"
#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/product_choice.h"

#include <assert.h>
#include <stdlib.h>

/* Adds partial sums of bf16 products in fp32, not in bf16. */
static const cublasMath_t FULL_PRECISION_SUMS =
    (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);

mt_status mt_cuda_library_start(struct mtk_queue *queue, const char *device)
{
    cublasStatus_t outcome = cublasCreate(&queue->blas);
    if (outcome == CUBLAS_STATUS_SUCCESS)
        outcome = cublasSetStream(queue->blas, queue->stream);
    if (outcome == CUBLAS_STATUS_SUCCESS)
        outcome = cublasSetMathMode(queue->blas, FULL_PRECISION_SUMS);
    if (outcome == CUBLAS_STATUS_SUCCESS)
        return MT_OK;
    return mt_fail_context(mtk_blas_fail(outcome, "cuBLAS does not start"), "%s", device);
}

/* Creates a stream. If kernels of several streams are ready, those of stream 0 have priority. */
static mt_status create_queue(mt_stream number, cudaStream_t *out)
{
    int lowest = 0, highest = 0;
    MT_TRY(mtk_cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange"));
    return mtk_cuda_check(cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, number == 0 ? highest : lowest),
                          "cudaStreamCreateWithPriority");
}

/* Creates the queue and the event, without cuBLAS. */
static mt_status start_stream(struct mt_cuda_stream *stream, mt_stream number, int capability)
{
    stream->number = number;
    stream->is_own = true;
    stream->queue.capability = capability;
    MT_TRY(create_queue(number, &stream->queue.stream));
    return mtk_cuda_check(cudaEventCreateWithFlags(&stream->reached, cudaEventDisableTiming),
                          "cudaEventCreateWithFlags");
}

static void end_stream(struct mt_cuda_stream *stream)
{
    mtk_choices_destroy(stream->queue.choices);
    if (stream->queue.blas != NULL)
        (void)cublasDestroy(stream->queue.blas);
    if (stream->reached != NULL)
        (void)cudaEventDestroy(stream->reached);
    if (stream->queue.stream != NULL)
        (void)cudaStreamDestroy(stream->queue.stream);
    stream->queue = (struct mtk_queue){0};
    stream->reached = NULL;
}

mt_status mt_cuda_streams_start(struct mt_cuda_streams *streams, int capability)
{
    mt_mutex_create(&streams->lock, MT_RANK_DEVICE);
    return start_stream(&streams->first, 0, capability);
}

void mt_cuda_streams_end(struct mt_cuda_streams *streams)
{
    while (streams->first.next != NULL) {
        struct mt_cuda_stream *stream = streams->first.next;
        streams->first.next = stream->next;
        end_stream(stream);
        free(stream);
    }
    end_stream(&streams->first);
    mt_mutex_destroy(&streams->lock);
}

/* Creates a stream or, if that fails, another number for stream 0, and lists it. */
static struct mt_cuda_stream *add_stream(struct mt_cuda_streams *streams, mt_stream number)
{
    struct mt_cuda_stream *stream = mt_host_alloc(sizeof *stream);
    mt_status status = start_stream(stream, number, streams->first.queue.capability);
    MT_THEN(status, mt_cuda_library_start(&stream->queue, "another stream"));
    if (status != MT_OK) {
        end_stream(stream);
        stream->is_own = false;
    }
    stream->next = streams->first.next;
    streams->first.next = stream;
    return stream;
}

/* Returns the stream for the work of this number. The lock is held. */
static struct mt_cuda_stream *find_stream(struct mt_cuda_streams *streams, mt_stream number)
{
    struct mt_cuda_stream *stream = &streams->first;
    while (stream != NULL && stream->number != number)
        stream = stream->next;
    if (stream == NULL)
        stream = add_stream(streams, number);
    assert(streams->first.is_own);
    return stream->is_own ? stream : &streams->first;
}

struct mtk_queue *mt_cuda_stream_queue(struct mt_cuda_streams *streams, mt_stream number)
{
    if (number == 0)
        return &streams->first.queue;
    mt_mutex_take(&streams->lock);
    struct mt_cuda_stream *stream = find_stream(streams, number);
    mt_mutex_give(&streams->lock);
    return &stream->queue;
}

/* Makes stream `later` wait for stream `earlier`. The lock is held. */
static mt_status follow(struct mt_cuda_stream *later, struct mt_cuda_stream *earlier)
{
    if (later == earlier)
        return MT_OK;
    MT_TRY(mtk_cuda_check(cudaEventRecord(earlier->reached, earlier->queue.stream), "cudaEventRecord"));
    return mtk_cuda_check(cudaStreamWaitEvent(later->queue.stream, earlier->reached, 0), "cudaStreamWaitEvent");
}

mt_status mt_cuda_stream_follow(struct mt_cuda_streams *streams, mt_stream later, mt_stream earlier)
{
    mt_mutex_take(&streams->lock);
    mt_status status = follow(find_stream(streams, later), find_stream(streams, earlier));
    mt_mutex_give(&streams->lock);
    return status;
}

mt_status mt_cuda_streams_wait(struct mt_cuda_streams *streams)
{
    mt_status status = MT_OK;
    mt_mutex_take(&streams->lock);
    for (struct mt_cuda_stream *stream = &streams->first; stream != NULL; stream = stream->next)
        if (stream->is_own && status == MT_OK)
            status = mtk_cuda_check(cudaStreamSynchronize(stream->queue.stream), "cudaStreamSynchronize");
    mt_mutex_give(&streams->lock);
    return status;
}
