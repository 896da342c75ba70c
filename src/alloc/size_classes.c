#include "alloc/size_classes.h"
#include "base/random.h"

enum { NEXT, PREVIOUS, STEP_BITS = 5, SEARCH_LIMIT = 8 };

struct class
{
    unsigned level, step;
};

static struct class class_of(uint64_t bytes)
{
    uint64_t units = bytes / MT_BLOCK_UNIT;
    if (units < MT_CLASS_STEPS)
        return (struct class){0, (unsigned)units};
    unsigned top = 63 - (unsigned)__builtin_clzll(units);
    return (struct class){top - STEP_BITS + 1, (unsigned)(units >> (top - STEP_BITS)) & (MT_CLASS_STEPS - 1)};
}

void mt_size_classes_insert(struct mt_size_classes *classes, struct mt_block *block)
{
    struct class at = class_of(block->bytes);
    struct mt_block **first = &classes->first[at.level][at.step];
    block->link[NEXT] = *first;
    block->link[PREVIOUS] = NULL;
    if (*first != NULL)
        (*first)->link[PREVIOUS] = block;
    *first = block;
    classes->steps[at.level] |= 1u << at.step;
    classes->levels |= UINT64_C(1) << at.level;
}

/* Clears the bits of a class that has become empty. */
static void clear_class(struct mt_size_classes *classes, struct class at)
{
    classes->steps[at.level] &= ~(1u << at.step);
    if (classes->steps[at.level] == 0)
        classes->levels &= ~(UINT64_C(1) << at.level);
}

void mt_size_classes_remove(struct mt_size_classes *classes, struct mt_block *block)
{
    struct mt_block *next = block->link[NEXT], *previous = block->link[PREVIOUS];
    if (next != NULL)
        next->link[PREVIOUS] = previous;
    if (previous != NULL) {
        previous->link[NEXT] = next;
        return;
    }
    struct class at = class_of(block->bytes);
    classes->first[at.level][at.step] = next;
    if (next == NULL)
        clear_class(classes, at);
}

/* The tightest fit among the first blocks of a list. */
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

/* The first class after `at` that holds a block; false if there is none. */
static bool next_class(const struct mt_size_classes *classes, struct class *at)
{
    uint32_t steps = classes->steps[at->level] & (uint32_t)(UINT64_C(0xFFFFFFFE) << at->step);
    if (steps == 0) {
        uint64_t levels = classes->levels >> at->level >> 1;
        if (levels == 0)
            return false;
        at->level += 1 + (unsigned)__builtin_ctzll(levels);
        steps = classes->steps[at->level];
    }
    at->step = (unsigned)__builtin_ctz(steps);
    return true;
}

struct mt_block *mt_size_classes_find(const struct mt_size_classes *classes, uint64_t bytes)
{
    struct class at = class_of(bytes);
    struct mt_block *block = best_of_list(classes->first[at.level][at.step], bytes);
    if (block != NULL || !next_class(classes, &at))
        return block;
    return best_of_list(classes->first[at.level][at.step], bytes);
}

bool mt_size_classes_hold(const struct mt_size_classes *classes, const struct mt_block *block)
{
    struct class at = class_of(block->bytes);
    const struct mt_block *entry = classes->first[at.level][at.step];
    while (entry != NULL && entry != block)
        entry = entry->link[NEXT];
    return entry == block;
}

uint64_t mt_size_classes_fold(const struct mt_size_classes *classes, uint64_t sum)
{
    for (unsigned level = 0; level < MT_CLASS_LEVELS; level++)
        for (uint32_t steps = classes->steps[level]; steps != 0; steps &= steps - 1)
            for (const struct mt_block *block = classes->first[level][__builtin_ctz(steps)]; block != NULL;
                 block = block->link[NEXT])
                sum = mt_splitmix64(mt_splitmix64(sum ^ block->segment->birth) ^ block->offset);
    return sum;
}

static mt_status check_list(const struct mt_size_classes *classes, struct class at, uint64_t *blocks)
{
    const struct mt_block *previous = NULL;
    for (const struct mt_block *block = classes->first[at.level][at.step]; block != NULL; block = block->link[NEXT]) {
        struct class own = class_of(block->bytes);
        if (own.level != at.level || own.step != at.step)
            return mt_fail(MT_FAILED, "a free block is in size class %u.%u and belongs to %u.%u", at.level, at.step,
                           own.level, own.step);
        if (block->link[PREVIOUS] != previous)
            return mt_fail(MT_FAILED, "the list of size class %u.%u is not linked back", at.level, at.step);
        previous = block;
        ++*blocks;
    }
    bool marked = classes->steps[at.level] >> at.step & 1;
    if (marked != (previous != NULL))
        return mt_fail(MT_FAILED, "size class %u.%u is marked %s", at.level, at.step, marked ? "full" : "empty");
    return MT_OK;
}

mt_status mt_size_classes_check(const struct mt_size_classes *classes, uint64_t *blocks)
{
    for (unsigned level = 0; level < MT_CLASS_LEVELS; level++) {
        bool marked = classes->levels >> level & 1;
        if (marked != (classes->steps[level] != 0))
            return mt_fail(MT_FAILED, "size level %u is marked %s", level, marked ? "full" : "empty");
        for (unsigned step = 0; step < MT_CLASS_STEPS; step++) {
            mt_status status = check_list(classes, (struct class){level, step}, blocks);
            if (status != MT_OK)
                return status;
        }
    }
    return MT_OK;
}
