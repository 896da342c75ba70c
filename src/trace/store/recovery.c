#include "trace/store/recovery.h"

#include "trace/store/intake.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

mt_status mt_recovery_is_due(struct mt_database *database, bool *out_due)
{
    int64_t running;
    mt_status status = mt_database_integer(database, "SELECT count(*) FROM run WHERE state = 'running'", &running);
    *out_due = running > 0;
    return status;
}

/* A run that has not ended. */
struct unfinished {
    int64_t run;
    char started_at[MT_RING_STARTED_AT_BYTES];
};

/* Finds the first unfinished run whose number is above `after`; *out_found is false if there is none. */
static mt_status find_unfinished(struct mt_database *database, int64_t after, struct unfinished *out, bool *out_found)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare(
        database, "SELECT id, started_at FROM run WHERE state = 'running' AND id > ? ORDER BY id LIMIT 1", &statement);
    mt_statement_bind_integer(statement, 1, after);
    *out_found = mt_statement_next(statement, &status);
    if (*out_found) {
        const char *text = mt_statement_text(statement, 1);
        out->run = mt_statement_integer(statement, 0);
        snprintf(out->started_at, sizeof out->started_at, "%s", text != NULL ? text : "");
    }
    mt_statement_finalize(statement);
    return status;
}

/* True if the ring is this run's: a trace may have been replaced beside a ring that stayed. */
static bool belongs_to(const struct mt_ring *ring, const struct unfinished *unfinished)
{
    return ring != NULL && ring->header != NULL && ring->header->run == unfinished->run &&
           strcmp(ring->header->started_at, unfinished->started_at) == 0;
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
        return MT_OK; /* the machine stopped, and the ring's last pages were never written */
    return mt_intake_store(intake, ring, head, UINT64_MAX);
}

static mt_status end_run(struct mt_database *database, int64_t run, const struct mt_ring *ring,
                         struct mt_intake **intake)
{
    struct mt_run_end end = {.state = MT_RUN_INTERRUPTED};
    MT_TRY(mt_intake_create(database, run, intake));
    if (ring != NULL)
        MT_TRY(store_leftover(*intake, ring, &end));
    return mt_intake_end(*intake, &end);
}

static mt_status recover(struct mt_database *database, const struct unfinished *unfinished, const struct mt_ring *ring)
{
    struct mt_intake *intake = NULL;
    bool is_its = belongs_to(ring, unfinished);
    mt_status status = end_run(database, unfinished->run, is_its ? ring : NULL, &intake);
    mt_intake_destroy(intake);
    return status == MT_OK ? status : mt_fail_context(status, "run %" PRId64 " can't be recovered", unfinished->run);
}

/* Recovers one run after another, each once: in a file of others, a run may stay unfinished whatever is written. */
mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring)
{
    struct unfinished unfinished = {.run = INT64_MIN};
    bool more = true;
    mt_status status = MT_OK;
    if (ring != NULL && ring->header == NULL)
        status = mt_ring_map_leftover(ring);
    while (status == MT_OK && more) {
        status = find_unfinished(database, unfinished.run, &unfinished, &more);
        if (status == MT_OK && more)
            status = recover(database, &unfinished, ring);
    }
    return status;
}
