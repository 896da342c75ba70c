/* Times, marks, kernels and program phases, read beside the blocks.
 *
 * The thread has a numbering of texts of its own, in order of first use; the page's numbers replace it in the end. */
#include "base/memory.h"
#include "page/page_load.h"
#include "trace/query/holders.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Below this number of events, opening the trace a second time takes longer than reading them. */
enum { WORTH_A_THREAD = 1 << 16 };

/* The tables that a reading fills. */
static const enum mt_page_table_id filled[] = {MT_PAGE_EVENTS, MT_PAGE_MARKS, MT_PAGE_KERNELS, MT_PAGE_PROGRAM_PHASES};

/* Invariant: the texts of marks, kernels and phases are numbers of `texts`, which has text_count. */
struct mt_page_reading {
    pthread_t thread;
    bool has_thread;
    const char *path;
    struct mt_page_run *page;
    struct mt_page_names texts;
    uint64_t time; /* of the last event */
    mt_status status;
};

/* ---- rows ---- */

/* Adds a time, which never falls. It may by a little where the clock of a card was read on two sides. */
static void add_time(void *context, uint64_t time_ns)
{
    struct mt_page_reading *reading = context;
    reading->time = time_ns > reading->time ? time_ns : reading->time;
    mt_page_table_add(&reading->page->tables[MT_PAGE_EVENTS], &reading->time);
}

/* A refused request may have any size. Sizes above this one, which no device has, are shown as this one. */
#define MOST_MARK_VALUE ((UINT64_C(1) << 8 * MT_PAGE_MOST_WIDTH) - 1)

/* Returns the kind of a mark, as the page numbers kinds. */
static uint64_t kind_of(const struct mt_mark_row *mark)
{
    static const unsigned char number[MT_EVENT_KIND_COUNT] = {
        [MT_EVENT_STEP_BEGIN] = 0, [MT_EVENT_STEP_END] = 1, [MT_EVENT_PHASE] = 2,
        [MT_EVENT_SPAN_BEGIN] = 3, [MT_EVENT_SPAN_END] = 4, [MT_EVENT_OOM] = 5};
    assert(number[mark->kind] > 0 || mark->kind == MT_EVENT_STEP_BEGIN);
    return number[mark->kind];
}

static void add_mark(void *context, const struct mt_mark_row *mark)
{
    struct mt_page_reading *reading = context;
    const uint64_t row[] = {mt_page_position(reading->page, mark->event), kind_of(mark),
                            mark->value < MOST_MARK_VALUE ? mark->value : MOST_MARK_VALUE,
                            mt_page_text_number(&reading->texts, mark->span), mark->label};
    mt_page_table_add(&reading->page->tables[MT_PAGE_MARKS], row);
}

static mt_status add_kernel(void *context, const struct mt_launch_row *launch)
{
    struct mt_page_reading *reading = context;
    const uint64_t row[] = {launch->start_ns, launch->duration_ns, mt_page_text_number(&reading->texts, launch->name),
                            launch->label, launch->stream};
    mt_page_table_add(&reading->page->tables[MT_PAGE_KERNELS], row);
    return MT_OK;
}

static mt_status read_phases(struct mt_trace *trace, struct mt_page_reading *reading)
{
    struct mt_phase_entry_row *entries = NULL;
    size_t count = 0;
    mt_status status = mt_trace_phase_entries(trace, reading->page->run, &entries, &count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t row[] = {mt_page_position(reading->page, entries[i].event),
                                mt_page_text_number(&reading->texts, entries[i].name)};
        mt_page_table_add(&reading->page->tables[MT_PAGE_PROGRAM_PHASES], row);
    }
    free(entries);
    return status;
}

static mt_status read_rows(struct mt_trace *trace, struct mt_page_reading *reading)
{
    const struct mt_moment_visitor visitor = {.context = reading, .time = add_time, .mark = add_mark};
    mt_page_names_create(&reading->texts);
    MT_TRY(mt_trace_moments_visit(trace, reading->page->run, &visitor));
    MT_TRY(mt_trace_launches_visit(trace, reading->page->run, add_kernel, reading));
    return read_phases(trace, reading);
}

