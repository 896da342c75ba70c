/* The ranges that are open while an export of Nsight Systems is read in order of time, and what they mean.
 *
 * Ranges of one thread lie in each other; those of several are told as they come. The innermost one is the place of what is
 * allocated. Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_NSYS_RANGES_H
#define MT_TRACE_IMPORT_NSYS_RANGES_H

#include "trace/import/plain_labels.h"
#include "trace/store/foreign.h"

struct mt_nsys_ranges;

/* Borrows all of it. */
struct mt_nsys_ranges *mt_nsys_ranges_create(const struct mt_sink *sink, struct mt_foreign *foreign,
                                             struct mt_plain_labels *labels);
void mt_nsys_ranges_destroy(struct mt_nsys_ranges *ranges); /* may be NULL */

/* A range begins, or ends: `number` tells it apart. What ends without having begun is passed over. */
void mt_nsys_ranges_begin(struct mt_nsys_ranges *ranges, uint64_t time_ns, int64_t number, int64_t thread,
                          const char *text);
void mt_nsys_ranges_end(struct mt_nsys_ranges *ranges, uint64_t time_ns, int64_t number);

/* The path of the innermost range that is a span; "" if there is none. Valid until the next range. */
const char *mt_nsys_ranges_path(const struct mt_nsys_ranges *ranges);

#endif
