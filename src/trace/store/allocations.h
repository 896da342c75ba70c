/* How many allocations there were of each (label, requested bytes), and where the first was. Bounded: beyond twice
 * MT_SUMMARY_ALLOCATIONS pairs the smallest sizes are dropped, for good; what is kept is exact. */
#ifndef MT_TRACE_ALLOCATIONS_H
#define MT_TRACE_ALLOCATIONS_H

#include "base/label.h"

/* One pair. count 0: a free slot. */
struct mt_allocation_row {
    uint64_t requested_bytes;
    int64_t first_event;
    uint64_t count;
    uint32_t label; /* its number */
};

/* Invariants: used * 2 <= mask + 1, a power of two; every allocation of at least complete_from_bytes is counted, no
 * smaller one is. */
struct mt_allocations {
    struct mt_allocation_row *rows;
    size_t mask, used;
    size_t limit; /* used rows at which the smallest sizes go */
    uint64_t complete_from_bytes;
};

void mt_allocations_create(struct mt_allocations *allocations);
void mt_allocations_release(struct mt_allocations *allocations);

void mt_allocations_add(struct mt_allocations *allocations, uint32_t label, uint64_t requested_bytes, int64_t event);

#endif
