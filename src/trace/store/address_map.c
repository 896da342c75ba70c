#include "trace/store/address_map.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ENTRIES = 128, FIRST_CHUNKS = 16 };

struct mt_address_chunk {
    size_t count;
    char entries[];
};

/* The place of an entry. */
struct place {
    size_t chunk, index;
};

static char *entry_at(const struct mt_address_map *map, struct place place)
{
    return map->chunks[place.chunk]->entries + place.index * map->entry_bytes;
}

static struct mt_address_range range_at(const struct mt_address_map *map, struct place place)
{
    struct mt_address_range range;
    memcpy(&range, entry_at(map, place), sizeof range);
    return range;
}

static struct mt_address_chunk *new_chunk(const struct mt_address_map *map)
{
    return mt_host_alloc(sizeof(struct mt_address_chunk) + CHUNK_ENTRIES * map->entry_bytes);
}

/* Inserts a chunk at index `at`. */
static void insert_chunk(struct mt_address_map *map, size_t at, struct mt_address_chunk *chunk)
{
    assert(at <= map->chunk_count && map->chunk_count <= map->chunk_capacity);
    if (map->chunk_count == map->chunk_capacity) {
        map->chunk_capacity *= 2;
        map->chunks = mt_host_resize(map->chunks, map->chunk_capacity, sizeof *map->chunks);
        map->firsts = mt_host_resize(map->firsts, map->chunk_capacity, sizeof *map->firsts);
    }
    size_t after = map->chunk_count++ - at;
    memmove(map->chunks + at + 1, map->chunks + at, after * sizeof *map->chunks);
    memmove(map->firsts + at + 1, map->firsts + at, after * sizeof *map->firsts);
    map->chunks[at] = chunk;
}

static void remove_chunk(struct mt_address_map *map, size_t at)
{
    assert(map->chunk_count > 1 && map->chunks[at]->count == 0);
    free(map->chunks[at]);
    size_t after = --map->chunk_count - at;
    memmove(map->chunks + at, map->chunks + at + 1, after * sizeof *map->chunks);
    memmove(map->firsts + at, map->firsts + at + 1, after * sizeof *map->firsts);
}

void mt_address_map_create(struct mt_address_map *map, size_t entry_bytes)
{
    assert(entry_bytes >= sizeof(struct mt_address_range));
    *map = (struct mt_address_map){.entry_bytes = entry_bytes, .chunk_capacity = FIRST_CHUNKS};
    map->chunks = mt_host_alloc(FIRST_CHUNKS * sizeof *map->chunks);
    map->firsts = mt_host_alloc(FIRST_CHUNKS * sizeof *map->firsts);
    insert_chunk(map, 0, new_chunk(map)); /* the only one that may be empty */
    map->firsts[0] = 0;
}

void mt_address_map_release(struct mt_address_map *map)
{
    for (size_t i = 0; i < map->chunk_count; i++)
        free(map->chunks[i]);
    free(map->chunks);
    free(map->firsts);
    *map = (struct mt_address_map){0};
}

/* Returns the last chunk that begins at or before the address; the first if none does. So an added entry becomes the
 * first of a chunk only in chunk 0. */
static size_t chunk_of(const struct mt_address_map *map, mt_addr address)
{
    size_t low = 0, high = map->chunk_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->firsts[middle] <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the place of the first entry that ends after the address. It is one past the last of its chunk if the chunk
 * has none. */
static struct place place_of(const struct mt_address_map *map, mt_addr address)
{
    struct place place = {chunk_of(map, address), 0};
    size_t low = 0, high = map->chunks[place.chunk]->count;
    while (low < high) {
        place.index = low + (high - low) / 2;
        if (range_at(map, place).end <= address)
            low = place.index + 1;
        else
            high = place.index;
    }
    place.index = low;
    return place;
}

void *mt_address_map_find(const struct mt_address_map *map, mt_addr begin, mt_addr end)
{
    if (begin >= end)
        return NULL;
    struct place place = place_of(map, begin);
    if (place.index == map->chunks[place.chunk]->count)
        place = (struct place){place.chunk + 1, 0};
    if (place.chunk == map->chunk_count || range_at(map, place).begin >= end)
        return NULL;
    return entry_at(map, place);
}

/* Moves the upper half of a full chunk into a new one after it. */
static void split(struct mt_address_map *map, size_t at)
{
    struct mt_address_chunk *low = map->chunks[at], *high = new_chunk(map);
    assert(low->count == CHUNK_ENTRIES);
    high->count = low->count / 2;
    low->count -= high->count;
    memcpy(high->entries, low->entries + low->count * map->entry_bytes, high->count * map->entry_bytes);
    insert_chunk(map, at + 1, high);
    map->firsts[at + 1] = range_at(map, (struct place){at + 1, 0}).begin;
}

void mt_address_map_add(struct mt_address_map *map, const void *entry)
{
    struct mt_address_range range;
    memcpy(&range, entry, sizeof range);
    assert(range.begin < range.end && mt_address_map_find(map, range.begin, range.end) == NULL);
    struct place place = place_of(map, range.begin);
    if (map->chunks[place.chunk]->count == CHUNK_ENTRIES) {
        split(map, place.chunk);
        place = place_of(map, range.begin);
    }
    struct mt_address_chunk *chunk = map->chunks[place.chunk];
    char *at = entry_at(map, place);
    memmove(at + map->entry_bytes, at, (chunk->count - place.index) * map->entry_bytes);
    memcpy(at, entry, map->entry_bytes);
    chunk->count++;
    map->count++;
    assert(chunk->count <= CHUNK_ENTRIES && (place.index > 0 || place.chunk == 0));
}

void mt_address_map_remove(struct mt_address_map *map, mt_addr address)
{
    struct place place = place_of(map, address);
    struct mt_address_chunk *chunk = map->chunks[place.chunk];
    assert(place.index < chunk->count && range_at(map, place).begin <= address);
    char *at = entry_at(map, place);
    memmove(at, at + map->entry_bytes, (--chunk->count - place.index) * map->entry_bytes);
    map->count--;
    if (chunk->count == 0 && map->chunk_count > 1)
        remove_chunk(map, place.chunk);
    else if (place.index == 0 && chunk->count > 0)
        map->firsts[place.chunk] = range_at(map, place).begin;
}
