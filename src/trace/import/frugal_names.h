/* Names for a sink, held to what can be: the path of a span has all the names around it, so a file that nests spans deeply,
 * or refers to one list of names again and again, makes much more of them than it has itself. What would make paths of
 * over MT_FRUGAL_MOST_BYTES together is the span around it.
 *
 *   who knows labels ──names──▶ mt_frugal_names ──▶ sink ◀──events── mt_foreign
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_FRUGAL_NAMES_H
#define MT_TRACE_IMPORT_FRUGAL_NAMES_H

#include "base/number_map.h"
#include "base/sink.h"

#define MT_FRUGAL_MOST_BYTES (UINT64_C(64) << 20)

/* Invariant: `path_bytes` has all spans that were made, and left_bytes is what their paths leave of the most. */
struct mt_frugal_names {
    struct mt_sink behind;
    uint64_t left_bytes;
    struct mt_number_map path_bytes; /* by span */
};

/* Borrows what is behind the sink. Release it when nothing is named any more. */
void mt_frugal_names_create(struct mt_frugal_names *names, const struct mt_sink *sink);
void mt_frugal_names_release(struct mt_frugal_names *names);

/* A sink that interns, and takes no events. Borrows `names`. */
struct mt_sink mt_frugal_names_sink(struct mt_frugal_names *names);

#endif
