/* The memory of others: pieces of it by address, the segments that they are parts of, and the ranges that were reserved.
 *
 *   reserved:   ├──────── one segment, birth 3, 2 pieces ───────┤
 *   pieces:     ├── 3 ──┤            ├── 3 ──┤                       ├ 4 ┤├── 5 ──┤    each a segment, though they touch
 *
 * Emits what it does; whoever calls sees to it that no block is where memory goes. */
#ifndef MT_TRACE_FOREIGN_MEMORY_H
#define MT_TRACE_FOREIGN_MEMORY_H

#include "base/sink.h"
#include "trace/store/address_map.h"

#include <stdbool.h>

/* Numbers events and keeps their order: what is emitted now happens at time_ns. */
struct mt_foreign_events {
    struct mt_sink sink;
    uint64_t sequence; /* of the next event */
    uint64_t time_ns;  /* never goes back */
};

/* A segment, as pieces and blocks know it. */
struct mt_foreign_segment {
    mt_addr address;
    uint32_t birth;
    mt_stream stream;
};

/* Memory of a segment. Two pieces of one segment do not touch. */
struct mt_foreign_piece {
    struct mt_address_range range;
    struct mt_foreign_segment segment;
};

/* A range whose memory is one segment; `segment` has a meaning while mapped_bytes is not 0. */
struct mt_foreign_reserved {
    struct mt_address_range range;
    uint64_t owner, mapped_bytes;
    struct mt_foreign_segment segment;
};

struct mt_foreign_memory {
    struct mt_foreign_events *events; /* borrowed */
    struct mt_address_map pieces;
    struct mt_address_map reserved;
    uint32_t births; /* of the next segment */
};

void mt_foreign_emit(struct mt_foreign_events *events, struct mt_event event);

void mt_foreign_memory_create(struct mt_foreign_memory *memory, struct mt_foreign_events *events);
void mt_foreign_memory_release(struct mt_foreign_memory *memory);

/* As mt_foreign_reserve and mt_foreign_release. */
bool mt_foreign_memory_reserve(struct mt_foreign_memory *memory, struct mt_address_range range, uint64_t owner);
void mt_foreign_memory_forget(struct mt_foreign_memory *memory, struct mt_address_range range);

/* How many bytes of the range have memory. */
uint64_t mt_foreign_memory_bytes(const struct mt_foreign_memory *memory, struct mt_address_range range);

/* Whether one segment has memory in the whole range, and which. */
bool mt_foreign_memory_covers(const struct mt_foreign_memory *memory, struct mt_address_range range,
                              struct mt_foreign_segment *out);

/* Memory where there is none: part of the reserved range that it lies in, or a segment of its own. */
void mt_foreign_memory_map(struct mt_foreign_memory *memory, struct mt_address_range range, mt_stream stream);

/* The same, of its own in any case. */
struct mt_foreign_segment mt_foreign_memory_map_alone(struct mt_foreign_memory *memory, struct mt_address_range range,
                                                      mt_stream stream);

/* Ends what memory the range has, an event a piece. */
void mt_foreign_memory_unmap(struct mt_foreign_memory *memory, struct mt_address_range range);

#endif
