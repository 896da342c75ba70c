#include "trace/query/rank_catalogue.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/query.h"
#include "trace/query/rank_rows.h"
#include "trace/store/connection.h"
#include "trace/store/page_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CATALOGUE_ID "1836348011" /* "mtrk", at byte 68 of the file */
enum { FORMAT = 2, NEVER = -1, ID_AT = 68, ID_BYTES = 4 };

struct mt_rank_catalogue {
    struct mt_database *database;
};

/* A trace's file as it is now. */
struct stamp {
    int64_t bytes, changed_ns;
};

/* The columns of table rank that hold a member of struct mt_rank: X(column, type, member). */
#define RANK_COLUMNS(X)                                                                                                \
    X(run, INTEGER, run)                                                                                               \
    X(rank, INTEGER, rank)                                                                                             \
    X(local_rank, INTEGER, local_rank)                                                                                 \
    X(world_size, INTEGER, world_size)                                                                                 \
    X(host, TEXT, host)                                                                                                \
    X(job, TEXT, job)                                                                                                  \
    X(name, TEXT, name)                                                                                                \
    X(state, TEXT, state)                                                                                              \
    X(device, TEXT, device)                                                                                            \
    X(started_at, TEXT, started_at)                                                                                    \
    X(steps, INTEGER, steps)                                                                                           \
    X(allocated, INTEGER, peak_bytes[MT_MEASURE_ALLOCATED])                                                            \
    X(requested, INTEGER, peak_bytes[MT_MEASURE_REQUESTED])                                                            \
    X(reserved, INTEGER, peak_bytes[MT_MEASURE_RESERVED])                                                              \
    X(step, INTEGER, step)                                                                                             \
    X(phase, TEXT, phase)                                                                                              \
    X(span, TEXT, span)                                                                                                \
    X(growing_steps, INTEGER, growing_steps)                                                                           \
    X(growth_bytes, INTEGER, growth_bytes)

#define DECLARED(column, type, member) ", " #column " " #type
#define RANK_TABLE "trace TEXT" RANK_COLUMNS(DECLARED) ", PRIMARY KEY (trace, run)"
static const char tables[] =
    "CREATE TABLE trace (name TEXT PRIMARY KEY, bytes INTEGER, changed_ns INTEGER, problem TEXT);"
    "CREATE TABLE rank (" RANK_TABLE ") WITHOUT ROWID;"
    "CREATE TABLE share (trace TEXT, run INTEGER, key INTEGER, name TEXT, bytes INTEGER,"
    " PRIMARY KEY (trace, run, key, name)) WITHOUT ROWID;"
    "PRAGMA application_id = " CATALOGUE_ID "; PRAGMA user_version = 2";

#define NAMED(column, type, member) ", " #column
#define RANK_COLUMN_NAMES "trace" RANK_COLUMNS(NAMED)

/* ---- open ---- */

static mt_status make(struct mt_database *database, bool is_file)
{
    if (is_file)
        mt_page_file_reserve(
            mt_database_handle(database)); /* without, the pages count as unchecked when they are read */
    return mt_database_execute(database, tables);
}

/* Makes the tables, unless they are there. A file of another program stays as it is. A catalogue is believed only if
 * each of its pages has a checksum, which SQLite's own shell and versions before format 2 do not write. */
static mt_status set_up(struct mt_database *database, bool is_file)
{
    int64_t id, format, count;
    MT_TRY(mt_database_execute(database, "PRAGMA synchronous = OFF"));
    MT_TRY(mt_database_integer(database, "PRAGMA application_id", &id));
    MT_TRY(mt_database_integer(database, "PRAGMA user_version", &format));
    MT_TRY(mt_database_integer(database, "SELECT count(*) FROM sqlite_schema", &count));
    if (count == 0)
        return make(database, is_file);
    if (id != strtoll(CATALOGUE_ID, NULL, 10))
        return mt_fail(MT_USAGE, "%s is no catalogue of ranks", mt_database_path(database));
    if (format != FORMAT || mt_page_file_state(mt_database_handle(database)) != MT_PAGES_CHECKED)
        return mt_fail(MT_BAD_TRACE, "%s has no checksums", mt_database_path(database));
    return MT_OK;
}

mt_status mt_rank_catalogue_open(const char *path, struct mt_rank_catalogue **out)
{
    struct mt_rank_catalogue *catalogue = mt_host_alloc(sizeof *catalogue);
    *out = catalogue;
    MT_TRY(mt_database_connect(path != NULL ? path : "the catalogue in memory",
                               path != NULL ? MT_ACCESS_WRITE : MT_ACCESS_PRIVATE, &catalogue->database));
    return set_up(catalogue->database, path != NULL);
}

void mt_rank_catalogue_close(struct mt_rank_catalogue *catalogue)
{
    if (catalogue == NULL)
        return;
    mt_database_close(catalogue->database);
    free(catalogue);
}

