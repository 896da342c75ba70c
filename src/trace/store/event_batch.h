/* Rows for table event. */
#ifndef MT_TRACE_EVENT_BATCH_H
#define MT_TRACE_EVENT_BATCH_H

#include "base/event.h"
#include "trace/store/batch.h"

/* An event and what the row says beyond it. Its id continues the table's. */
struct mt_event_batch_row {
    const struct mt_event *event; /* borrowed until the batch is stored */
    int64_t allocation;           /* 0: NULL */
    mt_span_id span;              /* 0: NULL */
};

extern const struct mt_batch_table mt_event_batch;

#endif
