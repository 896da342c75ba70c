/* A set of free blocks by size class: two-level segregated fit.
 *
 *   first level: the power of two       second level: 32 equal steps inside it
 *   0:   0 to  31 units                 each class holds one size
 *   1:  32 to  63 units                 each class holds one size
 *   2:  64 to 127 units                 each class spans 2 units, and so on, doubling
 *
 * A unit is MT_BLOCK_UNIT. A bitmap of the levels, and one of each level's classes, find the next class with a block
 * with two instructions each. Masmano, Ripoll, Crespo, Real, "TLSF", ECRTS 2004.
 *
 * A class is a list, newest first, so its order depends on the requests and never on addresses. TLSF takes the first
 * block of the next class. This implementation searches a limited number of blocks for the best fit, beginning in the
 * request's own class, in which only some blocks fit: training repeats the same few sizes, so there is nearly always an
 * exact fit. */
#pragma once

#include "alloc/block.h"

enum { MT_CLASS_STEPS = 32, MT_CLASS_LEVELS = 64 - 9 - 5 + 1, MT_CLASS_COUNT = MT_CLASS_LEVELS * MT_CLASS_STEPS };

/* Invariants: a bit of `steps` is set if its class has a block, a bit of `levels` if any of its steps is set. */
struct mt_size_classes {
    uint64_t levels;
    uint32_t steps[MT_CLASS_LEVELS];
    struct mt_block *first[MT_CLASS_COUNT];
};

/* Add a block that is in no list, and remove one that is in its class's list. */
void mt_size_classes_insert(struct mt_size_classes *classes, struct mt_block *block);
void mt_size_classes_remove(struct mt_size_classes *classes, struct mt_block *block);

/* Returns a block of at least `bytes`. NULL if there is none; never NULL if a higher class has a block. */
struct mt_block *mt_size_classes_find(const struct mt_size_classes *classes, uint64_t bytes);

/* True if `block` is in its class's list. */
bool mt_size_classes_hold(const struct mt_size_classes *classes, const struct mt_block *block);

/* Returns `sum`, mixed with the order of every list. */
uint64_t mt_size_classes_fold(const struct mt_size_classes *classes, uint64_t sum);

/* Compares bitmaps with lists, and links with each other, and adds the number of blocks to *blocks. Fails with
 * MT_FAILED and the first difference. */
mt_status mt_size_classes_check(const struct mt_size_classes *classes, uint64_t *blocks);