bool mt_rank_catalogue_may_be_at(const char *path)
{
    struct stat about;
    return lstat(path, &about) != 0 ? errno == ENOENT : S_ISREG(about.st_mode);
}

bool mt_rank_catalogue_is_at(const char *path)
{
    unsigned char header[ID_AT + ID_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const bool is_ours = fread(header, sizeof header, 1, file) == 1 && memcmp(header + ID_AT, "mtrk", ID_BYTES) == 0;
    fclose(file);
    return is_ours;
}

/* ---- what the catalogue keeps of a trace ---- */

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static void add_shares(struct mt_rank *rank, mt_rank_key key, const struct mt_peak_row *peak)
{
    for (size_t i = 0; i < peak->share_count; i++)
        *MT_HOST_ADD(rank->shares, rank->share_count) =
            (struct mt_rank_share){key, peak->shares[i].name, peak->shares[i].allocated_bytes};
}

static mt_status read_peaks(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *rank)
{
    struct mt_peak_row peak;
    int64_t event;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        MT_TRY(mt_query_peak_event(trace, run, (mt_measure)measure, &rank->peak_bytes[measure], &event));
    mt_status status = mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak);
    if (status == MT_OK) {
        rank->step = peak.step;
        rank->phase = peak.phase;
        rank->span = peak.span;
        add_shares(rank, MT_RANK_CATEGORY, &peak);
        status = mt_query_peak_roles(trace, run, MT_STEP_WHOLE_RUN, MT_MEASURE_ALLOCATED, &peak);
    }
    if (status == MT_OK)
        add_shares(rank, MT_RANK_ROLE, &peak);
    mt_peak_row_release(&peak);
    return status;
}

/* Reads by how much the last steps each went higher than the one before. */
static mt_status read_growth(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *rank)
{
    mt_status status = MT_OK;
    uint64_t last = UINT64_MAX;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT bytes FROM summary_peak WHERE run = ?1 AND measure = ?2 AND step >= 0 AND step <= ?3"
                 " ORDER BY step",
                 MT_BIND_INTEGER(run->id), MT_BIND_TEXT(mt_measure_name(MT_MEASURE_ALLOCATED)),
                 MT_BIND_INTEGER(run->last_full_step)) {
        uint64_t bytes;
        status = mt_query_natural(row, 0, &bytes);
        const bool grows = status == MT_OK && bytes > last;
        rank->growing_steps = grows ? rank->growing_steps + 1 : 0;
        rank->growth_bytes = grows ? rank->growth_bytes + (bytes - last) : 0;
        last = bytes;
    }
    return status;
}

static mt_status read_rank(struct mt_trace *trace, const struct mt_run *run, struct mt_rank *out)
{
    *out = (struct mt_rank){
        .run = run->id,
        .rank = run->rank,
        .local_rank = run->local_rank,
        .world_size = run->world_size,
        .host = text_of(run->host),
        .job = text_of(run->job),
        .name = text_of(run->name),
        .state = run->state,
        .device = run->device,
        .started_at = text_of(run->started_at),
        .steps = run->steps,
        .phase = "",
        .span = "",
    };
    MT_TRY(read_peaks(trace, run, out));
    return read_growth(trace, run, out);
}

/* True if none of the runs after it is of the same rank. */
static bool is_newest(const struct mt_run *runs, size_t count, size_t place)
{
    for (size_t i = place + 1; i < count; i++)
        if (runs[i].rank == runs[place].rank && strcmp(text_of(runs[i].job), text_of(runs[place].job)) == 0)
            return false;
    return runs[place].rank >= 0;
}

/* Visits the newest run of each rank in a trace; texts are valid during the call. Fails with MT_USAGE if it has
 * none. */
static mt_status visit_ranks(const char *path, void *context,
                             mt_status (*visit)(void *context, const struct mt_rank *rank))
{
    struct mt_trace *trace;
    size_t count, found = 0;
    MT_TRY(mt_trace_open(path, &trace));
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_rank rank;
        if (!is_newest(runs, count, i))
            continue;
        found++;
        status = read_rank(trace, &runs[i], &rank);
        MT_THEN(status, visit(context, &rank));
        free(rank.shares);
    }
    mt_trace_close(trace);
    return status == MT_OK && found == 0 ? mt_fail(MT_USAGE, "%s has no run of a rank", path) : status;
}

/* ---- update ---- */

static char *path_of(const char *folder, const char *name)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name);
    return path.data;
}

/* Returns the state of a file; all zero if it is not there. */
static struct stamp stamp_of(const char *folder, const char *name)
{
    enum { SECOND_NS = 1000000000 };
    struct stat about;
    char *path = path_of(folder, name);
    struct stamp stamp = {0};
    if (stat(path, &about) == 0)
        stamp = (struct stamp){about.st_size, (int64_t)about.st_mtim.tv_sec * SECOND_NS + about.st_mtim.tv_nsec};
    free(path);
    return stamp;
}

