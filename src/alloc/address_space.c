#include "alloc/address_space.h"

#include "base/memory.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t CHUNK_BYTES = UINT64_C(32) << 20;
static const uint64_t CONTEXT_FREE_BYTES = UINT64_C(24) << 20;
static const uint64_t MODULES_FREE_BYTES = UINT64_C(400) << 20;

enum { SEGMENTS_BEFORE_MODULES = 2 };

struct mt_free_addresses {
    uint64_t place, bytes;
};

static void insert(struct mt_address_space *space, uint32_t at, struct mt_free_addresses range)
{
    if (space->free_count == space->capacity) {
        space->capacity = space->capacity > 0 ? 2 * space->capacity : 16;
        space->free = mt_host_resize(space->free, space->capacity, sizeof *space->free);
    }
    memmove(&space->free[at + 1], &space->free[at], (space->free_count - at) * sizeof *space->free);
    space->free[at] = range;
    space->free_count++;
}

static void erase(struct mt_address_space *space, uint32_t at)
{
    space->free_count--;
    memmove(&space->free[at], &space->free[at + 1], (space->free_count - at) * sizeof *space->free);
}

/* Returns a new chunk of `bytes` below all others. */
static uint64_t add_chunk(struct mt_address_space *space, uint64_t bytes)
{
    space->lowest -= (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    return space->lowest;
}

struct mt_address_space mt_address_space_create(void)
{
    struct mt_address_space space = {.lowest = UINT64_MAX / CHUNK_BYTES * CHUNK_BYTES};
    mt_address_space_give(&space, add_chunk(&space, CHUNK_BYTES), CONTEXT_FREE_BYTES);
    return space;
}

void mt_address_space_release(struct mt_address_space *space)
{
    free(space->free);
    *space = (struct mt_address_space){0};
}

/* Returns the index of the first free range at or above `place`. */
static uint32_t find(const struct mt_address_space *space, uint64_t place)
{
    uint32_t low = 0, high = space->free_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (space->free[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t mt_address_space_take(struct mt_address_space *space, uint64_t bytes)
{
    assert(bytes > 0);
    if (space->taken++ == SEGMENTS_BEFORE_MODULES)
        mt_address_space_give(space, add_chunk(space, MODULES_FREE_BYTES), MODULES_FREE_BYTES);
    uint32_t at = 0;
    while (at < space->free_count && space->free[at].bytes < bytes)
        at++;
    if (at == space->free_count) {
        const uint64_t chunk = add_chunk(space, bytes), rest = chunk + bytes;
        if (bytes % CHUNK_BYTES != 0)
            mt_address_space_give(space, rest, CHUNK_BYTES - bytes % CHUNK_BYTES);
        return chunk;
    }
    const uint64_t place = space->free[at].place;
    space->free[at].place += bytes;
    space->free[at].bytes -= bytes;
    if (space->free[at].bytes == 0)
        erase(space, at);
    return place;
}

void mt_address_space_give(struct mt_address_space *space, uint64_t place, uint64_t bytes)
{
    uint32_t at = find(space, place);
    assert(place >= space->lowest && (at == space->free_count || place + bytes <= space->free[at].place));
    if (at > 0 && space->free[at - 1].place + space->free[at - 1].bytes == place)
        space->free[--at].bytes += bytes;
    else
        insert(space, at, (struct mt_free_addresses){place, bytes});
    if (at + 1 < space->free_count && space->free[at].place + space->free[at].bytes == space->free[at + 1].place) {
        space->free[at].bytes += space->free[at + 1].bytes;
        erase(space, at + 1);
    }
}

uint64_t mt_address_space_mix(const struct mt_address_space *space, uint64_t sum)
{
    for (uint32_t i = 0; i < space->free_count; i++)
        sum = mt_splitmix64(mt_splitmix64(sum ^ space->free[i].place) ^ space->free[i].bytes);
    return mt_splitmix64(sum ^ space->lowest);
}
