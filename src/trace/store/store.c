/* Which of the three ways of opening a trace applies, and the ways.
 *
 *   closed in order ─────────────────────────────────────▶ open read-only
 *   writer dead  ──▶ recover in place, or in a copy ─────▶ open read-only
 *   writer alive ──▶ open read-only, derive what it will write at its end */
#include "trace/store/store.h"

#include "base/memory.h"
#include "trace/store/private_copy.h"
#include "trace/store/recovery.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"
#include "trace/store/trace_file.h"

#include <stdlib.h>

/* What a live run's reader derives: tables of the main file's names and columns, under another name, and views in
 * front of them that add every other run's rows. Of this run the main file has the steps that are over, which are
 * derived, too. */
#define OTHER_RUNS " WHERE run NOT IN (SELECT id FROM main.run WHERE state = 'running')"
static const char LIVE_TABLES[] =
    "CREATE TEMP TABLE live_summary_peak AS SELECT * FROM main.summary_peak LIMIT 0;"
    "CREATE TEMP TABLE live_summary_peak_category AS SELECT * FROM main.summary_peak_category LIMIT 0;"
    "CREATE TEMP TABLE live_summary_category AS SELECT * FROM main.summary_category LIMIT 0;"
    "CREATE TEMP TABLE live_summary_allocation AS SELECT * FROM main.summary_allocation LIMIT 0;"
    "CREATE TEMP VIEW summary_peak AS"
    " SELECT * FROM main.summary_peak" OTHER_RUNS " UNION ALL SELECT * FROM live_summary_peak;"
    "CREATE TEMP VIEW summary_peak_category AS"
    " SELECT * FROM main.summary_peak_category" OTHER_RUNS " UNION ALL SELECT * FROM live_summary_peak_category;"
    "CREATE TEMP VIEW summary_category AS"
    " SELECT * FROM main.summary_category" OTHER_RUNS " UNION ALL SELECT * FROM live_summary_category;"
    "CREATE TEMP VIEW summary_allocation AS"
    " SELECT * FROM main.summary_allocation" OTHER_RUNS " UNION ALL SELECT * FROM live_summary_allocation";

static void add_label(void *context, uint32_t number, const char *category, mt_phase phase, mt_span_id span)
{
    (void)span;
    mt_summary_add_label(context, number, category, phase);
}

static void add_event(void *context, const struct mt_event *event)
{
    mt_summary_add(context, event);
}

static mt_status derive_run(struct mt_database *database, int64_t run, int64_t first_event)
{
    struct mt_summary *summary = mt_summary_create(first_event);
    const struct mt_scan_visitor visitor = {.context = summary, .label = add_label, .event = add_event};
    mt_status status = mt_scan_run(database, run, &visitor);
    if (status == MT_OK)
        status = mt_summary_store_totals(summary, database, run, "live_");
    mt_summary_destroy(summary);
    return status;
}

/* The transaction stays open until the connection closes: what was derived and what is read later belong together. */
static mt_status derive_live_run(struct mt_database *database)
{
    struct mt_statement *statement;
    bool row;
    mt_status status = mt_database_begin(database);
    if (status == MT_OK)
        status = mt_database_execute(database, LIVE_TABLES);
    if (status == MT_OK)
        status = mt_database_prepare(database, "SELECT id, first_event FROM run WHERE state = 'running'", &statement);
    if (status != MT_OK)
        return status;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row)
        status = derive_run(database, mt_statement_integer(statement, 0), mt_statement_integer(statement, 1));
    mt_statement_finalize(statement);
    return status;
}

static mt_status open_live(const char *path, struct mt_database **out)
{
    mt_status status = mt_database_open_reading(path, out);
    if (status == MT_OK)
        status = derive_live_run(*out);
    if (status == MT_OK)
        return MT_OK;
    mt_database_close(*out);
    *out = NULL;
    return status;
}

/* Stores what is left, in the file itself. */
static mt_status recover_in_place(const char *path, struct mt_ring *ring)
{
    struct mt_database *database;
    mt_status status = mt_database_open_writing(path, &database);
    if (status != MT_OK)
        return status;
    status = mt_recovery_run(database, ring);
    if (status == MT_OK)
        return mt_database_close_as_one_file(database);
    mt_database_close(database);
    return status;
}