static mt_status is_known(struct mt_database *database, const char *name, struct stamp stamp, bool *out)
{
    mt_status status = MT_OK;
    *out = false;
    MT_EACH_ROW (row, status, database, "SELECT 1 FROM trace WHERE name = ?1 AND bytes = ?2 AND changed_ns = ?3",
                 MT_BIND_TEXT(name), MT_BIND_INTEGER(stamp.bytes), MT_BIND_INTEGER(stamp.changed_ns))
        *out = true;
    return status;
}

/* The rows of one trace as they are stored. */
struct storing {
    struct mt_database *database;
    const char *name;
    struct mt_statement *add_rank, *add_share;
    bool goes_on; /* a run of it */
};

static mt_status store_rank(void *context, const struct mt_rank *rank)
{
    struct storing *storing = context;
    storing->goes_on |= strcmp(rank->state, mt_run_state_name(MT_RUN_RUNNING)) == 0;
#define BOUND(column, type, member) , MT_BIND_##type(rank->member)
    MT_TRY(MT_RUN_WITH(storing->add_rank, 1, MT_BIND_TEXT(storing->name) RANK_COLUMNS(BOUND)));
    for (size_t i = 0; i < rank->share_count; i++)
        MT_TRY(MT_RUN_WITH(storing->add_share, 1, MT_BIND_TEXT(storing->name), MT_BIND_INTEGER(rank->run),
                           MT_BIND_INTEGER(rank->shares[i].key), MT_BIND_TEXT(rank->shares[i].name),
                           MT_BIND_INTEGER(rank->shares[i].bytes)));
    return MT_OK;
}

static mt_status forget(struct mt_database *database, const char *name)
{
    static const char *const sql[] = {"DELETE FROM share WHERE trace = ?1", "DELETE FROM rank WHERE trace = ?1",
                                      "DELETE FROM trace WHERE name = ?1"};
    mt_status status = MT_OK;
    for (int i = 0; i < 3; i++)
        MT_EACH_ROW (row, status, database, sql[i], MT_BIND_TEXT(name))
            ;
    return status;
}

/* Reads a trace anew. One that can't be read is stored with the reason, which may pass: it is read again each time. */
static mt_status read_trace(struct storing *storing, const char *folder, struct stamp stamp)
{
    struct mt_statement *add_trace;
    char *path = path_of(folder, storing->name);
    struct mt_text problem = {0};
    storing->goes_on = false;
    mt_status status = forget(storing->database, storing->name);
    if (status == MT_OK && visit_ranks(path, storing, store_rank) != MT_OK) {
        mt_text_add(&problem, "%s", mt_last_error());
        status = forget(storing->database, storing->name);
    }
    MT_THEN(status,
            mt_database_prepare_insert(storing->database, "trace", "name, bytes, changed_ns, problem", &add_trace));
    if (status == MT_OK) {
        const bool may_change = storing->goes_on || problem.length > 0;
        status = MT_RUN_WITH(add_trace, 1, MT_BIND_TEXT(storing->name), MT_BIND_INTEGER(stamp.bytes),
                             MT_BIND_INTEGER(may_change ? NEVER : stamp.changed_ns), MT_BIND_TEXT(problem.data));
        mt_statement_finalize(add_trace);
    }
    mt_text_release(&problem);
    free(path);
    return status;
}

/* Forgets the traces that are not among the names, which are ordered. */
static mt_status forget_others(struct mt_database *database, char *const *names, size_t count)
{
    char **gone = NULL;
    size_t gone_count = 0, place = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database, "SELECT name FROM trace WHERE ?1 ORDER BY name", MT_BIND_INTEGER(1)) {
        const char *name = mt_statement_text(row, 0);
        while (place < count && strcmp(names[place], name) < 0)
            place++;
        if (place == count || strcmp(names[place], name) != 0)
            *MT_HOST_ADD(gone, gone_count) = mt_host_strdup(name);
    }
    for (size_t i = 0; i < gone_count; i++) {
        MT_THEN(status, forget(database, gone[i]));
        free(gone[i]);
    }
    free(gone);
    return status;
}

static mt_status read_changed(struct storing *storing, const char *folder, char *const *names, size_t count)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        bool known;
        const struct stamp stamp = stamp_of(folder, names[i]);
        storing->name = names[i];
        status = is_known(storing->database, names[i], stamp, &known);
        if (status == MT_OK && !known)
            status = read_trace(storing, folder, stamp);
    }
    return status == MT_OK ? forget_others(storing->database, names, count) : status;
}

