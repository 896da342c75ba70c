#include "trace/store/verify.h"

#include "base/text.h"
#include "trace/store/page_file.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"
#include "trace/store/trace_format.h"
#include "trace/store/trace_names.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#define DERIVED "derived_"

/* The tables that are derived from events. */
static const char *const derived_tables[] = {"segment",           "segment_part",     "step",
                                             "checkpoint",        "summary_peak",     "summary_peak_category",
                                             "summary_peak_role", "summary_category", "summary_allocation"};
enum { DERIVED_TABLES = sizeof derived_tables / sizeof derived_tables[0] };

/* A run as it is stored. */
struct stored_run {
    int64_t id, first_event, event_count, lost_events, missing_records;
    bool is_running, is_damaged;
};

/* The checks of one trace. `found` holds the words of the present one. */
struct verify {
    struct mt_database *database;
    const struct mt_verify_visitor *visitor;
    struct mt_text found;
};

/* Tells of a check with the words that were found, which are used up. */
static void tell(struct verify *verify, int64_t run, const char *what, mt_verify_result result)
{
    const struct mt_verify_row row = {.run = run, .what = what, .result = result, .found = mt_text_get(&verify->found)};
    verify->visitor->row(verify->visitor->context, &row);
    mt_text_release(&verify->found);
}

static mt_verify_result result_of(bool is_whole)
{
    return is_whole ? MT_VERIFY_WHOLE : MT_VERIFY_DAMAGED;
}

/* Tells of a check that found damage, in the words of the failure. Returns any other failure. */
static mt_status tell_failure(struct verify *verify, int64_t run, const char *what, mt_status status)
{
    if (status != MT_BAD_TRACE)
        return status;
    mt_text_add(&verify->found, "%s", mt_last_error());
    tell(verify, run, what, MT_VERIFY_DAMAGED);
    return MT_OK;
}

/* ---- the file ---- */

static mt_status check_pages(struct verify *verify)
{
    int64_t pages, damaged, first;
    sqlite3 *handle = mt_database_handle(verify->database);
    const mt_page_state state = mt_page_file_state(handle);
    if (mt_page_file_compare(handle, &pages, &damaged, &first) != SQLITE_OK)
        return mt_fail(MT_FAILED, "%s: reading its pages failed", mt_database_path(verify->database));
    if (state == MT_PAGES_CHANGED)
        mt_text_add(&verify->found, "not compared: another program has changed the file");
    else if (state != MT_PAGES_CHECKED)
        mt_text_add(&verify->found, "have no checksums: written by an older memtrace");
    else if (damaged > 0)
        mt_text_add(&verify->found, "%" PRId64 " of %" PRId64 " are not what was written, the first is page %" PRId64,
                    damaged, pages, first);
    else
        mt_text_add(&verify->found, "%" PRId64 ", all as they were written", pages);
    tell(verify, 0, "pages", state == MT_PAGES_CHECKED ? result_of(damaged == 0) : MT_VERIFY_UNKNOWN);
    return MT_OK;
}

static mt_status check_database(struct verify *verify)
{
    bool is_whole = true;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, verify->database, "SELECT integrity_check FROM pragma_integrity_check(?1)",
                 MT_BIND_INTEGER(1)) {
        const char *text = mt_statement_text(row, 0);
        const char *line = text != NULL ? strrchr(text, '\n') : NULL; /* the first line says which database it is */
        is_whole = text != NULL && strcmp(text, "ok") == 0;
        if (is_whole)
            mt_text_add(&verify->found, "SQLite's integrity check finds nothing");
        else
            mt_text_add(&verify->found, "SQLite's integrity check: %s", line != NULL ? line + 1 : text);
    }
    if (status != MT_OK)
        return tell_failure(verify, 0, "database", status);
    tell(verify, 0, "database", result_of(is_whole));
    return MT_OK;
}

/* ---- a run ---- */

/* Counts the events that name what has no row. */
static mt_status count_nameless(struct verify *verify, const struct stored_run *run, int64_t *out)
{
    mt_status status = MT_OK;
    *out = 0;
    MT_EACH_ROW (row, status, verify->database,
                 "SELECT count(*) FROM event NOT INDEXED WHERE id >= ?2 AND id < ?2 + ?3 AND ("
                 "label IS NOT NULL AND NOT EXISTS (SELECT 1 FROM label WHERE run = ?1 AND label.id = event.label)"
                 " OR span > 0 AND NOT EXISTS (SELECT 1 FROM span WHERE run = ?1 AND span.id = event.span)"
                 " OR stack > 0 AND NOT EXISTS (SELECT 1 FROM stack WHERE run = ?1 AND stack.id = event.stack))",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(run->event_count))
        *out = mt_statement_integer(row, 0);
    return status;
}

