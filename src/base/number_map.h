/* A map from 64-bit numbers to 64-bit numbers, in one flat array: open addressing with linear probing, at most half
 * full. Removal shifts the next pairs back, so there are no tombstones, and the map stays as fast after many
 * changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one key that can't be used: it marks free slots. */
#define MT_NUMBER_MAP_NO_KEY UINT64_MAX

/* Invariants: count * 2 <= mask + 1 = 2^(64 - shift); between the home of a key, its hash, and its slot no slot is
 * free. */
struct mt_number_map {
    struct mt_number_pair {
        uint64_t key, value;
    } * pairs;
    size_t mask, count;
    int shift; /* of a hash, which makes it a slot */
};

void mt_number_map_create(struct mt_number_map *map);
void mt_number_map_release(struct mt_number_map *map);

/* Adds the pair, or replaces the value of the key. Ignores MT_NUMBER_MAP_NO_KEY, which a damaged file may have. */
void mt_number_map_put(struct mt_number_map *map, uint64_t key, uint64_t value);

/* Sets *out to the value of the key; false, and *out untouched, if the key is not there. */
bool mt_number_map_get(const struct mt_number_map *map, uint64_t key, uint64_t *out);

/* The same, and removes the pair. */
bool mt_number_map_take(struct mt_number_map *map, uint64_t key, uint64_t *out);
