/* Rules of streams whose memory is not ordinary, such as private pools'. */
#pragma once

#include "base/event.h"

#include <stdbool.h>

/* What is different about the memory of a stream. All false: nothing.
 *
 * A private pool, as PyTorch's CUDA graphs have one, is memory that serves only the requests of the pool. To the allocator, a pool's
 * memory on a stream is a stream of its own: the caller numbers each pair of a pool and a stream, and sets these rules for it. */
struct mt_stream_rules {
    bool is_private; /* its segments are not collected by age, but released while another pool captures */
    bool is_kept;    /* its segments stay mapped while they are idle */
    bool is_unsplit; /* policy torch: a segment is one block */
    bool is_lent;    /* before a request of stream `lent_to` is refused, it gets a free block of this stream */
    mt_stream lent_to;
};
