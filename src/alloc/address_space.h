/* The order of the addresses at which CUDA's driver places segments. Of free blocks with equal sizes, PyTorch takes the
 * one with the lowest address, so this order decides which one it takes.
 *
 * The driver takes addresses from chunks of 32 MiB or multiples. A segment gets the lowest free addresses in any chunk
 * that has room for it. Otherwise, a new chunk is created below all others:
 *
 *   low addresses                                                                  high addresses
 *   ◀─ next chunk ─ [ 44 MiB | free ] [ 44 MiB | 16 MiB | free ] … [ 20 | 20 | 20 | … | free ] [ free 24 MiB ]
 *                                                                   after the first kernels     of the context
 *
 * At first, the context's last chunk has 24 MiB free. Loading the modules of the first kernels leaves another 400 MiB
 * free.
 *
 * Source: the addresses of all segments of 84 programs on an H200 (driver 580, PyTorch 2.11). With the actual
 * addresses, the reserved peaks of all 84 follow from their requests; with this model, 82; with segments in order of
 * creation, 66.
 *
 * Places are numbers that only order segments. They depend only on the calls, so a run is reproducible on every device.
 * Threads: one at a time per object. */
#pragma once

#include <stdint.h>

struct mt_free_addresses;

/* Invariants: the free ranges are sorted, do not touch each other, and are above `lowest`. */
struct mt_address_space {
    struct mt_free_addresses *free;
    uint32_t free_count, capacity;
    uint32_t taken;  /* number of segments placed so far */
    uint64_t lowest; /* place of the lowest chunk */
};

struct mt_address_space mt_address_space_create(void);
void mt_address_space_release(struct mt_address_space *space);

/* Returns the place of a segment of `bytes`, which is not 0. */
uint64_t mt_address_space_take(struct mt_address_space *space, uint64_t bytes);

/* Frees the place of a segment. */
void mt_address_space_give(struct mt_address_space *space, uint64_t place, uint64_t bytes);

/* Returns `sum` mixed with all state that affects later places. */
uint64_t mt_address_space_mix(const struct mt_address_space *space, uint64_t sum);