static void clear(struct mt_page_reading *reading)
{
    for (size_t i = 0; i < sizeof filled / sizeof filled[0]; i++)
        mt_page_table_clear(&reading->page->tables[filled[i]]);
    mt_page_names_release(&reading->texts);
    reading->texts = (struct mt_page_names){.texts = NULL};
    reading->time = 0;
}

/* ---- the thread ---- */

/* True if the trace has this run with all its events. Another file may have taken the name since it was opened. */
static bool has_run(const struct mt_trace *trace, const struct mt_run *run)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    for (size_t i = 0; i < count; i++)
        if (runs[i].id == run->id)
            return runs[i].first_event == run->first_event && runs[i].event_count >= run->event_count &&
                   strcmp(runs[i].started_at, run->started_at) == 0;
    return false;
}

static void *read_beside(void *context)
{
    struct mt_page_reading *reading = context;
    struct mt_trace *trace = NULL;
    reading->status = mt_trace_open(reading->path, &trace);
    if (reading->status == MT_OK && !has_run(trace, reading->page->run))
        reading->status = MT_BAD_TRACE;
    if (reading->status == MT_OK)
        reading->status = read_rows(trace, reading);
    mt_trace_close(trace);
    return NULL;
}

struct mt_page_reading *mt_page_reading_begin(const char *path, struct mt_page_run *page)
{
    struct mt_page_reading *reading = mt_host_alloc(sizeof *reading);
    *reading = (struct mt_page_reading){.path = path, .page = page};
    reading->has_thread =
        page->run->event_count >= WORTH_A_THREAD && pthread_create(&reading->thread, NULL, read_beside, reading) == 0;
    return reading;
}

/* Waits for the thread. True if it has read all rows. */
static bool wait_for(const struct mt_page_reading *reading)
{
    return reading->has_thread && pthread_join(reading->thread, NULL) == 0 && reading->status == MT_OK;
}

static void drop(struct mt_page_reading *reading)
{
    mt_page_names_release(&reading->texts);
    free(reading);
}

/* ---- the end ---- */

/* Replaces each number of a column by that at its place in `numbers`. */
static void renumber(struct mt_page_run *page, enum mt_page_table_id id, size_t column, const uint32_t *numbers)
{
    struct mt_packed_list *values = &page->tables[id].values[column], renumbered = {.count = 0};
    for (size_t i = 0; i < values->count; i++)
        mt_packed_list_add(&renumbered, numbers[mt_packed_list_get(values, i)]);
    mt_packed_list_release(values);
    *values = renumbered;
}

/* Replaces the numbers of texts by those in `names`. */
static void renumber_texts(struct mt_page_reading *reading, struct mt_page_names *names)
{
    const struct mt_page_names *texts = &reading->texts;
    uint32_t *numbers = mt_host_alloc((texts->text_count + 1) * sizeof *numbers);
    for (uint32_t i = 1; i <= texts->text_count; i++)
        numbers[i] = mt_page_text_number(names, mt_name_set_name(texts->texts, i));
    renumber(reading->page, MT_PAGE_MARKS, MT_PAGE_MARK_SPAN, numbers);
    renumber(reading->page, MT_PAGE_KERNELS, MT_PAGE_KERNEL_NAME, numbers);
    renumber(reading->page, MT_PAGE_PROGRAM_PHASES, MT_PAGE_PHASE_NAME, numbers);
    free(numbers);
}

mt_status mt_page_reading_end(struct mt_page_reading *reading, struct mt_trace *trace, struct mt_page_names *names)
{
    mt_status status = MT_OK;
    if (!wait_for(reading)) {
        clear(reading);
        status = read_rows(trace, reading);
    }
    if (status == MT_OK)
        renumber_texts(reading, names);
    drop(reading);
    return status;
}

void mt_page_reading_abandon(struct mt_page_reading *reading)
{
    wait_for(reading);
    drop(reading);
}
