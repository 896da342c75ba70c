#include "trace/store/live.h"

#include "base/memory.h"

#include <stdlib.h>

enum { LEB128_MOST_BYTES = 10 };

void mt_live_create(struct mt_live *live)
{
    mt_number_map_create(&live->by_address);
    live->blocks = mt_host_alloc(sizeof *live->blocks);
    live->used = 1;
    live->free = 0;
}

void mt_live_release(struct mt_live *live)
{
    mt_number_map_release(&live->by_address);
    free(live->blocks);
    *live = (struct mt_live){0};
}

static uint32_t new_entry(struct mt_live *live)
{
    uint32_t entry = live->free;
    if (entry != 0) {
        live->free = live->blocks[entry].next;
        return entry;
    }
    live->blocks = mt_host_room(live->blocks, live->used, sizeof *live->blocks);
    return live->used++;
}

void mt_live_add(struct mt_live *live, mt_addr address, int64_t event)
{
    if (address == MT_NUMBER_MAP_NO_KEY)
        return;
    mt_live_take(live, address);
    uint32_t entry = new_entry(live);
    struct mt_live_block *end = &live->blocks[0];
    live->blocks[entry] = (struct mt_live_block){.event = event, .previous = end->previous, .next = 0};
    live->blocks[end->previous].next = entry;
    end->previous = entry;
    mt_number_map_put(&live->by_address, address, entry);
}

int64_t mt_live_take(struct mt_live *live, mt_addr address)
{
    uint64_t entry;
    if (!mt_number_map_take(&live->by_address, address, &entry))
        return 0;
    struct mt_live_block *block = &live->blocks[entry];
    live->blocks[block->previous].next = block->next;
    live->blocks[block->next].previous = block->previous;
    block->next = live->free;
    live->free = (uint32_t)entry;
    return block->event;
}

static unsigned char *put_leb128(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

size_t mt_live_encode(const struct mt_live *live, int64_t base, unsigned char **out)
{
    unsigned char *at = *out = mt_host_alloc(mt_live_count(live) * LEB128_MOST_BYTES + 1);
    for (uint32_t entry = live->blocks[0].next; entry != 0; entry = live->blocks[entry].next) {
        at = put_leb128(at, (uint64_t)(live->blocks[entry].event - base));
        base = live->blocks[entry].event;
    }
    return (size_t)(at - *out);
}
