/* The segments of a run, from the events that map and unmap their memory: the rows of the tables segment and
 * segment_part.
 *
 * A number that occurs again after its segment ended begins another row. Unmapping without memory does nothing.
 *
 * Threads: one at a time. */
#pragma once

#include "base/event.h"
#include "base/number_map.h"
#include "trace/store/connection.h"
#include "trace/store/parts.h"

struct mt_summary_segment;

/* Invariants: changed_count <= count; by_number leads only to segments that have memory, and to all of them. */
struct mt_segment_rows {
    struct mt_number_map by_number; /* from birth number to the index of the latest row of that number */
    struct mt_summary_segment *rows;
    size_t count;
    size_t *changed; /* indices of the rows that differ from the stored ones */
    size_t changed_count;
    struct mt_parts parts; /* its rows differ from the stored ones */
};

void mt_segment_rows_create(struct mt_segment_rows *segments);
void mt_segment_rows_release(struct mt_segment_rows *segments);

/* Applies an event that maps memory. Returns how many of its bytes had none before. */
uint64_t mt_segment_rows_map(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id);

/* Applies an event that unmaps memory. Returns how many of its bytes had some. */
uint64_t mt_segment_rows_unmap(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id);

/* Finds the segment with memory that an address is in, and the offset of the address there. False if there is none. */
bool mt_segment_rows_find(const struct mt_segment_rows *segments, mt_addr address, uint32_t *out_segment,
                          uint64_t *out_offset);

/* Discards the list of rows that are new or changed since the last call. */
void mt_segment_rows_forget_changes(struct mt_segment_rows *segments);

/* Writes those rows. */
mt_status mt_segment_rows_store(struct mt_segment_rows *segments, struct mt_database *database, int64_t run,
                                const char *prefix);
