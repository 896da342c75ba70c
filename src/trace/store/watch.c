#include "trace/store/watch.h"

#include "base/memory.h"
#include "trace/store/database.h"
#include "trace/store/ring.h"
#include "trace/store/scan.h"
#include "trace/store/summary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Invariant: without a run there is no summary and no scan. */
struct mt_watch {
    char *path;
    int64_t after;
    struct mt_watched watched; /* run 0: none yet */
    struct mt_summary *summary;
    struct mt_scan *scan;
    struct mt_scan_visitor visitor;
    uint64_t scope_peak[MT_MEASURE_COUNT]; /* since the last step began */
    char *name, *device;
    struct mt_watched_part categories[MT_MOST_CATEGORIES], roles[MT_ROLE_COUNT], outside[MT_OUTSIDE_KIND_COUNT];
};

struct mt_watch *mt_watch_create(const char *path, int64_t after)
{
    struct mt_watch *watch = mt_host_alloc(sizeof *watch);
    *watch = (struct mt_watch){.path = mt_host_strdup(path), .after = after};
    return watch;
}

/* Forgets the watched run. */
static void release_run(struct mt_watch *watch)
{
    mt_summary_destroy(watch->summary);
    mt_scan_destroy(watch->scan);
    free(watch->name);
    free(watch->device);
    *watch = (struct mt_watch){.path = watch->path, .after = watch->after};
}

void mt_watch_destroy(struct mt_watch *watch)
{
    if (watch == NULL)
        return;
    release_run(watch);
    free(watch->path);
    free(watch);
}

int64_t mt_watch_newest_run(const char *path)
{
    struct mt_database *database = NULL;
    int64_t newest = 0;
    if (access(path, R_OK) != 0 || mt_database_open_reading(path, &database) != MT_OK)
        return 0;
    if (mt_database_integer(database, "SELECT max(id) FROM run", &newest) != MT_OK)
        newest = 0;
    mt_database_close(database);
    return newest;
}

/* ---- events ---- */

static void see_label(void *context, uint32_t number, const char *category, mt_role role, mt_phase phase,
                      mt_span_id span)
{
    struct mt_watch *watch = context;
    (void)span;
    mt_summary_add_label(watch->summary, number, category, role, phase);
}

static void raise_to(uint64_t *peak, const uint64_t *now)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        if (now[i] > peak[i])
            peak[i] = now[i];
}

static void count(struct mt_watched *watched, const struct mt_event *event)
{
    watched->events++;
    watched->time_ns = event->time_ns;
    watched->allocations += event->kind == MT_EVENT_ALLOC;
    watched->frees += event->kind == MT_EVENT_FREE;
    watched->refusals += event->kind == MT_EVENT_OOM;
}

static void see_event(void *context, const struct mt_event *event)
{
    struct mt_watch *watch = context;
    struct mt_watched *watched = &watch->watched;
    mt_summary_add(watch->summary, event);
    const uint64_t *now = mt_summary_now(watch->summary);
    count(watched, event);
    if (event->kind == MT_EVENT_STEP_BEGIN)
        memcpy(watch->scope_peak, now, sizeof watch->scope_peak);
    raise_to(watched->peak, now);
    raise_to(watched->recent_peak, now);
    raise_to(watch->scope_peak, now);
    if (event->kind != MT_EVENT_STEP_END)
        return;
    watched->steps++;
    watched->last_step = (int64_t)event->value;
    memcpy(watched->step_peak, watch->scope_peak, sizeof watched->step_peak);
}

/* ---- a look ---- */

static char *copy_text(const struct mt_statement *row, int column)
{
    const char *text = mt_statement_text(row, column);
    return text != NULL ? mt_host_strdup(text) : NULL;
}

/* Begins to watch the row's run. */
static void begin_run(struct mt_watch *watch, const struct mt_statement *row)
{
    release_run(watch);
    watch->name = copy_text(row, 1);
    watch->device = copy_text(row, 2);
    watch->watched = (struct mt_watched){.run = mt_statement_integer(row, 0),
                                         .name = watch->name,
                                         .device = watch->device != NULL ? watch->device : "",
                                         .rank = mt_statement_integer(row, 4),
                                         .capacity_bytes = (uint64_t)mt_statement_integer(row, 5),
                                         .last_step = -1};
    watch->summary = mt_summary_create(mt_statement_integer(row, 6));
    watch->visitor = (struct mt_scan_visitor){.context = watch, .label = see_label, .event = see_event};
    watch->scan = mt_scan_create(watch->watched.run, &watch->visitor);
}