/* Reads all events into the summary, through the checksums of their batches. *out_whole says that it has all of them. */
static mt_status check_events(struct verify *verify, const struct stored_run *run, struct mt_summary *summary,
                              bool *out_whole)
{
    int64_t nameless = 0;
    *out_whole = false;
    mt_status status = mt_scan_summary(verify->database, run->id, summary);
    MT_THEN(status, count_nameless(verify, run, &nameless));
    if (status != MT_OK)
        return tell_failure(verify, run->id, "events", status);
    *out_whole = mt_summary_events(summary) == run->event_count;
    if (!*out_whole)
        mt_text_add(&verify->found, "%" PRId64 " of %" PRId64 " are there", mt_summary_events(summary),
                    run->event_count);
    else if (nameless > 0)
        mt_text_add(&verify->found, "%" PRId64 " name a label, a span or a stack that is not there", nameless);
    else
        mt_text_add(&verify->found, "%" PRId64 ", all as they were stored", run->event_count);
    tell(verify, run->id, "events", result_of(*out_whole && nameless == 0));
    return MT_OK;
}

static void check_end(struct verify *verify, const struct stored_run *run)
{
    const bool is_whole = run->lost_events == 0 && run->missing_records == 0 && !run->is_damaged;
    if (run->lost_events > 0)
        mt_text_add(&verify->found, "%" PRId64 " events could not be stored", run->lost_events);
    else if (run->missing_records > 0)
        mt_text_add(&verify->found, "%" PRId64 " records of its ring were damaged", run->missing_records);
    else if (run->is_damaged)
        mt_text_add(&verify->found, "lost, with an unknown number of events");
    else
        mt_text_add(&verify->found, "nothing is known to be lost");
    tell(verify, run->id, "end", result_of(is_whole));
}

/* Adds the columns of a table's key, separated by commas. */
static mt_status add_key(struct verify *verify, const char *table, struct mt_text *out)
{
    mt_status status = MT_OK;
    const char *comma = "";
    MT_EACH_ROW (row, status, verify->database,
                 "SELECT name FROM pragma_table_info(?1, 'main') WHERE pk > 0 ORDER BY pk", MT_BIND_TEXT(table)) {
        mt_text_add(out, "%s%s", comma, mt_statement_text(row, 0));
        comma = ", ";
    }
    return status;
}

/* Makes an empty temporary table with the columns and the key of the table that it stands beside. */
static mt_status make_table(struct verify *verify, const char *table)
{
    struct mt_text key = {0}, sql = {0};
    mt_status status = add_key(verify, table, &key);
    mt_text_add(&sql,
                "CREATE TEMP TABLE IF NOT EXISTS " DERIVED "%1$s AS SELECT * FROM main.%1$s LIMIT 0;"
                "CREATE UNIQUE INDEX IF NOT EXISTS temp." DERIVED "%1$s_key ON " DERIVED "%1$s (%2$s);"
                "DELETE FROM " DERIVED "%1$s",
                table, mt_text_get(&key));
    MT_THEN(status, mt_database_execute(verify->database, mt_text_get(&sql)));
    mt_text_release(&key);
    mt_text_release(&sql);
    return status;
}

/* Counts the rows of a run that were derived, and those that are in one of the two tables only. */
static mt_status compare_table(struct verify *verify, int64_t run, const char *table, int64_t *rows, int64_t *unlike)
{
    struct mt_text sql = {0};
    mt_status status = MT_OK;
    mt_text_add(&sql,
                "SELECT (SELECT count(*) FROM " DERIVED "%1$s),"
                "(SELECT count(*) FROM (SELECT * FROM main.%1$s WHERE run = ?1 EXCEPT SELECT * FROM " DERIVED "%1$s)) +"
                "(SELECT count(*) FROM (SELECT * FROM " DERIVED "%1$s EXCEPT SELECT * FROM main.%1$s WHERE run = ?1))",
                table);
    MT_EACH_ROW (row, status, verify->database, mt_text_get(&sql), MT_BIND_INTEGER(run)) {
        *rows += mt_statement_integer(row, 0);
        *unlike += mt_statement_integer(row, 1);
    }
    mt_text_release(&sql);
    return status;
}

