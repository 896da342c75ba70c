/* An ordered map of address ranges that do not overlap. Each entry begins with its range; the rest is the user's.
 *
 *   chunks: [ 3 7 12 ][ 20 21 ][ 33 40 41 59 ]     sorted, each of at most 128 entries; none is empty
 *   firsts:   3        20       33                 searched first
 *
 * An addition moves part of one chunk. So it costs the same for a thousand entries and for a million: some 50 ns. */
#pragma once

#include "base/types.h"

/* The beginning of an entry. begin < end. */
struct mt_address_range {
    mt_addr begin, end;
};

/* Invariants: entries are sorted and do not overlap; firsts[i] is the begin of chunk i's first entry, except firsts[0],
 * which is never read. */
struct mt_address_map {
    size_t entry_bytes;
    struct mt_address_chunk **chunks;
    mt_addr *firsts;
    size_t chunk_count, chunk_capacity;
    size_t count; /* of entries */
};

/* Creates a map of entries of `entry_bytes`. Each entry begins with a struct mt_address_range. */
void mt_address_map_create(struct mt_address_map *map, size_t entry_bytes);
void mt_address_map_release(struct mt_address_map *map);

/* Returns the lowest entry that has an address in [begin, end), NULL if none has. It is valid until the next addition
 * or removal; its range must not be changed. */
void *mt_address_map_find(const struct mt_address_map *map, mt_addr begin, mt_addr end);

/* Adds a copy of an entry, which must not overlap any other. */
void mt_address_map_add(struct mt_address_map *map, const void *entry);

/* Removes the entry that contains the address. There must be one. */
void mt_address_map_remove(struct mt_address_map *map, mt_addr address);