static mt_status open_copy_at(const char *path, int place, struct mt_ring *ring, struct mt_database **out)
{
    mt_status status = mt_private_copy_open(path, place, out);
    if (status != MT_OK)
        return status;
    status = mt_recovery_run(*out, ring);
    if (status == MT_OK)
        return mt_database_execute(*out, "PRAGMA query_only = ON");
    mt_database_close(*out);
    *out = NULL;
    return status;
}

/* At the first place that has room for the copy and for what is left. The words for a failure are of the first that has
 * none. */
static mt_status open_copy(const char *path, struct mt_ring *ring, struct mt_database **out)
{
    struct mt_error first = {0};
    mt_status status = MT_FAILED;
    for (int place = 0; place < MT_PRIVATE_COPY_PLACES && status == MT_FAILED; place++) {
        status = open_copy_at(path, place, ring, out);
        if (status == MT_FAILED && first.status == MT_OK)
            first = mt_error_save(status);
    }
    return status == MT_FAILED ? mt_error_restore(&first, status) : status;
}

/* Where the file can't take what is left, since its disk is full, a copy can; the ring stays for when there is room. The
 * words for a failure are the file's. */
static mt_status open_recovered(const char *path, struct mt_ring *ring, struct mt_database **out)
{
    mt_status status = recover_in_place(path, ring);
    if (status == MT_OK) {
        mt_ring_remove(ring);
        return mt_database_open_reading(path, out);
    }
    const struct mt_error error = mt_error_save(status);
    bool is_copied = status == MT_FAILED && open_copy(path, ring, out) == MT_OK;
    mt_ring_abandon(ring);
    return is_copied ? MT_OK : mt_error_restore(&error, MT_OK);
}

/* Nothing here can be written: as it is if it was closed in order and has no log, which SQLite can read only where it may
 * also write; or a copy that is made whole. */
static mt_status open_unwritable(const char *path, struct mt_database **out)
{
    struct mt_ring *ring;
    mt_ring_outcome outcome;
    int64_t pid;
    mt_status status = mt_ring_open(path, MT_RING_INSPECT, &outcome, &pid, &ring);
    if (status != MT_OK)
        return status;
    if (outcome == MT_RING_BUSY)
        return open_live(path, out);
    if (outcome == MT_RING_ABSENT && !mt_database_has_log(path))
        status = mt_database_open_reading(path, out);
    else
        status = open_copy(path, ring, out);
    mt_ring_release(ring);
    return status;
}

/* Whether the file says that a run has not ended; its identity is checked on the way. */
static mt_status find_unfinished(const char *path, bool *out_unfinished)
{
    struct mt_database *database;
    mt_status status = mt_database_open_reading(path, &database);
    if (status != MT_OK)
        return status;
    status = mt_recovery_is_due(database, out_unfinished);
    mt_database_close(database);
    return status;
}

/* There is no ring. A run that has not ended is one whose ring was lost: what is stored is what there is. */
static mt_status open_without_ring(const char *path, struct mt_database **out)
{
    struct mt_ring *ring;
    mt_ring_outcome outcome;
    int64_t pid;
    bool unfinished;
    mt_status status = find_unfinished(path, &unfinished);
    if (status != MT_OK)
        return status;
    if (!unfinished)
        return mt_database_open_reading(path, out);
    status = mt_ring_open(path, MT_RING_CREATE, &outcome, &pid, &ring);
    if (status != MT_OK)
        return status;
    return outcome == MT_RING_BUSY ? open_live(path, out) : open_recovered(path, ring, out);
}

/* Only what is known to be a trace has a ring: what lies beside another file is not looked at. */
static mt_status open_writable(const char *path, struct mt_database **out)
{
    struct mt_ring *ring = NULL;
    mt_ring_outcome outcome;
    int64_t pid;
    mt_status status = mt_database_check_writing(path);
    if (status == MT_OK)
        status = mt_ring_open(path, MT_RING_INSPECT, &outcome, &pid, &ring);
    if (status != MT_OK)
        return status;
    if (outcome == MT_RING_BUSY)
        return open_live(path, out);
    return outcome == MT_RING_ABSENT ? open_without_ring(path, out) : open_recovered(path, ring, out);
}

mt_status mt_store_open_reading(const char *path, struct mt_database **out)
{
    char *file;
    *out = NULL;
    mt_status status = mt_trace_file_resolve(path, &file);
    if (status == MT_OK)
        status = mt_trace_file_check_reading(file);
    if (status == MT_OK)
        status = mt_trace_file_is_writable(file) ? open_writable(file, out) : open_unwritable(file, out);
    free(file);
    return status;
}
