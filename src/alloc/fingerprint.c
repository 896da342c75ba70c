/* One number for all that the next block depends on: how the segments are tiled, which blocks are out, and what the
 * policy remembers beyond that. Who asked, for what and when is left out, so a step that left everything as it found it
 * gives the number of the step before. */
#include "alloc/block.h"
#include "base/random.h"

static uint64_t fold(uint64_t sum, uint64_t value)
{
    return mt_splitmix64(sum ^ value);
}

static uint64_t fold_segment(uint64_t sum, const struct mt_segment *segment)
{
    sum = fold(sum, segment->birth);
    sum = fold(sum, (uint64_t)segment->stream << 8 | (uint64_t)segment->pool);
    for (const struct mt_block *block = segment->first; block != NULL; block = block->after)
        sum = fold(sum, block->bytes << 2 | block->is_hole << 1 | block->is_free);
    return sum;
}

uint64_t mt_alloc_fingerprint(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    uint64_t sum = alloc->next_birth;
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        sum = fold_segment(sum, segment);
    sum = fold(sum, alloc->policy->remembers(alloc));
    mt_biased_lock_give(&alloc->lock);
    return sum;
}
