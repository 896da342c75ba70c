/* The segments of a run, from the events that map and unmap their memory: the rows of the tables segment and segment_part.
 *
 * A number that comes again after its segment ended begins another row. Unmapping where there is no memory does nothing.
 *
 * Threads: one at a time. */
#pragma once

#include "base/event.h"
#include "base/number_map.h"
#include "trace/store/connection.h"
#include "trace/store/parts.h"

struct mt_summary_segment;

/* Invariants: changed_count <= count; by_number leads to the segments that have memory, and to no other. */
struct mt_segment_rows {
    struct mt_number_map by_number; /* from birth number to the index of the latest row of that number */
    struct mt_summary_segment *rows;
    size_t count;
    size_t *changed; /* indices of the rows that differ from what is stored */
    size_t changed_count;
    struct mt_parts parts; /* its rows differ from what is stored */
};

void mt_segment_rows_create(struct mt_segment_rows *segments);
void mt_segment_rows_release(struct mt_segment_rows *segments);

/* Takes an event that maps memory. Returns how many of its bytes had none before. */
uint64_t mt_segment_rows_map(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id);

/* Takes an event that unmaps memory. Returns how many of its bytes had some. */
uint64_t mt_segment_rows_unmap(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id);

/* Finds the segment with memory that an address is in, and the offset of the address there. False if there is none. */
bool mt_segment_rows_find(const struct mt_segment_rows *segments, mt_addr address, uint32_t *out_segment,
                          uint64_t *out_offset);

/* Passes over the rows that came or changed since the last call. */
void mt_segment_rows_forget_changes(struct mt_segment_rows *segments);

/* Writes them. */
mt_status mt_segment_rows_store(struct mt_segment_rows *segments, struct mt_database *database, int64_t run,
                                const char *prefix);