static mt_status derive(struct verify *verify, int64_t run, struct mt_summary *summary)
{
    for (int i = 0; i < DERIVED_TABLES; i++)
        MT_TRY(make_table(verify, derived_tables[i]));
    MT_TRY(mt_summary_store_totals(summary, verify->database, run, DERIVED));
    return mt_summary_store_progress(summary, verify->database, run, DERIVED);
}

static mt_status check_summaries(struct verify *verify, const struct stored_run *run, struct mt_summary *summary)
{
    int64_t rows = 0, unlike = 0;
    mt_status status = derive(verify, run->id, summary);
    for (int i = 0; i < DERIVED_TABLES && status == MT_OK; i++) {
        const int64_t before = unlike;
        status = compare_table(verify, run->id, derived_tables[i], &rows, &unlike);
        if (unlike > before)
            mt_text_add(&verify->found, "%s%s: %" PRId64 " rows are not those that the events give",
                        before > 0 ? "; " : "", derived_tables[i], unlike - before);
    }
    if (status != MT_OK)
        return tell_failure(verify, run->id, "summaries", status);
    if (unlike == 0)
        mt_text_add(&verify->found, "%" PRId64 " rows, all those that the events give", rows);
    tell(verify, run->id, "summaries", result_of(unlike == 0));
    return MT_OK;
}

/* Older programs derived less, so their summaries are not compared. A run that goes on has none yet. */
static mt_status check_run(struct verify *verify, const struct stored_run *run, bool is_of_now)
{
    struct mt_summary *summary = mt_summary_create(run->first_event);
    bool has_all;
    mt_status status = check_events(verify, run, summary, &has_all);
    if (status == MT_OK && !run->is_running)
        check_end(verify, run);
    if (status == MT_OK && has_all && is_of_now && !run->is_running)
        status = check_summaries(verify, run, summary);
    mt_summary_destroy(summary);
    return status;
}

/* Reads the first run behind `after`; *out_found is false if there is none. In a damaged tree the row behind
 * the last may be the first. */
static mt_status next_run(struct verify *verify, int64_t after, struct stored_run *out, bool *out_found)
{
    mt_status status = MT_OK;
    *out_found = false;
    MT_EACH_ROW (row, status, verify->database,
                 "SELECT id, first_event, event_count, lost_events, missing_records, state FROM run WHERE id > ?1"
                 " ORDER BY id LIMIT 1",
                 MT_BIND_INTEGER(after)) {
        const char *state = mt_statement_text(row, 5);
        *out_found = true;
        *out = (struct stored_run){
            .id = mt_statement_integer(row, 0),
            .first_event = mt_statement_integer(row, 1),
            .event_count = mt_statement_integer(row, 2),
            .lost_events = mt_statement_integer(row, 3),
            .missing_records = mt_statement_integer(row, 4),
            .is_running = state != NULL && strcmp(state, mt_run_state_name(MT_RUN_RUNNING)) == 0,
            .is_damaged = state != NULL && strcmp(state, mt_run_state_name(MT_RUN_DAMAGED)) == 0,
        };
        if (out->id <= after)
            status = mt_fail(MT_BAD_TRACE, "%s is damaged: its runs are not in their order",
                             mt_database_path(verify->database));
    }
    return status;
}

static mt_status check_all(struct verify *verify)
{
    struct stored_run run = {.id = INT64_MIN};
    int64_t format;
    bool more = true;
    MT_TRY(check_pages(verify));
    MT_TRY(check_database(verify));
    MT_TRY(mt_database_integer(verify->database, "PRAGMA user_version", &format));
    mt_status status = MT_OK;
    while (status == MT_OK && more) {
        status = next_run(verify, run.id, &run, &more);
        if (status == MT_OK && more)
            status = check_run(verify, &run, format > MT_TRACE_FORMAT_WITHOUT_CHECKSUMS);
    }
    return status;
}

mt_status mt_verify_trace(struct mt_database *database, const struct mt_verify_visitor *visitor)
{
    struct verify verify = {.database = database, .visitor = visitor};
    mt_status status = check_all(&verify);
    mt_text_release(&verify.found);
    return status;
}