/* Finds the newest run, and whether it is running. */
static mt_status find_run(struct mt_watch *watch, struct mt_database *database)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database,
                 "SELECT id, name, device, state, coalesce(rank, -1), capacity_bytes, first_event FROM run"
                 " WHERE id > ? ORDER BY id DESC LIMIT 1",
                 MT_BIND_INTEGER(watch->after)) {
        const char *state = mt_statement_text(row, 3);
        if (mt_statement_integer(row, 0) != watch->watched.run)
            begin_run(watch, row);
        watch->watched.is_running = state != NULL && strcmp(state, mt_run_state_name(MT_RUN_RUNNING)) == 0;
    }
    return status;
}

static void add_part(struct mt_watched_part *parts, size_t *count, const char *name, uint64_t bytes)
{
    if (bytes > 0)
        parts[(*count)++] = (struct mt_watched_part){name, bytes};
}

static void list_parts(struct mt_watch *watch)
{
    struct mt_watched *watched = &watch->watched;
    watched->categories = watch->categories;
    watched->roles = watch->roles;
    watched->category_count = watched->role_count = 0;
    for (uint32_t i = 0; i < MT_MOST_CATEGORIES; i++)
        add_part(watch->categories, &watched->category_count, mt_summary_category(watch->summary, i),
                 mt_summary_category_bytes(watch->summary, i));
    for (int i = 0; i < MT_ROLE_COUNT; i++)
        add_part(watch->roles, &watched->role_count, mt_role_name((mt_role)i),
                 mt_summary_role_bytes(watch->summary, (mt_role)i));
}

/* Adds up the bytes of the holders of each kind. */
static mt_status read_outside(struct mt_watch *watch, struct mt_database *database)
{
    struct mt_watched *watched = &watch->watched;
    uint64_t bytes[MT_OUTSIDE_KIND_COUNT] = {0};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database, "SELECT kind, bytes, max(event) FROM outside WHERE run = ? GROUP BY kind, name",
                 MT_BIND_INTEGER(watched->run)) {
        const char *kind = mt_statement_text(row, 0);
        for (int i = 0; i < MT_OUTSIDE_KIND_COUNT; i++)
            if (kind != NULL && strcmp(kind, mt_outside_kind_name((mt_outside_kind)i)) == 0)
                bytes[i] += (uint64_t)mt_statement_integer(row, 1);
    }
    watched->outside = watch->outside;
    watched->outside_count = 0;
    for (int i = 0; i < MT_OUTSIDE_KIND_COUNT; i++)
        add_part(watch->outside, &watched->outside_count, mt_outside_kind_name((mt_outside_kind)i), bytes[i]);
    return status;
}

static mt_status read_run(struct mt_watch *watch, struct mt_database *database)
{
    MT_TRY(find_run(watch, database));
    if (watch->watched.run == 0)
        return MT_OK;
    MT_TRY(mt_scan_more(watch->scan, database));
    mt_summary_forget_progress(watch->summary);
    memcpy(watch->watched.now, mt_summary_now(watch->summary), sizeof watch->watched.now);
    list_parts(watch);
    return read_outside(watch, database);
}

/* True if a process is writing the trace. The state of a run whose process was killed stays "running". */
static bool is_written(const char *path)
{
    struct mt_ring *ring = NULL;
    mt_ring_outcome outcome = MT_RING_ABSENT;
    int64_t pid;
    if (mt_ring_open(path, MT_RING_INSPECT, &outcome, &pid, &ring) != MT_OK)
        return false;
    mt_ring_release(ring);
    return outcome == MT_RING_BUSY;
}

/* Reads one state of the trace. */
static mt_status read_trace(struct mt_watch *watch, struct mt_database *database)
{
    MT_TRY(mt_database_begin_reading(database));
    mt_status status = read_run(watch, database);
    mt_database_end_reading(database);
    return status;
}

/* Opens the trace; *out is NULL if it does not exist yet, or is being created. */
static mt_status open_trace(const struct mt_watch *watch, struct mt_database **out)
{
    struct stat file;
    *out = NULL;
    if (stat(watch->path, &file) != 0 || file.st_size == 0)
        return MT_OK;
    mt_status status = mt_database_open_reading(watch->path, out);
    return status != MT_OK && watch->watched.run == 0 && is_written(watch->path) ? MT_OK : status;
}

mt_status mt_watch_look(struct mt_watch *watch, const struct mt_watched **out)
{
    struct mt_database *database;
    *out = NULL;
    MT_TRY(open_trace(watch, &database));
    if (database == NULL)
        return MT_OK;
    mt_status status = read_trace(watch, database);
    mt_database_close(database);
    watch->watched.is_running = watch->watched.is_running && is_written(watch->path);
    if (status == MT_OK && watch->watched.run != 0)
        *out = &watch->watched;
    return status;
}

void mt_watch_begin_recent(struct mt_watch *watch)
{
    memcpy(watch->watched.recent_peak, watch->watched.now, sizeof watch->watched.recent_peak);
}
