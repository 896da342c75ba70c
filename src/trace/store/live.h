/* The blocks that are live: found by address, listed in the order in which they were allocated.
 *
 * Event ids only grow, so a list to whose end every new block goes is always sorted by id, and a checkpoint is one walk
 * along it. */
#ifndef MT_TRACE_LIVE_H
#define MT_TRACE_LIVE_H

#include "base/number_map.h"
#include "base/types.h"

/* One live block. Freed entries are chained through `next` from `mt_live.free`. */
struct mt_live_block {
    int64_t event; /* id of its alloc */
    uint32_t previous, next;
};

/* Invariants: entry 0 is the list's end on both sides; by_address maps the address of every listed block to its entry;
 * ids ascend along the list. */
struct mt_live {
    struct mt_number_map by_address;
    struct mt_live_block *blocks;
    uint32_t used; /* entries in use or chained */
    uint32_t free; /* 0: none */
};

void mt_live_create(struct mt_live *live);
void mt_live_release(struct mt_live *live);

static inline size_t mt_live_count(const struct mt_live *live)
{
    return live->by_address.count;
}

/* `event` is larger than every id before. A block that is live at this address already is taken for freed.
 * MT_NUMBER_MAP_NO_KEY, which is no address, is ignored. */
void mt_live_add(struct mt_live *live, mt_addr address, int64_t event);

/* The id of the alloc that is live at this address, no longer live now; 0 if there is none. */
int64_t mt_live_take(struct mt_live *live, mt_addr address);

/* The ids as unsigned LEB128 numbers: each as the difference to the one before, the first to `base`. *out is allocated
 * and the caller's. */
size_t mt_live_encode(const struct mt_live *live, int64_t base, unsigned char **out);

#endif
