/* The query for the bytes that a recorded program holds at this moment, by its trace, so that the driver can be asked
 * at the same moment. A program that waits changes nothing, and its events are committed a tenth of a second later. */
#pragma once

enum { RESERVED_SETTLES_US = 500000 };

/* Of a trace with one run: what was mapped less what was unmapped. */
#define RESERVED_NOW_SQL                                                                                               \
    "SELECT coalesce(sum(CASE name WHEN 'segment_map' THEN block_bytes WHEN 'segment_unmap' THEN -block_bytes END), "  \
    "0)"                                                                                                               \
    " FROM event JOIN event_kind AS k ON k.id = event.kind"
