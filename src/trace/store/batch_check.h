/* Compares the rows of table event with the checksums of their stored batches. Rows are given in order. */
#pragma once

#include "trace/store/batch.h"
#include "trace/store/connection.h"

/* The batch whose rows are being given. Invariant: first <= last, or there are no more batches and first is
 * INT64_MAX. */
struct mt_batch_check {
    struct mt_database *database; /* borrowed */
    int64_t run;
    struct mt_statement *batches; /* by first event */
    int64_t first, last;          /* event.id */
    uint64_t stored, computed;
};

/* Begins with the first batch of the run after event `after`. The caller ends it, also after a failure. All failures
 * here and below are MT_BAD_TRACE. */
mt_status mt_batch_check_begin(struct mt_batch_check *check, struct mt_database *database, int64_t run, int64_t after);

/* Adds a row. Fails if its batch ends with it and differs from the stored one. Rows of older programs are in no
 * batch. */
mt_status mt_batch_check_add(struct mt_batch_check *check, int64_t id, const struct mt_event_row_in *row);

/* Fails if rows of a batch are missing at the end. */
mt_status mt_batch_check_complete(const struct mt_batch_check *check);

void mt_batch_check_end(struct mt_batch_check *check);
