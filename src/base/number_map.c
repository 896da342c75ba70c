#include "base/number_map.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PAIRS = 1024 };

/* Returns the slot where the search for a key begins. The highest bits of a product with an odd constant depend on
 * every bit of the key. */
static size_t home(const struct mt_number_map *map, uint64_t key)
{
    return (size_t)(key * 0x9E3779B97F4A7C15u >> map->shift);
}

/* Gives the map that many free slots. */
static void set_size(struct mt_number_map *map, size_t pairs)
{
    assert(pairs >= 2 && (pairs & (pairs - 1)) == 0);
    map->pairs = mt_host_resize(NULL, pairs, sizeof *map->pairs);
    memset(map->pairs, 0xFF, pairs * sizeof *map->pairs);
    map->mask = pairs - 1;
    map->shift = 64 - __builtin_ctzll(pairs);
    map->count = 0;
}

void mt_number_map_create(struct mt_number_map *map)
{
    set_size(map, FIRST_PAIRS);
}

void mt_number_map_release(struct mt_number_map *map)
{
    free(map->pairs);
    *map = (struct mt_number_map){0};
}

/* Returns the slot of the key, or the free one where it would go. */
static size_t find(const struct mt_number_map *map, uint64_t key)
{
    assert(map->count * 2 <= map->mask + 1); /* or the search might not end */
    size_t slot = home(map, key);
    while (map->pairs[slot].key != key && map->pairs[slot].key != MT_NUMBER_MAP_NO_KEY)
        slot = (slot + 1) & map->mask;
    return slot;
}

static void grow(struct mt_number_map *map)
{
    struct mt_number_map old = *map;
    set_size(map, (old.mask + 1) * 2);
    for (size_t i = 0; i <= old.mask; i++)
        if (old.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            map->pairs[find(map, old.pairs[i].key)] = old.pairs[i];
    map->count = old.count;
    assert(map->count * 2 <= map->mask + 1);
    free(old.pairs);
}

void mt_number_map_put(struct mt_number_map *map, uint64_t key, uint64_t value)
{
    assert(map->pairs != NULL);
    if (key == MT_NUMBER_MAP_NO_KEY)
        return;
    if ((map->count + 1) * 2 > map->mask + 1)
        grow(map);
    size_t slot = find(map, key);
    map->count += map->pairs[slot].key != key;
    map->pairs[slot] = (struct mt_number_pair){key, value};
}

bool mt_number_map_get(const struct mt_number_map *map, uint64_t key, uint64_t *out)
{
    size_t slot = find(map, key);
    if (map->pairs[slot].key == MT_NUMBER_MAP_NO_KEY)
        return false;
    *out = map->pairs[slot].value;
    return true;
}

/* Moves back the pairs that a search would no longer find behind the slot that became free. */
static void close_gap(struct mt_number_map *map, size_t gap)
{
    for (size_t slot = (gap + 1) & map->mask; map->pairs[slot].key != MT_NUMBER_MAP_NO_KEY;
         slot = (slot + 1) & map->mask) {
        size_t wanted = home(map, map->pairs[slot].key);
        if (((slot - wanted) & map->mask) < ((slot - gap) & map->mask))
            continue;
        map->pairs[gap] = map->pairs[slot];
        gap = slot;
    }
    map->pairs[gap].key = MT_NUMBER_MAP_NO_KEY;
}

bool mt_number_map_take(struct mt_number_map *map, uint64_t key, uint64_t *out)
{
    size_t slot = find(map, key);
    if (map->pairs[slot].key == MT_NUMBER_MAP_NO_KEY)
        return false;
    *out = map->pairs[slot].value;
    assert(map->count > 0);
    map->count--;
    close_gap(map, slot);
    return true;
}
