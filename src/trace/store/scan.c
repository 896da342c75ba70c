#include "trace/store/scan.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "trace/store/batch_check.h"
#include "trace/store/event_rows.h"
#include "trace/store/summary.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The addresses of segments and the places of live blocks, and the position in the run. */
struct mt_scan {
    struct mt_database *database; /* of the current call */
    int64_t run;
    const struct mt_scan_visitor *visitor;
    struct mt_number_map segment_addresses; /* by birth number */
    struct mt_number_map live_segments;     /* by event id of the alloc */
    struct mt_number_map live_offsets;      /* the same */
    int64_t first_event;                    /* of the run */
    int64_t last_label, last_segment, last_event;
    struct mt_batch_check check;
};

static mt_status fail_on_text(const struct mt_scan *scan, const char *what, const char *text)
{
    return mt_fail(MT_BAD_TRACE, "%s is damaged: run %lld has the %s \"%s\"", mt_database_path(scan->database),
                   (long long)scan->run, what, text != NULL ? text : "");
}

static int find_phase(const char *name)
{
    for (int i = 0; i < MT_PHASE_COUNT; i++)
        if (name != NULL && strcmp(name, mt_phase_name((mt_phase)i)) == 0)
            return i;
    return -1;
}

/* Calls `row` for every row of the statement, whose parameters are the run and the last id that was read. Its first
 * column is the id, in ascending order. */
static mt_status each_row(struct mt_scan *scan, const char *sql, int64_t *last,
                          mt_status (*row)(struct mt_scan *, const struct mt_statement *))
{
    mt_status status = MT_OK;
    MT_EACH_ROW (found, status, scan->database, sql, MT_BIND_INTEGER(scan->run), MT_BIND_INTEGER(*last)) {
        *last = mt_statement_integer(found, 0);
        status = row(scan, found);
    }
    return status;
}

static mt_status read_label(struct mt_scan *scan, const struct mt_statement *row)
{
    int64_t number = mt_statement_integer(row, 0);
    const char *category = mt_statement_text(row, 1);
    const char *role_name = mt_statement_text(row, 4);
    mt_role role = MT_ROLE_OTHER;
    int phase = find_phase(mt_statement_text(row, 2));
    if (category == NULL || category[0] == '\0')
        return fail_on_text(scan, "category", category);
    if (phase < 0)
        return fail_on_text(scan, "phase", mt_statement_text(row, 2));
    if (number <= 0 || number >= 1 << MT_LABEL_NUMBER_BITS)
        return fail_on_text(scan, "label", mt_statement_text(row, 0));
    assert(phase < MT_PHASE_COUNT);
    if (role_name == NULL || !mt_role_find(role_name, &role))
        role = MT_ROLE_OTHER;
    scan->visitor->label(scan->visitor->context, (uint32_t)number, category, role, (mt_phase)phase,
                         (mt_span_id)mt_statement_integer(row, 3));
    return MT_OK;
}

static mt_status read_segment(struct mt_scan *scan, const struct mt_statement *row)
{
    mt_number_map_put(&scan->segment_addresses, (uint64_t)mt_statement_integer(row, 0),
                      (uint64_t)mt_statement_integer(row, 1));
    return MT_OK;
}

/* Sets the address of a segment that is mapped or unmapped; 0 if it is not known. */
static void find_address(const struct mt_scan *scan, struct mt_event *event)
{
    uint64_t address = 0;
    mt_number_map_get(&scan->segment_addresses, event->segment, &address);
    event->segment_address = address;
}

/* Stores the place of an alloc for its free and relabels, which do not contain it. Events without an alloc get a place
 * that no block has. */
static void find_place(struct mt_scan *scan, int64_t id, int64_t allocation, struct mt_event *event)
{
    uint64_t segment = UINT32_MAX, offset = UINT64_MAX;
    if (event->kind == MT_EVENT_ALLOC) {
        mt_number_map_put(&scan->live_segments, (uint64_t)id, event->segment);
        mt_number_map_put(&scan->live_offsets, (uint64_t)id, event->offset);
        return;
    }
    mt_number_map_get(&scan->live_segments, (uint64_t)allocation, &segment);
    mt_number_map_get(&scan->live_offsets, (uint64_t)allocation, &offset);
    if (event->kind == MT_EVENT_FREE) {
        mt_number_map_take(&scan->live_segments, (uint64_t)allocation, &segment);
        mt_number_map_take(&scan->live_offsets, (uint64_t)allocation, &offset);
    }
    event->segment = (uint32_t)segment;
    event->offset = offset;
}

