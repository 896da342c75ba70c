/* Rules for streams with special memory, such as private pools. */
#pragma once

#include "base/event.h"

#include <stdbool.h>

/* The rules for a stream's memory. All false: ordinary memory.
 *
 * A private pool, as for PyTorch's CUDA graphs, is memory that serves only the pool's requests. To the allocator, a
 * pool's memory on a stream is a separate stream: the caller numbers each pair of a pool and a stream, and sets these
 * rules for it. */
struct mt_stream_rules {
    bool is_private; /* its segments are not garbage-collected by age, but released while another pool captures */
    bool is_kept;    /* its segments stay mapped while they are idle */
    bool is_unsplit; /* policy torch: a segment is one block */
    bool is_lent;    /* before a request of stream `lent_to` is refused, it gets a free block of this stream */
    mt_stream lent_to;
};
