#include "trace/recovery.h"

#include "trace/intake.h"

#include <string.h>

mt_status mt_recovery_is_due(struct mt_database *database, bool *out_due)
{
    int64_t running;
    mt_status status = mt_database_integer(database, "SELECT count(*) FROM run WHERE state = 'running'", &running);
    *out_due = running > 0;
    return status;
}

/* The oldest run that has not ended, and when it began; *run 0: there is none. */
static mt_status find_running(struct mt_database *database, int64_t *run, char *started_at)
{
    struct mt_statement *statement;
    bool row;
    *run = 0;
    mt_status status = mt_database_prepare(
        database, "SELECT id, started_at FROM run WHERE state = 'running' ORDER BY id LIMIT 1", &statement);
    if (status != MT_OK)
        return status;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        const char *text = mt_statement_text(statement, 1);
        *run = mt_statement_integer(statement, 0);
        strncpy(started_at, text != NULL ? text : "", MT_RING_STARTED_AT_BYTES - 1);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Whether the ring was this run's: a file may have been replaced beside a ring that stayed. */
static bool belongs_to(const struct mt_ring *ring, int64_t run, const char *started_at)
{
    return ring != NULL && ring->header != NULL && ring->header->run == run &&
           strcmp(ring->header->started_at, started_at) == 0;
}

static mt_status store_leftover(struct mt_intake *intake, const struct mt_ring *ring, struct mt_run_end *end)
{
    uint64_t head = mt_ring_head(ring), position = mt_intake_position(intake);
    end->stall_count = atomic_load(&ring->header->stall_count);
    end->stall_ns = atomic_load(&ring->header->stall_ns);
    end->lost_events = atomic_load(&ring->header->lost_events);
    if (atomic_load(&ring->header->writer_failed))
        end->state = MT_RUN_FAILED;
    if (head < position || head - position > mt_ring_capacity(ring))
        return MT_OK; /* its pages were lost with the machine, not the process: what is stored is what there is */
    return mt_intake_store(intake, ring, head, UINT64_MAX);
}

static mt_status end_run(struct mt_database *database, int64_t run, const struct mt_ring *ring,
                         struct mt_intake **intake)
{
    struct mt_run_end end = {.state = MT_RUN_INTERRUPTED};
    mt_status status = mt_intake_create(database, run, intake);
    if (status == MT_OK && ring != NULL)
        status = store_leftover(*intake, ring, &end);
    if (status == MT_OK)
        status = mt_intake_end(*intake, &end);
    return status;
}

static mt_status recover_one(struct mt_database *database, struct mt_ring *ring, bool *out_more)
{
    int64_t run;
    char started_at[MT_RING_STARTED_AT_BYTES] = "";
    struct mt_intake *intake = NULL;
    mt_status status = find_running(database, &run, started_at);
    *out_more = run != 0;
    if (status != MT_OK || run == 0)
        return status;
    status = end_run(database, run, belongs_to(ring, run, started_at) ? ring : NULL, &intake);
    mt_intake_destroy(intake);
    return status == MT_OK ? status : mt_fail_context(status, "run %lld can't be recovered", (long long)run);
}

mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring)
{
    bool more = true;
    mt_status status = MT_OK;
    if (ring != NULL && ring->header == NULL)
        mt_ring_map_leftover(ring);
    while (status == MT_OK && more)
        status = recover_one(database, ring, &more);
    return status;
}
