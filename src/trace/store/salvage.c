#include "trace/store/salvage.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/batch_check.h"
#include "trace/store/row_copy.h"
#include "trace/store/store.h"
#include "trace/store/trace_names.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tables whose rows are copied, with their keys. Tables of events, and tables derived from them, are not among
 * these, except for the addresses of segments. */
static const struct {
    const char *name, *key, *backward;
} copied[] = {
    {"run", "id", "id DESC"},
    {"setting", "run, name", "run DESC, name DESC"},
    {"measurement", "run, name, step", "run DESC, name DESC, step DESC"},
    {"span", "run, id", "run DESC, id DESC"},
    {"label", "run, id", "run DESC, id DESC"},
    {"batch", "run, first_event", "run DESC, first_event DESC"},
    {"frame", "run, id", "run DESC, id DESC"},
    {"stack", "run, id", "run DESC, id DESC"},
    {"outside", "run, event, kind, name", "run DESC, event DESC, kind DESC, name DESC"},
    {"caveat", "run, kind, name, file, line", "run DESC, kind DESC, name DESC, file DESC, line DESC"},
    {"program_phase", "run, id", "run DESC, id DESC"},
    {"pool", "run, id", "run DESC, id DESC"},
    {"holder", "run, allocation, id", "run DESC, allocation DESC, id DESC"},
    {"finding", "run, id", "run DESC, id DESC"},
    {"kernel_name", "run, id", "run DESC, id DESC"},
    {"kernel", "run, id", "run DESC, id DESC"},
    {"block_use", "allocation", "allocation DESC"},
    {"segment", "run, id", "run DESC, id DESC"},
};
enum { COPIED_TABLES = sizeof copied / sizeof copied[0] };

/* The damaged trace, and the new one. */
struct salvage {
    struct mt_database *from, *to;
    bool has_garbage; /* pages with wrong checksums are read */
    bool is_guess;    /* the first page is another trace's: unless some event is right, tables are elsewhere */
    struct mt_salvaged_run *saved; /* by this attempt */
    size_t saved_count;
    int64_t events; /* of all of them */
};

/* ---- rows as they are ---- */

/* Copies rows in an order up to the first unreadable one. Failures to write are returned. */
static mt_status copy_in_order(struct salvage *salvage, const char *table, const char *columns, const char *order,
                               struct mt_statement *insert)
{
    struct mt_text sql = {0};
    struct mt_statement *rows;
    mt_status status = MT_OK;
    bool more = true;
    mt_text_add(&sql, "SELECT %s FROM %s ORDER BY %s", columns, table, order);
    if (mt_database_prepare(salvage->from, mt_text_get(&sql), &rows) == MT_OK)
        while (status == MT_OK && mt_statement_step(rows, &more) == MT_OK && more)
            status = mt_row_copy(rows, insert);
    mt_statement_finalize(rows);
    mt_text_release(&sql);
    return status;
}

/* Copies from the beginning to the first unreadable row, and backwards from the end. */
static mt_status copy_table(struct salvage *salvage, const char *table, const char *key, const char *backward)
{
    struct mt_text columns = {0};
    struct mt_statement *insert;
    mt_status status = mt_row_copy_prepare(salvage->to, table, &columns, &insert);
    MT_THEN(status, copy_in_order(salvage, table, mt_text_get(&columns), key, insert));
    MT_THEN(status, copy_in_order(salvage, table, mt_text_get(&columns), backward, insert));
    mt_statement_finalize(insert);
    mt_text_release(&columns);
    return status;
}

/* ---- events ---- */

/* Copies events up to the first that is missing, unreadable, or ends a batch that differs from the stored one. *out_end
 * is the id after the last intact event. */
static mt_status copy_events(struct salvage *salvage, struct mt_statement *rows, struct mt_batch_check *check,
                             struct mt_statement *insert, int64_t *out_end)
{
    const int64_t first = *out_end;
    mt_status status = MT_OK;
    bool more = true, agrees = true;
    while (status == MT_OK && agrees && mt_statement_step(rows, &more) == MT_OK && more) {
        struct mt_event_row_in event;
        const int64_t id = mt_statement_integer(rows, 0);
        if (id != *out_end)
            break;
        mt_event_row_read(&event, rows, 1);
        status = mt_row_copy(rows, insert);
        ++*out_end;
        agrees = mt_batch_check_add(check, id, &event) == MT_OK;
    }
    /* The rest of an incomparable batch may come from a damaged page. A damaged batch may contain any number. */
    if ((!agrees || salvage->has_garbage) && check->first < *out_end)
        *out_end = check->first > first ? check->first : first;
    return status;
}