mt_status mt_rank_catalogue_update(struct mt_rank_catalogue *catalogue, const char *folder, char *const *names,
                                   size_t count)
{
    struct storing storing = {.database = catalogue->database};
    MT_TRY(mt_database_begin(catalogue->database));
    mt_status status = mt_database_prepare_insert(catalogue->database, "rank", RANK_COLUMN_NAMES, &storing.add_rank);
    MT_THEN(status, mt_database_prepare_insert(catalogue->database, "share", "trace, run, key, name, bytes",
                                               &storing.add_share));
    MT_THEN(status, read_changed(&storing, folder, names, count));
    mt_statement_finalize(storing.add_rank);
    mt_statement_finalize(storing.add_share);
    if (status == MT_OK)
        return mt_database_commit(catalogue->database);
    mt_database_rollback(catalogue->database);
    return status;
}

/* ---- load ---- */

static const char *keep(struct mt_ranks *ranks, const char *text)
{
    const mt_span_id id = mt_interner_span(ranks->texts, 0, text != NULL ? text : "", NULL);
    return mt_interner_find_span(ranks->texts, id)->name;
}

static const char *keep_path(struct mt_ranks *ranks, const char *folder, const char *name)
{
    char *path = path_of(folder, name);
    const char *kept = keep(ranks, path);
    free(path);
    return kept;
}

static struct mt_rank rank_of(struct mt_ranks *ranks, const char *folder, const struct mt_statement *row)
{
#define PLACE(column, type, member) PLACE_##column,
    enum { TRACE, RANK_COLUMNS(PLACE) };
#define READ_INTEGER(column) mt_statement_integer(row, PLACE_##column)
#define READ_TEXT(column) keep(ranks, mt_statement_text(row, PLACE_##column))
#define READ(column, type, member) .member = READ_##type(column),
    return (struct mt_rank){.file = keep_path(ranks, folder, mt_statement_text(row, TRACE)), RANK_COLUMNS(READ)};
}

/* True if counts of bytes are none: columns are signed. */
static bool is_negative(const struct mt_rank *rank)
{
    bool is_negative = (int64_t)rank->growth_bytes < 0;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        is_negative |= (int64_t)rank->peak_bytes[measure] < 0;
    return is_negative;
}

static mt_status fail_as_damaged(const struct mt_rank_catalogue *catalogue)
{
    return mt_fail(MT_BAD_TRACE, "%s is damaged", mt_database_path(catalogue->database));
}

/* Adds the shares to the ranks from `first` on, which are ordered as the shares are: by trace and run. */
static mt_status load_shares(struct mt_rank_catalogue *catalogue, struct mt_ranks *out, size_t first,
                             const char *folder)
{
    mt_status status = MT_OK;
    size_t place = first;
    MT_EACH_ROW (row, status, catalogue->database,
                 "SELECT trace, run, key, name, bytes FROM share WHERE ?1 ORDER BY trace, run, key, bytes DESC, name",
                 MT_BIND_INTEGER(1)) {
        const char *file = keep_path(out, folder, mt_statement_text(row, 0));
        const int64_t run = mt_statement_integer(row, 1), key = mt_statement_integer(row, 2);
        while (place < out->count && (out->items[place].file != file || out->items[place].run != run))
            place++;
        if (place == out->count || key < 0 || key >= MT_RANK_KEY_COUNT || mt_statement_integer(row, 4) < 0) {
            status = fail_as_damaged(catalogue);
            continue;
        }
        struct mt_rank *rank = &out->items[place];
        *MT_HOST_ADD(rank->shares, rank->share_count) = (struct mt_rank_share){
            (mt_rank_key)key, keep(out, mt_statement_text(row, 3)), (uint64_t)mt_statement_integer(row, 4)};
    }
    return status;
}

mt_status mt_rank_catalogue_load(struct mt_rank_catalogue *catalogue, const char *folder, struct mt_ranks *out)
{
    mt_status status = MT_OK;
    const size_t first = out->count;
    MT_EACH_ROW (row, status, catalogue->database,
                 "SELECT name, problem FROM trace WHERE ?1 AND problem IS NOT NULL ORDER BY name", MT_BIND_INTEGER(1))
        *MT_HOST_ADD(out->problems, out->problem_count) = (struct mt_rank_problem){
            keep_path(out, folder, mt_statement_text(row, 0)), keep(out, mt_statement_text(row, 1))};
    MT_EACH_ROW (row, status, catalogue->database,
                 "SELECT " RANK_COLUMN_NAMES " FROM rank WHERE ?1 ORDER BY trace, run", MT_BIND_INTEGER(1)) {
        *MT_HOST_ADD(out->items, out->count) = rank_of(out, folder, row);
        if (is_negative(&out->items[out->count - 1]))
            status = fail_as_damaged(catalogue);
    }
    return status == MT_OK ? load_shares(catalogue, out, first, folder) : status;
}
