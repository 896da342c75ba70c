/* The memory of another program: its pieces by address, their segments, and the reserved ranges.
 *
 *   reserved:   ├──────── one segment, birth 3, 2 pieces ───────┤
 *   pieces:     ├── 3 ──┤            ├── 3 ──┤                       ├ 4 ┤├── 5 ──┤    two segments, though they touch
 *
 * Emits an event for each piece that is mapped or unmapped. The caller ends the blocks in memory before it is
 * unmapped. */
#pragma once

#include "base/sink.h"
#include "trace/store/address_map.h"

#include <stdbool.h>

/* The numbers and times of events. */
struct mt_foreign_events {
    struct mt_sink sink;
    uint64_t sequence; /* of the next event */
    uint64_t time_ns;  /* of the next event; never goes back */
};

/* A segment, as stored in pieces and blocks. */
struct mt_foreign_segment {
    mt_addr address;
    uint32_t birth;
    mt_stream stream;
};

struct mt_foreign_memory;

/* Emits the event as the next one, with its sequence and time. */
void mt_foreign_emit(struct mt_foreign_events *events, struct mt_event event);

/* Creates memory without any mapping. Borrows `events`. */
struct mt_foreign_memory *mt_foreign_memory_create(struct mt_foreign_events *events);
void mt_foreign_memory_destroy(struct mt_foreign_memory *memory);

/* Implements mt_foreign_reserve. */
bool mt_foreign_memory_reserve(struct mt_foreign_memory *memory, struct mt_address_range range, uint64_t owner);

/* Returns the bytes of the range that have memory. */
uint64_t mt_foreign_memory_bytes(const struct mt_foreign_memory *memory, struct mt_address_range range);

/* True if one segment has memory in the whole range; *out is that segment. */
bool mt_foreign_memory_covers(const struct mt_foreign_memory *memory, struct mt_address_range range,
                              struct mt_foreign_segment *out);

/* Maps a range that has no memory. It becomes part of the reserved range that contains it, or a separate segment. */
void mt_foreign_memory_map(struct mt_foreign_memory *memory, struct mt_address_range range, mt_stream stream);

/* Maps a range that has no memory as a separate segment. Returns the segment. */
struct mt_foreign_segment mt_foreign_memory_map_alone(struct mt_foreign_memory *memory, struct mt_address_range range,
                                                      mt_stream stream);

/* Unmaps the memory in the range, with an event for each piece. */
void mt_foreign_memory_unmap(struct mt_foreign_memory *memory, struct mt_address_range range);
