/* The streams of a card: queues of work that run beside each other, each with a cuBLAS handle of its own. Stream 0 is there
 * from the beginning, others are made when they are first asked for.
 *
 *   stream 0   queue ──kernel──kernel──┬─────────────────┬──kernel──▶
 *   stream 1            queue ──kernel─┴──kernel ···     ╰ follows stream 1: waits on the card, nobody on the host
 *
 * Threads: any may ask for a stream's queue and let one follow another. */
#ifndef MT_DEVICE_CUDA_STREAM_H
#define MT_DEVICE_CUDA_STREAM_H

#include "base/status.h"
#include "base/types.h"
#include "kernels/cuda/queue.h"

#include <pthread.h>
#include <stdbool.h>

/* Invariant: a stream that is its own has a queue and its event; one that could not be made is stream 0 by another number,
 * for ever, so that the order of its work holds. */
struct mt_cuda_stream {
    mt_stream number;
    bool is_own;
    struct mtk_queue queue;
    cudaEvent_t reached; /* recorded anew whenever another stream follows */
    struct mt_cuda_stream *next;
};

struct mt_cuda_streams {
    struct mt_cuda_stream first; /* stream 0 */
    pthread_mutex_t lock;        /* of the list, and of each event from its record to the wait for it */
};

/* Makes stream 0, without cuBLAS. `overlaps` as struct mtk_queue has it. To be ended, also if it fails. */
mt_status mt_cuda_streams_start(struct mt_cuda_streams *streams, bool overlaps);
void mt_cuda_streams_end(struct mt_cuda_streams *streams);

/* Starts the cuBLAS of a queue; `device` is for the error. */
mt_status mt_cuda_library_start(struct mtk_queue *queue, const char *device);

/* The queue of a stream; the card must be the thread's own. */
struct mtk_queue *mt_cuda_stream_queue(struct mt_cuda_streams *streams, mt_stream number);

/* Work queued on `later` from now on begins after what is queued on `earlier` so far. */
mt_status mt_cuda_stream_follow(struct mt_cuda_streams *streams, mt_stream later, mt_stream earlier);

/* Waits for the work of all streams. */
mt_status mt_cuda_streams_wait(struct mt_cuda_streams *streams);

#endif
