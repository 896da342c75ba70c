#include "trace/store/verify.h"

#include "base/number_map.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"
#include "trace/store/trace_format.h"
#include "trace/store/trace_names.h"
#include "trace/store/verify_file.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#define DERIVED "derived_"

/* The tables that are derived from events. */
static const char *const derived_tables[] = {"segment",           "segment_part",     "step",
                                             "checkpoint",        "summary_peak",     "summary_peak_category",
                                             "summary_peak_role", "summary_category", "summary_allocation"};
enum { DERIVED_TABLES = sizeof derived_tables / sizeof derived_tables[0] };

/* A stored run. */
struct stored_run {
    int64_t id, first_event, event_count, lost_events, missing_records;
    bool is_running, is_damaged;
};

/* The checks of the runs of a trace. `found` holds the text of the current check. */
struct verify {
    struct mt_database *database;
    struct mt_verify_rows *rows;
    struct mt_text found;
};

/* Adds a check with its text, which is empty afterwards. */
static void tell(struct verify *verify, int64_t run, const char *what, bool is_whole)
{
    mt_verify_rows_add(verify->rows, run, what, is_whole ? MT_VERIFY_WHOLE : MT_VERIFY_DAMAGED, &verify->found);
}

/* Adds a check that found damage, with the text of the failure. Returns any other failure. */
static mt_status tell_failure(struct verify *verify, int64_t run, const char *what, mt_status status)
{
    mt_text_release(&verify->found);
    return mt_verify_rows_add_failure(verify->rows, run, what, status);
}

/* ---- a run ---- */

/* The names that events of a run may refer to, and the number of events that refer to others. */
struct names {
    struct mt_summary *summary; /* of all events */
    struct mt_number_map labels, spans, stacks;
    int64_t nameless;
};

/* Reads the ids of a run's rows in a table. */
static mt_status read_ids(struct verify *verify, int64_t run, const char *sql, struct mt_number_map *out)
{
    mt_status status = MT_OK;
    mt_number_map_create(out);
    MT_EACH_ROW (row, status, verify->database, sql, MT_BIND_INTEGER(run))
        mt_number_map_put(out, (uint64_t)mt_statement_integer(row, 0), 0);
    return status;
}

static mt_status read_names(struct verify *verify, int64_t run, struct names *out)
{
    mt_status status = read_ids(verify, run, "SELECT id FROM label WHERE run = ?1", &out->labels);
    MT_THEN(status, read_ids(verify, run, "SELECT id FROM span WHERE run = ?1", &out->spans));
    MT_THEN(status, read_ids(verify, run, "SELECT id FROM stack WHERE run = ?1", &out->stacks));
    return status;
}

static void release_names(struct names *names)
{
    mt_number_map_release(&names->labels);
    mt_number_map_release(&names->spans);
    mt_number_map_release(&names->stacks);
}

static bool has_name(const struct mt_number_map *ids, uint32_t id)
{
    uint64_t unused;
    return id == 0 || mt_number_map_get(ids, id, &unused);
}

static void see_label(void *context, uint32_t number, const char *category, mt_role role, mt_phase phase,
                      mt_span_id span)
{
    (void)span;
    mt_summary_add_label(((struct names *)context)->summary, number, category, role, phase);
}

static void see_event(void *context, const struct mt_event *event)
{
    struct names *names = context;
    names->nameless += !has_name(&names->labels, event->label) || !has_name(&names->spans, event->span) ||
                       !has_name(&names->stacks, event->stack);
    mt_summary_add(names->summary, event);
}

/* Reads all events into the summary, through the checksums of their batches, and counts events that refer to missing
 * rows. */
static mt_status read_events(struct verify *verify, int64_t run, struct mt_summary *summary, int64_t *out_nameless)
{
    struct names names = {.summary = summary};
    const struct mt_scan_visitor visitor = {.context = &names, .label = see_label, .event = see_event};
    mt_status status = read_names(verify, run, &names);
    MT_THEN(status, mt_scan_run(verify->database, run, &visitor));
    *out_nameless = names.nameless;
    release_names(&names);
    return status;
}

/* Checks the events, and adds them to the summary. Sets *out_whole to true if the summary has all of them. */
static mt_status check_events(struct verify *verify, const struct stored_run *run, struct mt_summary *summary,
                              bool *out_whole)
{
    int64_t nameless;
    *out_whole = false;
    mt_status status = read_events(verify, run->id, summary, &nameless);
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
    tell(verify, run->id, "events", *out_whole && nameless == 0);
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
    tell(verify, run->id, "end", is_whole);
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

/* Creates an empty temporary table with the columns and the key of the trace's table. */
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

/* Counts the derived rows of a run, and the rows that are in only one of the two tables. */
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
    tell(verify, run->id, "summaries", unlike == 0);
    return MT_OK;
}

/* Older programs derived less, so their summaries are not compared. A run that has not ended has none yet. */
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

/* Reads the first run after `after`; *out_found is false if there is none. In a damaged tree the row after
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

static mt_status check_runs(struct verify *verify)
{
    struct stored_run run = {.id = INT64_MIN};
    int64_t format;
    bool more = true;
    mt_status status = mt_database_integer(verify->database, "PRAGMA user_version", &format);
    while (status == MT_OK && more) {
        status = next_run(verify, run.id, &run, &more);
        if (status == MT_OK && more)
            status = check_run(verify, &run, format > MT_TRACE_FORMAT_WITHOUT_CHECKSUMS);
    }
    mt_text_release(&verify->found);
    return status;
}

/* Checks the runs while a thread checks the file. Without a thread, checks the file first. */
mt_status mt_verify_trace(struct mt_database *database, const struct mt_verify_visitor *visitor)
{
    struct mt_verify_rows file = {0}, runs = {0};
    struct verify verify = {.database = database, .rows = &runs};
    struct mt_verify_file *beside = mt_verify_file_begin(database);
    mt_status of_runs = MT_OK, of_file = MT_OK;
    if (beside == NULL)
        of_file = mt_verify_file(database, &file);
    if (of_file == MT_OK)
        of_runs = check_runs(&verify);
    if (beside != NULL)
        of_file = mt_verify_file_end(beside, database, &file);
    const struct mt_error error = mt_error_save(of_runs);
    if (of_file == MT_OK)
        mt_verify_rows_tell(&file, visitor);
    mt_verify_rows_tell(&runs, visitor);
    mt_verify_rows_release(&file);
    mt_verify_rows_release(&runs);
    return of_file != MT_OK ? of_file : mt_error_restore(&error, MT_OK);
}