static mt_status read_event(void *context, int64_t id, const struct mt_event_row_in *row)
{
    struct mt_scan *scan = context;
    struct mt_event event;
    int64_t allocation;
    scan->last_event = id;
    MT_TRY(mt_batch_check_add(&scan->check, id, row));
    if (!mt_event_row_get(row, &event, &allocation))
        return mt_fail(MT_BAD_TRACE, "%s is damaged: event %lld has a number that no event has",
                       mt_database_path(scan->database), (long long)id);
    event.sequence = (uint64_t)id - (uint64_t)scan->first_event;
    if (event.kind == MT_EVENT_SEGMENT_MAP || event.kind == MT_EVENT_SEGMENT_UNMAP)
        find_address(scan, &event);
    if (event.kind == MT_EVENT_ALLOC || event.kind == MT_EVENT_FREE || event.kind == MT_EVENT_RELABEL)
        find_place(scan, id, allocation, &event);
    scan->visitor->event(scan->visitor->context, &event);
    return MT_OK;
}

static mt_status read_events(struct mt_scan *scan)
{
    const struct mt_event_row_visitor visitor = {.context = scan, .row = read_event};
    struct mt_event_range range = {.after = scan->last_event};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, scan->database, "SELECT first_event, event_count FROM run WHERE id = ?1",
                 MT_BIND_INTEGER(scan->run)) {
        range.first = scan->first_event = mt_statement_integer(row, 0);
        range.count = mt_statement_integer(row, 1);
    }
    MT_THEN(status, mt_batch_check_begin(&scan->check, scan->database, scan->run, scan->last_event));
    MT_THEN(status, mt_event_rows_each(scan->database, range, &visitor));
    mt_batch_check_end(&scan->check);
    return status == MT_OK ? mt_batch_check_complete(&scan->check) : status;
}

struct mt_scan *mt_scan_create(int64_t run, const struct mt_scan_visitor *visitor)
{
    struct mt_scan *scan = mt_host_alloc(sizeof *scan);
    *scan = (struct mt_scan){
        .run = run, .visitor = visitor, .last_label = INT64_MIN, .last_segment = INT64_MIN, .last_event = INT64_MIN};
    mt_number_map_create(&scan->segment_addresses);
    mt_number_map_create(&scan->live_segments);
    mt_number_map_create(&scan->live_offsets);
    return scan;
}

void mt_scan_destroy(struct mt_scan *scan)
{
    if (scan == NULL)
        return;
    mt_number_map_release(&scan->segment_addresses);
    mt_number_map_release(&scan->live_segments);
    mt_number_map_release(&scan->live_offsets);
    free(scan);
}

mt_status mt_scan_more(struct mt_scan *scan, struct mt_database *database)
{
    scan->database = database;
    MT_TRY(each_row(scan, "SELECT id, category, phase, span, role FROM label WHERE run = ? AND id > ? ORDER BY id",
                    &scan->last_label, read_label));
    MT_TRY(each_row(scan, "SELECT id, address FROM segment WHERE run = ? AND id > ? ORDER BY id", &scan->last_segment,
                    read_segment));
    return read_events(scan);
}

mt_status mt_scan_run(struct mt_database *database, int64_t run, const struct mt_scan_visitor *visitor)
{
    struct mt_scan *scan = mt_scan_create(run, visitor);
    mt_status status = mt_scan_more(scan, database);
    mt_scan_destroy(scan);
    return status;
}

static void add_label(void *context, uint32_t number, const char *category, mt_role role, mt_phase phase,
                      mt_span_id span)
{
    (void)span;
    mt_summary_add_label(context, number, category, role, phase);
}

static void add_event(void *context, const struct mt_event *event)
{
    mt_summary_add(context, event);
}

mt_status mt_scan_summary(struct mt_database *database, int64_t run, struct mt_summary *summary)
{
    const struct mt_scan_visitor visitor = {.context = summary, .label = add_label, .event = add_event};
    return mt_scan_run(database, run, &visitor);
}
