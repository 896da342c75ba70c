/* There are three ways of opening a trace.
 *
 *   closed in order ─────────────────────────────────────▶ open read-only
 *   writer dead  ──▶ recover in place, or in a copy ─────▶ open read-only
 *   writer alive ──▶ open read-only, derive the rows that the writer adds at its end */
#include "trace/store/store.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/store/intake.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Tables for the derived rows of a live run, and views with the main tables' names that join them with the rows of all
 * other runs. The live run's rows in the main tables are left out: they are of finished steps, which are derived,
 * too. */
#define OTHER_RUNS " WHERE run NOT IN (SELECT id FROM main.run WHERE state = 'running')"
#define LIVE_TABLE(name)                                                                                               \
    "CREATE TEMP TABLE live_" name " AS SELECT * FROM main." name " LIMIT 0;"                                          \
    "CREATE TEMP VIEW " name " AS SELECT * FROM main." name OTHER_RUNS " UNION ALL SELECT * FROM live_" name ";"
static const char live_tables[] = LIVE_TABLE("summary_peak") LIVE_TABLE("summary_peak_role")
    LIVE_TABLE("summary_peak_category") LIVE_TABLE("summary_category") LIVE_TABLE("summary_allocation");

static mt_status derive_run(struct mt_database *database, int64_t run, int64_t first_event)
{
    struct mt_summary *summary = mt_summary_create(first_event);
    mt_status status = mt_scan_summary(database, run, summary);
    MT_THEN(status, mt_summary_store_totals(summary, database, run, "live_"));
    mt_summary_destroy(summary);
    return status;
}

/* Leaves the transaction open until the connection closes, so that all later queries see the derived state. */
static mt_status derive_live_run(struct mt_database *database)
{
    struct mt_statement *statement;
    mt_status status = mt_database_begin(database);
    MT_THEN(status, mt_database_execute(database, live_tables));
    MT_THEN(status,
            mt_database_prepare(database, "SELECT id, first_event FROM run WHERE state = 'running'", &statement));
    if (status != MT_OK)
        return status;
    if (mt_statement_next(statement, &status))
        status = derive_run(database, mt_statement_integer(statement, 0), mt_statement_integer(statement, 1));
    mt_statement_finalize(statement);
    return status;
}

static mt_status open_live(const char *path, struct mt_database **out)
{
    mt_status status = mt_database_open_reading(path, out);
    MT_THEN(status, derive_live_run(*out));
    return mt_database_keep(status, out);
}

enum { COPY_BYTES = 1 << 20 };

static mt_status fail_to_copy(const char *from, const char *to)
{
    return mt_fail(MT_FAILED, "can't copy %s to %s, which its recovery needs (TMPDIR may name a folder with room): %s",
                   from, to, strerror(errno));
}

/* Copies everything from `input` to `output`. False, with errno set, after a failure. */
static bool copy_bytes(int input, int output)
{
    char *buffer = mt_host_alloc(COPY_BYTES);
    ssize_t got, put = 0;
    while ((got = read(input, buffer, COPY_BYTES)) > 0) {
        put = write(output, buffer, (size_t)got);
        if (put != got)
            break;
    }
    free(buffer);
    if (put >= 0 && got > 0)
        errno = ENOSPC;
    return got == 0;
}

/* Copies a file. If there is none, returns `missing`, which is MT_OK for a journal. */
static mt_status copy_file(const char *from, const char *to, mt_status missing)
{
    int input = open(from, O_RDONLY | O_CLOEXEC);
    if (input < 0)
        return errno == ENOENT && missing == MT_OK ? MT_OK : fail_to_copy(from, to);
    int output = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    mt_status status = output >= 0 && copy_bytes(input, output) ? MT_OK : fail_to_copy(from, to);
    close(input);
    if (output >= 0 && close(output) != 0 && status == MT_OK)
        status = fail_to_copy(from, to);
    return status;
}

/* The names of one copy, and of the trace's journal. */
struct copy {
    struct mt_job_folder folder;
    struct mt_text file, file_journal, journal;
};

