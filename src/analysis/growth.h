/* By how many bytes a segment would have had to grow for a request, where the allocator's segments are ranges of addresses
 * that grow by pages (src/alloc/range.c): less than a new segment takes, since what is free beside the new memory joins it.
 *
 *   ├ block ┼ hole ┼╌╌ no memory ╌╌┼ block ┼ hole ┼╌╌╌ addresses without end ╌╌╌
 *           ├──── the request ────┤
 *                  ├─ must grow ──┤
 *
 * Threads: any; an input is only read. */
#ifndef MT_WHATIF_GROWTH_H
#define MT_WHATIF_GROWTH_H

#include "analysis/advice.h"

/* What asks. */
struct mt_growth_request {
    int64_t event; /* after which the blocks are live and the parts have memory that count */
    mt_stream stream;
    uint64_t block_bytes, small_limit_bytes; /* mt_alloc_need */
};

/* The least that one of the request's segments, those of its stream and pool, would have to grow by. False, and
 * *out_bytes 0, if none can grow: the policy has no ranges, or none of the run's segments ever grew. */
bool mt_growth_find(const struct mt_advice_input *input, const struct mt_growth_request *request, uint64_t *out_bytes);

#endif
