/* Rows for table block_use. */
#ifndef MT_TRACE_USE_BATCH_H
#define MT_TRACE_USE_BATCH_H

#include "base/event.h"
#include "trace/store/batch.h"

/* A record MT_RECORD_USE, and ids in place of what its sequences count from and what it calls its block. */
struct mt_use_batch_row {
    int64_t allocation, first_event;
    const struct mt_event *record; /* borrowed until the batch is stored */
};

extern const struct mt_batch_table mt_use_batch;

#endif