static uint64_t file_bytes(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 ? (uint64_t)file.st_size : 0;
}

/* Fails if the folder has no room for the copy, before anything large is copied. */
static mt_status check_room(const struct copy *copy, const char *path)
{
    struct statvfs disk;
    uint64_t needed = file_bytes(path) + file_bytes(copy->journal.data);
    if (statvfs(copy->folder.path, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= needed)
        return MT_OK;
    errno = ENOSPC;
    return fail_to_copy(path, copy->folder.path);
}

static mt_status make_folder(struct copy *copy, const char *path, const char *base)
{
    if (mt_job_folder_make_in(base, &copy->folder) != MT_OK)
        return fail_to_copy(path, base);
    mt_text_add(&copy->file, "%s/trace.db", copy->folder.path);
    mt_text_add(&copy->file_journal, "%s-wal", copy->file.data);
    mt_text_add(&copy->journal, "%s-wal", path);
    return MT_OK;
}

/* Opens the copy, folds its journal in, and disables further journal files, so that the connection needs no file
 * name. */
static mt_status open_folded(const struct copy *copy, struct mt_database **out)
{
    MT_TRY(mt_database_open_writing(copy->file.data, out));
    mt_status status = mt_database_execute(*out, "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = MEMORY;"
                                                 "PRAGMA synchronous = OFF");
    return mt_database_keep(status, out);
}

static mt_status copy_into(const char *base, const char *path, struct mt_database **out)
{
    struct copy copy = {0};
    mt_status status = make_folder(&copy, path, base);
    if (status == MT_OK) {
        status = check_room(&copy, path);
        MT_THEN(status, copy_file(path, copy.file.data, MT_FAILED));
        MT_THEN(status, copy_file(copy.journal.data, copy.file_journal.data, MT_OK));
        MT_THEN(status, open_folded(&copy, out));
        mt_job_folder_remove(&copy.folder); /* the open file stays usable */
    }
    mt_text_release(&copy.file);
    mt_text_release(&copy.file_journal);
    mt_text_release(&copy.journal);
    return status;
}

/* The places of private copies: TMPDIR, /tmp and /dev/shm, in that order. */
enum { COPY_PLACES = 3 };

/* Copies the trace at `path`, which no process may be writing, with its journal to one of the places, and opens the
 * copy for writing. The copy has no name any more and disappears when the connection closes. Fails with MT_FAILED if
 * there is no room. */
static mt_status open_private_copy(const char *path, int place, struct mt_database **out)
{
    const char *temporary = secure_getenv("TMPDIR");
    const char *const folders[COPY_PLACES] = {temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp", "/tmp",
                                              "/dev/shm"};
    assert(place >= 0 && place < COPY_PLACES);
    *out = NULL;
    return copy_into(folders[place], path, out);
}

/* Stores the rest in the file itself. Sets *out_damaged if the ring did not have all of it. */
static mt_status recover_in_place(const char *path, struct mt_ring *ring, bool *out_damaged)
{
    struct mt_database *database;
    *out_damaged = false;
    MT_TRY(mt_database_open_writing(path, &database));
    mt_status status = mt_recovery_run(database, ring, out_damaged);
    if (status == MT_OK)
        return mt_database_close_as_one_file(database);
    mt_database_close(database);
    return status;
}

static mt_status open_copy_at(const char *path, int place, struct mt_ring *ring, struct mt_database **out)
{
    bool damaged;
    MT_TRY(open_private_copy(path, place, out));
    mt_status status = mt_recovery_run(*out, ring, &damaged);
    MT_THEN(status, mt_database_execute(*out, "PRAGMA query_only = ON"));
    return mt_database_keep(status, out);
}

/* Recovers a copy at the first place with room for it and for the rest. Fails with the text of the first place without
 * room. */
static mt_status open_copy(const char *path, struct mt_ring *ring, struct mt_database **out)
{
    struct mt_error first = {0};
    mt_status status = MT_FAILED;
    for (int place = 0; place < COPY_PLACES && status == MT_FAILED; place++) {
        status = open_copy_at(path, place, ring, out);
        if (status == MT_FAILED && first.status == MT_OK)
            first = mt_error_save(status);
    }
    return status == MT_FAILED ? mt_error_restore(&first, status) : status;
}

/* Recovers the file or, if its disk is full, a copy. In that case the ring stays for a time when there is room. A
 * damaged ring stays under another name. Fails with the text of the file's failure. */
static mt_status open_recovered(const char *path, struct mt_ring *ring, struct mt_database **out)
{
    bool damaged;
    mt_status status = recover_in_place(path, ring, &damaged);
    if (status == MT_OK) {
        (damaged ? mt_ring_put_aside : mt_ring_remove)(ring);
        return mt_database_open_reading(path, out);
    }
    assert(*out == NULL);
    const struct mt_error error = mt_error_save(status);
    bool is_copied = status == MT_FAILED && open_copy(path, ring, out) == MT_OK;
    mt_ring_abandon(ring);
    return is_copied ? MT_OK : mt_error_restore(&error, MT_OK);
}

/* Opens a trace in a folder that can't be written. Opens the file itself if it was closed properly and has no log,
 * which SQLite could read only with write permission; otherwise recovers a copy. */
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

/* Opens a trace unless one of its runs has not ended: then *out is NULL. */
static mt_status open_if_ended(const char *path, struct mt_database **out)
{
    int64_t running = 0;
    MT_TRY(mt_database_open_reading(path, out));
    mt_status status = mt_database_integer(*out, "SELECT count(*) FROM run WHERE state = 'running'", &running);
    if (status == MT_OK && running == 0)
        return MT_OK;
    mt_database_close(*out);
    *out = NULL;
    return status;
}

/* Opens a trace without a ring. If a run has not ended, its ring was lost, and only its stored events are left. */
static mt_status open_without_ring(const char *path, struct mt_database **out)
{
    struct mt_ring *ring;
    mt_ring_outcome outcome;
    int64_t pid;
    MT_TRY(open_if_ended(path, out));
    if (*out != NULL)
        return MT_OK;
    MT_TRY(mt_ring_open(path, MT_RING_CREATE, &outcome, &pid, &ring));
    return outcome == MT_RING_BUSY ? open_live(path, out) : open_recovered(path, ring, out);
}

/* Opens a trace in a writable folder. First checks that it is a trace, since other files' companions must not be
 * touched. */
static mt_status open_writable(const char *path, struct mt_database **out)
{
    struct mt_ring *ring = NULL;
    mt_ring_outcome outcome;
    int64_t pid;
    MT_TRY(mt_database_check_writing(path));
    MT_TRY(mt_ring_open(path, MT_RING_INSPECT, &outcome, &pid, &ring));
    if (outcome == MT_RING_BUSY)
        return open_live(path, out);
    return outcome == MT_RING_ABSENT ? open_without_ring(path, out) : open_recovered(path, ring, out);
}

mt_status mt_store_open_reading(const char *path, struct mt_database **out)
{
    char *file;
    *out = NULL;
    mt_status status = mt_trace_file_resolve(path, &file);
    MT_THEN(status, mt_trace_file_check_reading(file));
    MT_THEN(status, mt_trace_file_is_writable(file) ? open_writable(file, out) : open_unwritable(file, out));
    free(file);
    return status;
}

/* ---- recovery ---- */

/* A run that has not ended. */
struct unfinished {
    int64_t run;
    char started_at[MT_RING_STARTED_AT_BYTES];
};

/* Finds the first unfinished run whose number is above `after`. Sets *out_found to false if there is none. */
static mt_status next_unfinished(struct mt_database *database, int64_t after, struct unfinished *out, bool *out_found)
{
    mt_status status = MT_OK;
    *out_found = false;
    MT_EACH_ROW (row, status, database,
                 "SELECT id, started_at FROM run WHERE state = 'running' AND id > ? ORDER BY id LIMIT 1",
                 MT_BIND_INTEGER(after)) {
        const char *text = mt_statement_text(row, 1);
        *out_found = true;
        out->run = mt_statement_integer(row, 0);
        if (out->run <= after) /* in a damaged tree the row after the last may be the first */
            status =
                mt_fail(MT_BAD_TRACE, "%s is damaged: its runs are not in their order", mt_database_path(database));
        snprintf(out->started_at, sizeof out->started_at, "%s", text != NULL ? text : "");
    }
    return status;
}

/* True if the ring belongs to this run: the trace may have been replaced while its old ring stayed. */
static bool belongs_to(const struct mt_ring *ring, const struct unfinished *unfinished)
{
    return ring != NULL && ring->header != NULL && ring->header->run == unfinished->run &&
           strcmp(ring->header->started_at, unfinished->started_at) == 0;
}

/* Stores the run's records in the ring. The head may be older than the records, or damaged. In any case, each following
 * record with the right checksum was written. */
static mt_status store_leftover(struct mt_intake *intake, const struct mt_ring *ring, struct mt_run_end *end)
{
    const uint64_t head = mt_ring_head(ring), position = mt_intake_position(intake), capacity = mt_ring_capacity(ring);
    const bool is_possible = head >= position && head - position <= capacity;
    end->stall_count = atomic_load(&ring->header->stall_count);
    end->stall_ns = atomic_load(&ring->header->stall_ns);
    end->lost_events = atomic_load(&ring->header->lost_events);
    if (is_possible)
        MT_TRY(mt_intake_store(intake, ring, head, UINT64_MAX));
    if (is_possible && mt_intake_is_at_damage(intake))
        end->missing_records = head - mt_intake_position(intake);
    if (!is_possible || mt_intake_is_at_damage(intake))
        end->state = MT_RUN_DAMAGED;
    if (atomic_load(&ring->header->writer_failed))
        end->state = MT_RUN_FAILED;
    return mt_intake_is_at_damage(intake)
               ? MT_OK
               : mt_intake_store(intake, ring, mt_intake_position(intake) + capacity, UINT64_MAX);
}

static mt_status end_run(struct mt_database *database, int64_t run, const struct mt_ring *ring, struct mt_run_end *end,
                         struct mt_intake **intake)
{
    MT_TRY(mt_database_guard(database, NULL));
    MT_TRY(mt_intake_create(database, run, intake));
    if (ring != NULL)
        MT_TRY(store_leftover(*intake, ring, end));
    return mt_intake_end(*intake, end);
}

/* Sets *damaged if the run lacks its end. */
static mt_status recover(struct mt_database *database, const struct unfinished *unfinished, const struct mt_ring *ring,
                         bool *damaged)
{
    struct mt_intake *intake = NULL;
    const bool is_its = belongs_to(ring, unfinished), has_lost_header = mt_ring_has_lost_header(ring);
    struct mt_run_end end = {.state = has_lost_header ? MT_RUN_DAMAGED : MT_RUN_INTERRUPTED};
    mt_status status = end_run(database, unfinished->run, is_its ? ring : NULL, &end, &intake);
    mt_intake_destroy(intake);
    *damaged = *damaged || end.state == MT_RUN_DAMAGED || end.missing_records > 0;
    return status == MT_OK ? status : mt_fail_context(status, "run %" PRId64 " can't be recovered", unfinished->run);
}

/* Recovers one run after another, each once: in an untrusted file, a run may stay unfinished whatever is written. */
mt_status mt_recovery_run(struct mt_database *database, struct mt_ring *ring, bool *out_damaged)
{
    *out_damaged = false;
    struct unfinished unfinished = {.run = INT64_MIN};
    bool more = true;
    mt_status status = MT_OK;
    if (ring != NULL && ring->header == NULL)
        status = mt_ring_map_leftover(ring);
    while (status == MT_OK && more) {
        status = next_unfinished(database, unfinished.run, &unfinished, &more);
        if (status == MT_OK && more)
            status = recover(database, &unfinished, ring, out_damaged);
    }
    return status;
}
