/* A sink that keeps what a run requests and when it gives back, as a plan is made of it; everything else it forgets. */
#ifndef MT_ALLOC_REQUEST_LOG_H
#define MT_ALLOC_REQUEST_LOG_H

#include "alloc/alloc.h"
#include "alloc/plan.h"

struct mt_request_log;

/* For an allocator of these settings (copied), as whose policy rounds them requests are kept. Owned by the caller, who
 * destroys it after everything that emits into it. */
struct mt_request_log *mt_request_log_create(const struct mt_alloc_settings *settings);
void mt_request_log_destroy(struct mt_request_log *log);

/* The sink that an allocator is made with; it borrows the log. */
struct mt_sink mt_request_log_sink(struct mt_request_log *log);

/* The requests of MT_PLAN_STREAM from the beginning to the end of the last whole step, in order, and their number in
 * *out_count. What was live at that end counts as kept. Borrowed, until the next call of any of these functions. */
const struct mt_plan_request *mt_request_log_requests(struct mt_request_log *log, size_t *out_count);

#endif
