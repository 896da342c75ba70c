#include "trace/store/batch_check.h"

#include "trace/store/database.h"

#include <inttypes.h>

/* Advances to the next batch. */
static mt_status next_batch(struct mt_batch_check *check)
{
    bool more;
    check->first = INT64_MAX;
    MT_TRY(mt_statement_step(check->batches, &more));
    if (!more)
        return MT_OK;
    int64_t first = mt_statement_integer(check->batches, 0), count = mt_statement_integer(check->batches, 1);
    bool is_possible = first >= 0 && first <= MT_LAST_POSSIBLE_EVENT && count > 0 && count <= MT_LAST_POSSIBLE_EVENT;
    if (!is_possible)
        return mt_fail(MT_BAD_TRACE,
                       "%s is damaged: run %" PRId64 " has a batch of %" PRId64 " events from event %" PRId64 " on",
                       mt_database_path(check->database), check->run, count, first);
    check->first = first;
    check->last = first + count - 1;
    check->stored = (uint64_t)mt_statement_integer(check->batches, 2);
    check->computed = (uint64_t)first;
    return MT_OK;
}

mt_status mt_batch_check_begin(struct mt_batch_check *check, struct mt_database *database, int64_t run, int64_t after)
{
    *check = (struct mt_batch_check){.database = database, .run = run, .first = INT64_MAX};
    MT_TRY(mt_database_prepare(
        database, "SELECT first_event, event_count, checksum FROM batch WHERE run = ? AND first_event > ? ORDER BY 1",
        &check->batches));
    mt_statement_bind_integer(check->batches, 1, run);
    mt_statement_bind_integer(check->batches, 2, after);
    return next_batch(check);
}

static mt_status fail_on_batch(const struct mt_batch_check *check)
{
    return mt_fail(MT_BAD_TRACE,
                   "%s is damaged: events %" PRId64 " to %" PRId64 " of run %" PRId64 " are not those that were stored",
                   mt_database_path(check->database), check->first, check->last, check->run);
}

mt_status mt_batch_check_add(struct mt_batch_check *check, int64_t id, const struct mt_event_row_in *row)
{
    if (id < check->first)
        return MT_OK;
    check->computed = mt_event_row_checksum(check->computed, row);
    if (id < check->last)
        return MT_OK;
    if (id > check->last || check->computed != check->stored)
        return fail_on_batch(check);
    return next_batch(check);
}

mt_status mt_batch_check_complete(const struct mt_batch_check *check)
{
    return check->first == INT64_MAX ? MT_OK : fail_on_batch(check);
}

void mt_batch_check_end(struct mt_batch_check *check)
{
    mt_statement_finalize(check->batches);
    check->batches = NULL;
}