#define EVENT_COLUMNS                                                                                                  \
    "id, time_ns, kind, stream, label, span, requested_bytes, block_bytes, segment, offset, allocation, stack"

static mt_status save_events(struct salvage *salvage, int64_t run, int64_t first, int64_t count, int64_t *out_end)
{
    struct mt_batch_check check;
    struct mt_statement *rows = NULL, *insert = NULL;
    *out_end = first;
    mt_status status = mt_batch_check_begin(&check, salvage->to, run, INT64_MIN);
    if (status == MT_BAD_TRACE) /* not even the first batch is possible */
        status = MT_OK;
    MT_THEN(status, mt_database_prepare(salvage->to,
                                        "INSERT OR IGNORE INTO event (" EVENT_COLUMNS
                                        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                        &insert));
    if (status == MT_OK && mt_database_prepare(salvage->from,
                                               "SELECT " EVENT_COLUMNS
                                               " FROM event NOT INDEXED WHERE id >= ?1 AND id - ?1 < ?2 ORDER BY id",
                                               &rows) == MT_OK) {
        mt_statement_bind_integer(rows, 1, first);
        mt_statement_bind_integer(rows, 2, count);
        status = copy_events(salvage, rows, &check, insert, out_end);
    }
    mt_statement_finalize(rows);
    mt_statement_finalize(insert);
    mt_batch_check_end(&check);
    return status;
}

/* ---- a run ---- */

#define BEGIN_OF_RUN "(SELECT first_event FROM run WHERE id = ?1)"
#define END_OF_RUN "(SELECT first_event + event_count FROM run WHERE id = ?1)"

/* Removes rows of the run that refer to lost events. */
static mt_status forget_events(struct salvage *salvage, int64_t run, int64_t end)
{
    static const char *const statements[] = {
        "DELETE FROM event WHERE id >= ?2 AND id < " END_OF_RUN,
        "DELETE FROM batch WHERE run = ?1 AND (first_event + event_count > ?2 OR event_count <= 0"
        " OR first_event < " BEGIN_OF_RUN ")",
        "DELETE FROM outside WHERE run = ?1 AND event >= ?2",
        "DELETE FROM program_phase WHERE run = ?1 AND (first_event >= ?2 OR peak_event >= ?2)",
        "DELETE FROM holder WHERE run = ?1 AND allocation >= ?2",
        "DELETE FROM segment WHERE run = ?1 AND mapped_event >= ?2",
        "DELETE FROM block_use WHERE allocation >= ?2 AND allocation < " END_OF_RUN,
    };
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        MT_EACH_ROW (row, status, salvage->to, statements[i], MT_BIND_INTEGER(run), MT_BIND_INTEGER(end))
            assert(!"a statement that changes rows returns none");
    return status;
}

#define OF_EVENTS(column)                                                                                              \
    "ifnull((SELECT max(event." column ") FROM run CROSS JOIN event ON event.id >= first_event"                        \
    " AND event.id < first_event + event_count WHERE run.id = ?1), 0)"
#define OF_TABLE(table, column) "ifnull((SELECT max(" column ") FROM " table " WHERE run = ?1), 0)"

/* The highest number that a name can have: there are no more names than rows and events. Damaged data may contain any
 * number. */
#define MOST_NAMES(table)                                                                                              \
    "((SELECT count(*) FROM " table " WHERE run = ?1) + (SELECT event_count FROM run WHERE id = ?1) + 1000)"
#define FORGET(table) FORGET_IF(table, "0")
#define FORGET_IF(table, condition)                                                                                    \
    "DELETE FROM " table " WHERE run = ?1 AND (id < 1 OR id > " MOST_NAMES(table) " OR " condition ")"

