/* The roles that blocks seem to have by their lives alone, without names: when a block was allocated and freed, and how
 * sizes recur.
 *
 *   allocated    live until       seems
 *   init         the end          a parameter
 *   forward      backward         an activation            (an input if allocated outside modules before they run)
 *   backward     after backward   a gradient
 *   optimizer    after it         optimizer state         (a parameter if it replaces one: replaced_blocks.h)
 *   forward      the end          kept, if backward no longer needs it
 *   any          in its phase     temporary
 *   before all   …                by its size: a step's number of gradients of that size are parameters, and whole
 *                                 multiples of that number are optimizer state
 *
 * Blocks are unknown if the recording has no request. If the recording or the memory ends before a block shows its
 * role, the block counts like earlier equal blocks. Threads: one at a time. */
#pragma once

#include "producers/file/torch_course.h"

struct mt_block_lives;

/* Borrows the snapshot and the course. */
struct mt_block_lives *mt_block_lives_create(const struct mt_torch_snapshot *snapshot,
                                             const struct mt_torch_course *course, struct mt_torch_callers *callers);
void mt_block_lives_destroy(struct mt_block_lives *lives); /* may be NULL */

/* Returns the role that the life of the request's block shows; MT_ROLE_OTHER if none. */
mt_role mt_block_lives_role(struct mt_block_lives *lives, const struct mt_torch_request *request);
