/* Which parts of segments have memory, and had it from when to when.
 *
 *   bytes ▲  ┌────────┐      mapped by one event, of which another unmapped the middle: three parts, of which
 *         │  │   ┌────┘      the middle one ended
 *         │  │   └───────▶
 *         │  ├───────────▶
 *         └──┴─────────────▶ events
 *
 * What is mapped while it has memory begins anew, and what is unmapped without having any is passed over: only damage to
 * a trace says either, and the parts stay apart all the same.
 *
 * Costs the logarithm of the number of parts an event, whatever their order. Threads: one at a time. */
#ifndef MT_TRACE_PARTS_H
#define MT_TRACE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of table segment_part, which (segment, offset, mapped_event) identify. */
struct mt_part {
    uint64_t offset, bytes;
    int64_t mapped_event, unmapped_event; /* 0: still mapped */
    uint32_t segment;
};

struct mt_part_node;

/* Invariants: the nodes from `root` are the parts that have memory, by segment, then offset, and do not overlap; the rows
 * are the parts as they became since somebody emptied them, of those that have a row more than once the last one counts. */
struct mt_parts {
    struct mt_part_node *nodes; /* 0 is none */
    uint32_t used;              /* nodes in use or chained */
    uint32_t root, free;        /* 0: none */
    uint64_t seed;              /* of the order in which nodes are above each other */
    struct mt_part *rows;
    size_t row_count;
};

void mt_parts_create(struct mt_parts *parts);
void mt_parts_release(struct mt_parts *parts);

/* The part's bytes have memory from its mapped_event on; returns how many of them had none. And they have none from `event`
 * on; returns how many of them had. What lies beyond 2^64 is cut off; the part's other fields are not looked at. */
uint64_t mt_parts_map(struct mt_parts *parts, struct mt_part part);
uint64_t mt_parts_unmap(struct mt_parts *parts, struct mt_part part, int64_t event);

#endif
