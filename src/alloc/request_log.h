/* A sink that keeps the requests of a run and the moments at which their blocks are freed, to make a plan of them. It
 * ignores everything else. */
#pragma once

#include "alloc/alloc.h"
#include "alloc/plan.h"

struct mt_request_log;

/* Creates a log for an allocator of these settings, which are copied: requests are kept as its policy rounds them. The
 * caller destroys it after the allocator. */
struct mt_request_log *mt_request_log_create(const struct mt_alloc_settings *settings);
void mt_request_log_destroy(struct mt_request_log *log);

/* Returns the sink for the allocator, which borrows the log. */
struct mt_sink mt_request_log_sink(struct mt_request_log *log);

/* Returns the requests of MT_PLAN_STREAM from the beginning to the end of the last whole step, in order, and sets
 * *out_count to their number. Blocks that were live at that end count as kept. The result is borrowed, until the next call
 * of any of these functions. */
const struct mt_plan_request *mt_request_log_requests(struct mt_request_log *log, size_t *out_count);
