#include "alloc/size_classes.h"
#include "base/random.h"

enum { NEXT, PREVIOUS, STEP_BITS = 5, SEARCH_LIMIT = 8 };

/* Returns the class of a size. Classes are numbered by level, then by step. The first size of a level above 0 is
 * MT_CLASS_STEPS units, shifted; in levels 0 and 1 a class's number is its number of units. */
static unsigned class_of(uint64_t bytes)
{
    uint64_t units = bytes / MT_BLOCK_UNIT;
    unsigned shift = 63 - STEP_BITS - (unsigned)__builtin_clzll(units | MT_CLASS_STEPS);
    return (shift << STEP_BITS) + (unsigned)(units >> shift);
}

static unsigned level_of(unsigned at)
{
    return at >> STEP_BITS;
}

static unsigned step_of(unsigned at)
{
    return at & (MT_CLASS_STEPS - 1);
}

/* Lists are changed without a branch on the block's position in its list: no processor can predict it, and a wrong
 * prediction costs more than everything else. The write to a missing neighbour goes to `unused`. */
void mt_size_classes_insert(struct mt_size_classes *classes, struct mt_block *block)
{
    unsigned at = class_of(block->bytes);
    assert(at < MT_CLASS_COUNT && classes->first[at] != block);
    struct mt_block *next = classes->first[at], *unused[2];
    block->link[NEXT] = next;
    block->link[PREVIOUS] = NULL;
    (next != NULL ? next->link : unused)[PREVIOUS] = block;
    classes->first[at] = block;
    classes->steps[level_of(at)] |= 1u << step_of(at);
    classes->levels |= UINT64_C(1) << level_of(at);
}

void mt_size_classes_remove(struct mt_size_classes *classes, struct mt_block *block)
{
    unsigned at = class_of(block->bytes), level = level_of(at);
    struct mt_block *next = block->link[NEXT], *previous = block->link[PREVIOUS], *unused[2];
    assert(previous != NULL ? previous->link[NEXT] == block : classes->first[at] == block);
    assert(next == NULL || next->link[PREVIOUS] == block);
    (next != NULL ? next->link : unused)[PREVIOUS] = previous;
    *(previous != NULL ? &previous->link[NEXT] : &classes->first[at]) = next;
    uint32_t is_empty = next == NULL && previous == NULL;
    classes->steps[level] &= ~(is_empty << step_of(at));
    classes->levels &= ~((uint64_t)(classes->steps[level] == 0) << level);
}

/* Returns the best fit among the first SEARCH_LIMIT blocks of a list; NULL if none fits. */
static struct mt_block *best_of_list(struct mt_block *block, uint64_t bytes)
{
    struct mt_block *best = NULL;
    for (int looked = 0; block != NULL && looked < SEARCH_LIMIT; block = block->link[NEXT], looked++) {
        if (block->bytes < bytes || (best != NULL && block->bytes >= best->bytes))
            continue;
        best = block;
        if (best->bytes == bytes)
            break;
    }
    return best;
}

/* Sets *at to the next class that has a block; false if there is none. */
static bool next_class(const struct mt_size_classes *classes, unsigned *at)
{
    unsigned level = level_of(*at);
    uint32_t steps = classes->steps[level] & (uint32_t)(UINT64_C(0xFFFFFFFE) << step_of(*at));
    if (steps == 0) {
        uint64_t levels = classes->levels >> level >> 1;
        if (levels == 0)
            return false;
        level += 1 + (unsigned)__builtin_ctzll(levels);
        steps = classes->steps[level];
    }
    assert(steps != 0);
    *at = (level << STEP_BITS) + (unsigned)__builtin_ctz(steps);
    assert(classes->first[*at] != NULL);
    return true;
}

struct mt_block *mt_size_classes_find(const struct mt_size_classes *classes, uint64_t bytes)
{
    unsigned at = class_of(bytes);
    struct mt_block *block = best_of_list(classes->first[at], bytes);
    if (block != NULL || !next_class(classes, &at))
        return block;
    return best_of_list(classes->first[at], bytes);
}

bool mt_size_classes_hold(const struct mt_size_classes *classes, const struct mt_block *block)
{
    const struct mt_block *entry = classes->first[class_of(block->bytes)];
    while (entry != NULL && entry != block)
        entry = entry->link[NEXT];
    return entry == block;
}

uint64_t mt_size_classes_fold(const struct mt_size_classes *classes, uint64_t sum)
{
    for (unsigned at = 0; at < MT_CLASS_COUNT; at++)
        for (const struct mt_block *block = classes->first[at]; block != NULL; block = block->link[NEXT])
            sum = mt_splitmix64(mt_splitmix64(sum ^ block->segment->birth) ^ block->offset);
    return sum;
}

static mt_status check_list(const struct mt_size_classes *classes, unsigned at, uint64_t *blocks)
{
    const struct mt_block *previous = NULL;
    for (const struct mt_block *block = classes->first[at]; block != NULL; block = block->link[NEXT]) {
        if (class_of(block->bytes) != at)
            return mt_fail(MT_FAILED, "a free block is in size class %u and belongs to %u", at, class_of(block->bytes));
        if (block->link[PREVIOUS] != previous)
            return mt_fail(MT_FAILED, "the list of size class %u is not linked back", at);
        previous = block;
        ++*blocks;
    }
    bool marked = classes->steps[level_of(at)] >> step_of(at) & 1;
    if (marked != (previous != NULL))
        return mt_fail(MT_FAILED, "size class %u is marked %s", at, marked ? "full" : "empty");
    return MT_OK;
}

mt_status mt_size_classes_check(const struct mt_size_classes *classes, uint64_t *blocks)
{
    mt_status status = MT_OK;
    for (unsigned level = 0; level < MT_CLASS_LEVELS && status == MT_OK; level++) {
        bool marked = classes->levels >> level & 1;
        if (marked != (classes->steps[level] != 0))
            return mt_fail(MT_FAILED, "size level %u is marked %s", level, marked ? "full" : "empty");
    }
    for (unsigned at = 0; at < MT_CLASS_COUNT && status == MT_OK; at++)
        status = check_list(classes, at, blocks);
    return status;
}