/* True for a row that can't be a label: a page that is read despite a wrong checksum may have any text. */
#define QUOTED(name, text) "'" text "',"
#define IS_NO_LABEL "category = '' OR phase NOT IN (" MT_PHASES(QUOTED) "'init')"
#define FILL(table, values, most)                                                                                      \
    "WITH RECURSIVE last (id) AS (SELECT min(" most ", " MOST_NAMES(                                                   \
        table) ")), numbers (id) AS (SELECT 1 UNION ALL"                                                               \
               " SELECT id + 1 FROM numbers WHERE id < (SELECT id FROM last)) INSERT OR IGNORE INTO " table            \
               " SELECT ?1, id, " values " FROM numbers WHERE id <= (SELECT id FROM last)"

/* Adds rows for lost names that events and other names refer to, so that numbers have no gap. Adds their number to
 * *out. */
static mt_status fill_names(struct salvage *salvage, int64_t run, int64_t *out)
{
    static const struct {
        const char *forget, *fill;
    } statements[] = {
        {FORGET_IF("label", IS_NO_LABEL),
         FILL("label", "'Other', 'other', '(lost)', 0, 'init', NULL, '', '', 'inferred'",
              "max(" OF_EVENTS("label") ", " OF_TABLE("label", "id") ")")},
        {FORGET("stack"), FILL("stack", "0, 1", "max(" OF_EVENTS("stack") ", " OF_TABLE("stack", "id") ")")},
        {FORGET("frame"),
         FILL("frame", "'(lost)', '', 0", "max(" OF_TABLE("stack", "frame") ", " OF_TABLE("frame", "id") ")")},
        {FORGET("span"), FILL("span", "0, '(lost)', '(lost)'",
                              "max(" OF_EVENTS("span") ", " OF_TABLE("label", "span") ", " OF_TABLE(
                                  "span", "parent") ", " OF_TABLE("span", "id") ")")},
    };
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && status == MT_OK; i++) {
        MT_EACH_ROW (row, status, salvage->to, statements[i].forget, MT_BIND_INTEGER(run))
            assert(!"a deletion returns no row");
        MT_EACH_ROW (row, status, salvage->to, statements[i].fill, MT_BIND_INTEGER(run))
            assert(!"an insertion returns no row");
        *out += sqlite3_changes(mt_database_handle(salvage->to));
    }
    return status;
}

/* Shortens the run to its intact events. */
static mt_status cut_run(struct salvage *salvage, int64_t run, int64_t events)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, salvage->to,
                 "UPDATE run SET event_count = ?2, state = iif(event_count > ?2, ?3, state),"
                 " missing_records = ifnull(missing_records, 0) + event_count - ?2 WHERE id = ?1",
                 MT_BIND_INTEGER(run), MT_BIND_INTEGER(events), MT_BIND_TEXT(mt_run_state_name(MT_RUN_DAMAGED)))
        assert(!"an update returns no row");
    return status;
}

static mt_status save_run(struct salvage *salvage, int64_t run, int64_t first, int64_t count)
{
    int64_t end;
    struct mt_salvaged_run saved = {.run = run, .stored_events = count};
    MT_TRY(save_events(salvage, run, first, count, &end));
    MT_TRY(forget_events(salvage, run, end));
    saved.events = end - first;
    salvage->events += saved.events;
    MT_TRY(cut_run(salvage, run, saved.events));
    MT_TRY(fill_names(salvage, run, &saved.lost_names));
    *MT_HOST_ADD(salvage->saved, salvage->saved_count) = saved;
    return MT_OK;
}

static mt_status save_runs(struct salvage *salvage)
{
    mt_status status = MT_OK;
    int64_t runs = 0;
    MT_EACH_ROW (row, status, salvage->to, "SELECT id, first_event, event_count FROM run WHERE event_count >= ?1",
                 MT_BIND_INTEGER(0)) {
        runs++;
        status =
            save_run(salvage, mt_statement_integer(row, 0), mt_statement_integer(row, 1), mt_statement_integer(row, 2));
    }
    if (status == MT_OK && (runs == 0 || (salvage->is_guess && salvage->events == 0)))
        return mt_fail(MT_BAD_TRACE, "%s: no run of it can be read any more", mt_database_path(salvage->from));
    return status;
}

static mt_status copy_all(struct salvage *salvage)
{
    MT_TRY(mt_database_begin(salvage->to));
    for (int i = 0; i < COPIED_TABLES; i++)
        MT_TRY(copy_table(salvage, copied[i].name, copied[i].key, copied[i].backward));
    MT_TRY(save_runs(salvage));
    /* Keeps the ends of runs while recovery derives their tables. */
    MT_TRY(mt_database_execute(salvage->to, "CREATE TEMP TABLE kept AS SELECT id, state, lost_events, stall_count,"
                                            " stall_ns, missing_records FROM run; UPDATE run SET state = 'running'"));
    return mt_database_commit(salvage->to);
}

