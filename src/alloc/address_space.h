/* The order of the addresses at which CUDA's driver places segments. PyTorch takes the lowest address among free blocks of one
 * size, so this order decides which of them it takes.
 *
 * The driver takes addresses from chunks of 32 MiB or multiples. A segment gets the lowest free addresses of all chunks that hold
 * it. Otherwise, a new chunk below all others is made for it:
 *
 *   low addresses                                                                  high addresses
 *   ◀─ next chunk ─ [ 44 MiB | free ] [ 44 MiB | 16 MiB | free ] … [ 20 | 20 | 20 | … | free ] [ free 24 MiB ]
 *                                                                   after the first kernels     of the context
 *
 * At first, the context's last chunk has 24 MiB free. Loading the modules of the first kernels leaves another 400 MiB free.
 *
 * Source: the addresses of all segments of 84 programs on an H200 (driver 580, PyTorch 2.11). With the addresses themselves, the
 * reserved peak of all 84 follows from their requests; with this model, of 82; with the order in which segments came, of 66.
 *
 * Places are numbers that only order segments. They depend on the calls alone, so a run repeats on every device.
 * Threads: one at a time for an object. */
#pragma once

#include <stdint.h>

struct mt_free_addresses;

/* Invariants: the free ranges are sorted, do not touch each other, and lie above `lowest`. */
struct mt_address_space {
    struct mt_free_addresses *free;
    uint32_t free_count, capacity;
    uint32_t taken;  /* segments that were ever placed */
    uint64_t lowest; /* place of the lowest chunk */
};

struct mt_address_space mt_address_space_create(void);
void mt_address_space_release(struct mt_address_space *space);

/* Returns the place of a segment of `bytes`, which is not 0. */
uint64_t mt_address_space_take(struct mt_address_space *space, uint64_t bytes);

/* Frees the place of a segment. */
void mt_address_space_give(struct mt_address_space *space, uint64_t place, uint64_t bytes);

/* Returns `sum` mixed with all that decides about later places. */
uint64_t mt_address_space_mix(const struct mt_address_space *space, uint64_t sum);
