/* How an allocator follows a plan: an arena, one segment of the plan's size, in which each planned request gets its
 * place.
 *
 * The arena's free blocks are not in the policy's index, where others would find them, but in the follower's, by place.
 * So while a plan is followed, the allocator's policy is the one it had but for the blocks of the arena.
 *
 * Everything here is called with the allocator's lock held. */
#ifndef MT_ALLOC_FOLLOW_H
#define MT_ALLOC_FOLLOW_H

#include "alloc/block.h"

/* For an allocator that has a follower: where the next request of `stream` lies by the plan, a block of it, out of
 * every index; NULL if the request, of `bytes` as the policy rounds it, is not the planned one, or if its place is
 * taken. Each request is told exactly once. */
struct mt_block *mt_follow_take(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes);

/* From now on requests are those of a step. */
void mt_follow_step(struct mt_alloc *alloc, uint64_t step);

/* Follows no more: hands the arena over to the policy. False if there was none to hand over. */
bool mt_follow_give_up(struct mt_alloc *alloc);

/* Called for a segment that goes back to the device, when its block has left the index: of the arena that is the plan's
 * end. */
void mt_follow_unmapped(struct mt_alloc *alloc, const struct mt_segment *segment);

/* NULL is allowed. */
void mt_follower_destroy(struct mt_follower *follower);

#endif
