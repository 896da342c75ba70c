/* The streams of a card: concurrent work queues, each with its own cuBLAS handle. Stream 0 always exists, others are
 * created on first use.
 *
 *   stream 0   queue ──kernel──kernel──┬─────────────────┬──kernel──▶
 *   stream 1            queue ──kernel─┴──kernel ···     ╰ waits for stream 1 on the card; the host does not wait
 *
 * Threads: any. */
#pragma once

#include "base/lock.h"
#include "base/status.h"
#include "base/types.h"
#include "kernels/cuda/queue.h"

#include <stdbool.h>

/* Invariant: if is_own, the stream has a queue and an event. For a stream that could not be created, is_own is false:
 * its work goes to stream 0 from then on, which keeps its order. */
struct mt_cuda_stream {
    mt_stream number;
    bool is_own;
    struct mtk_queue queue;
    cudaEvent_t reached; /* recorded again for each wait of another stream */
    struct mt_cuda_stream *next;
};

struct mt_cuda_streams {
    struct mt_cuda_stream first; /* stream 0 */
    struct mt_mutex lock;        /* guards the list, and each event from its record to the wait for it */
};

/* Creates stream 0, without cuBLAS. `capability` as in struct mtk_queue. The caller ends the streams even if this
 * fails. */
mt_status mt_cuda_streams_start(struct mt_cuda_streams *streams, int capability);
void mt_cuda_streams_end(struct mt_cuda_streams *streams);

/* Starts the cuBLAS of a queue. Errors name `device`. */
mt_status mt_cuda_library_start(struct mtk_queue *queue, const char *device);

/* Returns the queue of a stream, and creates it if necessary. The card must be current for the thread. */
struct mtk_queue *mt_cuda_stream_queue(struct mt_cuda_streams *streams, mt_stream number);

/* Makes work queued on `later` from now on wait for work queued on `earlier` so far. */
mt_status mt_cuda_stream_follow(struct mt_cuda_streams *streams, mt_stream later, mt_stream earlier);

/* Waits for the work of all streams. */
mt_status mt_cuda_streams_wait(struct mt_cuda_streams *streams);
