/* Blocks that an optimizer replaces instead of writing to them: p.data = p.data - update, state["m"] = new_m.
 *
 *   init ─▶ block of a size ─(optimizer allocates a new one, frees this one)─▶ block ─(the next step does so, too)─▶ …
 *           └ root ──────────────────────────────────── a chain ──────────────────────────────────────────────────┘
 *
 * All blocks of a chain have the role of its root. Of the chains of one size with roots from before training, the first
 * are parameters, as many as backward allocates gradients of that size. The others are optimizer states. Threads: one
 * at a time. */
#pragma once

#include "producers/file/torch_course.h"

/* The chains of a snapshot. Invariant: roots[event] is the root of an allocation's chain: an event, or MT_ROOT_FREED
 * plus the event that frees a block from before the recording; MT_NO_EVENT: the allocation is in no chain. */
#define MT_ROOT_FREED (UINT64_C(1) << 32)
struct mt_replaced_blocks {
    uint64_t *roots;
    struct mt_number_map roles; /* mt_role by root */
};

/* Finds the chains. `gradients` maps bytes to the most blocks of that size that one backward allocates and leaves.
 * Release the result. */
void mt_replaced_blocks_create(struct mt_replaced_blocks *blocks, const struct mt_torch_snapshot *snapshot,
                               const struct mt_torch_course *course, const struct mt_number_map *gradients);
void mt_replaced_blocks_release(struct mt_replaced_blocks *blocks);

/* Returns the role of the block that an event allocates; MT_ROLE_OTHER if it is in no chain. */
mt_role mt_replaced_blocks_role(const struct mt_replaced_blocks *blocks, size_t event);

/* Returns the role of a block from before the recording that an event frees; MT_ROLE_OTHER if it is in no chain. */
mt_role mt_replaced_blocks_role_of_freed(const struct mt_replaced_blocks *blocks, size_t event);