/* A run that had not ended stays interrupted. */
static mt_status derive_all(struct salvage *salvage)
{
    bool is_damaged;
    MT_TRY(mt_recovery_run(salvage->to, NULL, &is_damaged));
    return mt_database_execute(
        salvage->to,
        "UPDATE run SET (state, lost_events, stall_count, stall_ns, missing_records) = (SELECT"
        " iif(kept.state = 'running', run.state, kept.state), kept.lost_events, kept.stall_count, kept.stall_ns,"
        " kept.missing_records FROM kept WHERE kept.id = run.id)");
}

/* ---- both traces ---- */

static void forget_attempt(struct salvage *salvage)
{
    free(salvage->saved);
    salvage->saved = NULL;
    salvage->saved_count = 0;
    salvage->events = 0;
}

static mt_status save(struct salvage *salvage, const char *to)
{
    forget_attempt(salvage);
    mt_status status = mt_database_open_writing(to, &salvage->to);
    MT_THEN(status, copy_all(salvage));
    MT_THEN(status, derive_all(salvage));
    if (status == MT_OK)
        return mt_database_close_as_one_file(salvage->to);
    const struct mt_error error = mt_error_save(status);
    mt_database_close(salvage->to);
    unlink(to);
    return mt_error_restore(&error, status);
}

/* Saves what is readable with the first page of a new trace. Fails with the text of an earlier failure. */
static mt_status save_without_first_page(struct salvage *salvage, const char *from, const char *to)
{
    const struct mt_error error = mt_error_save(MT_BAD_TRACE);
    struct mt_database *model;
    salvage->is_guess = true;
    mt_status status = mt_database_open_writing(to, &model);
    MT_THEN(status, mt_database_close_as_one_file(model));
    MT_THEN(status, mt_database_open_without_first_page(from, to, &salvage->from));
    MT_THEN(status, save(salvage, to));
    if (status == MT_OK)
        return MT_OK;
    unlink(to);
    return status == MT_BAD_TRACE ? mt_error_restore(&error, status) : status;
}

/* Saves everything readable into a new file. */
static mt_status save_readable(struct salvage *salvage, const char *from, const char *to)
{
    mt_status status = mt_database_open_reading(from, &salvage->from);
    MT_THEN(status, save(salvage, to));
    if (status == MT_BAD_TRACE) { /* an essential page: read it despite its checksum */
        mt_database_close(salvage->from);
        salvage->has_garbage = true;
        status = mt_database_open_damaged(from, &salvage->from);
        MT_THEN(status, save(salvage, to));
    }
    if (status == MT_BAD_TRACE) {
        mt_database_close(salvage->from);
        salvage->from = NULL;
        status = save_without_first_page(salvage, from, to);
    }
    mt_database_close(salvage->from);
    return status;
}

/* Renames the new trace to its name, unless another file has it now. Not every file system supports that check. */
static mt_status name_trace(const char *partial, const char *to)
{
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return MT_OK;
    if ((errno == EINVAL || errno == ENOSYS) && access(to, F_OK) != 0 && rename(partial, to) == 0)
        return MT_OK;
    mt_status status = mt_fail(MT_NOT_WRITTEN, "%s can't get its name: %s", to, strerror(errno));
    unlink(partial);
    return status;
}

mt_status mt_salvage_trace(const char *from, const char *to, const struct mt_salvage_visitor *visitor)
{
    struct salvage salvage = {0};
    struct mt_text partial = {0};
    if (access(to, F_OK) == 0)
        return mt_fail(MT_USAGE, "%s is there already: name a file that is not", to);
    mt_text_add(&partial, "%s.%ld", to, (long)getpid()); /* a killed process leaves no file with the final name */
    mt_status status = save_readable(&salvage, from, partial.data);
    MT_THEN(status, name_trace(partial.data, to));
    for (size_t i = 0; i < salvage.saved_count && status == MT_OK; i++)
        visitor->run(visitor->context, &salvage.saved[i]);
    forget_attempt(&salvage);
    mt_text_release(&partial);
    return status;
}
