/* A sink that stores the requests of a run and when their blocks are freed, as the input of a plan. Ignores everything
 * else. */
#pragma once

#include "alloc/alloc.h"
#include "alloc/plan.h"

struct mt_request_log;

/* Creates a log for an allocator with these settings, which are copied: requests are stored as rounded by its policy.
 * The caller destroys it after the allocator. */
struct mt_request_log *mt_request_log_create(const struct mt_alloc_settings *settings);
void mt_request_log_destroy(struct mt_request_log *log);

/* Returns the sink for the allocator. It borrows the log. */
struct mt_sink mt_request_log_sink(struct mt_request_log *log);

/* Returns the requests of MT_PLAN_STREAM from the beginning to the end of the last complete step, in order, and sets
 * *out_count to their number. Blocks that were live at that end count as kept. The result is borrowed until the next
 * call of any of these functions. */
const struct mt_plan_request *mt_request_log_requests(struct mt_request_log *log, size_t *out_count);
