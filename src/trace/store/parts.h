/* The parts of segments that have memory, and the events that mapped and unmapped them.
 *
 *   bytes ▲  ┌────────┐      mapped by one event; another event unmapped the middle:
 *         │  │   ┌────┘      three parts, the middle one has ended
 *         │  │   └───────▶
 *         │  ├───────────▶
 *         └──┴─────────────▶ events
 *
 * Memory that is mapped twice begins a new part, and unmapping without memory does nothing. Only a damaged trace
 * does either; even then the parts do not overlap.
 *
 * An event costs the logarithm of the number of parts, in any order. Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of table segment_part. (segment, offset, mapped_event) identify it. */
struct mt_part {
    uint64_t offset, bytes;
    int64_t mapped_event, unmapped_event; /* unmapped_event 0: still mapped */
    uint32_t segment;
};

struct mt_part_node;

/* Invariants: the nodes from `root` are the parts that have memory, by segment, then offset, and do not overlap. The
 * rows are the parts that changed since the caller last set row_count to 0; if a part has several, the last one
 * counts. */
struct mt_parts {
    struct mt_part_node *nodes; /* 0 is none */
    uint32_t used;              /* nodes in use or chained, node 0 included */
    uint32_t root, free;        /* 0: none */
    uint64_t seed;              /* of the priorities of nodes */
    struct mt_part *rows;
    size_t row_count;
};

void mt_parts_create(struct mt_parts *parts);
void mt_parts_release(struct mt_parts *parts);

/* Gives the part's bytes memory from its mapped_event on. Returns how many of them had none before. Ignores bytes
 * beyond 2^64. */
uint64_t mt_parts_map(struct mt_parts *parts, struct mt_part part);

/* Removes the memory of the part's bytes from `event` on. Returns how many of them had some. The part's own events are
 * ignored. */
uint64_t mt_parts_unmap(struct mt_parts *parts, struct mt_part part, int64_t event);
