#include "page/page_load.h"

#include "page/page_knots.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- names ---- */

void mt_page_names_create(struct mt_page_names *names)
{
    *names = (struct mt_page_names){.texts = mt_name_set_create(), .categories = mt_name_set_create()};
    for (int i = 0; i < MT_CATEGORY_COUNT; i++)
        names->category_count = mt_name_set_number(names->categories, mt_category_name((mt_category)i), NULL);
}

void mt_page_names_release(struct mt_page_names *names)
{
    mt_name_set_destroy(names->texts);
    mt_name_set_destroy(names->categories);
}

uint32_t mt_page_text_number(struct mt_page_names *names, const char *text)
{
    if (text[0] == '\0')
        return 0;
    uint32_t number = mt_name_set_number(names->texts, text, NULL);
    assert(number >= 1 && number <= names->text_count + 1);
    names->text_count = number > names->text_count ? number : names->text_count;
    return number;
}

static uint32_t category_position(struct mt_page_names *names, const char *category)
{
    uint32_t number = mt_name_set_number(names->categories, category, NULL);
    assert(number >= 1 && number <= names->category_count + 1);
    names->category_count = number > names->category_count ? number : names->category_count;
    return number - 1;
}

static void add_label(const struct mt_label_row *row, struct mt_page_names *names, struct mt_page_table *labels)
{
    const uint64_t values[] = {category_position(names, row->category),
                               mt_page_text_number(names, row->role),
                               mt_page_text_number(names, row->op),
                               mt_page_text_number(names, row->phase),
                               mt_page_text_number(names, row->dtype),
                               mt_page_text_number(names, row->shape),
                               mt_page_text_number(names, row->span),
                               mt_page_text_number(names, row->place),
                               (uint64_t)(row->layer + 1)};
    mt_page_table_add(labels, values);
}

/* Number 0 is no label, and all zeros. */
static mt_status load_labels(struct mt_trace *trace, struct mt_page_names *names, struct mt_page_run *page)
{
    struct mt_label_row *rows = NULL;
    size_t count = 0;
    struct mt_page_table *labels = &page->tables[MT_PAGE_LABELS];
    MT_TRY(mt_trace_labels(trace, page->run, &rows, &count));
    mt_page_table_fill(labels, count > 0 ? 1 : 0);
    for (size_t i = 1; i < count; i++)
        add_label(&rows[i], names, labels);
    free(rows);
    if (names->category_count > MT_PAGE_MOST_CATEGORIES)
        return mt_fail(MT_BAD_TRACE, "no page can show this run: its labels name %" PRIu32 " categories, more than %d",
                       names->category_count, MT_PAGE_MOST_CATEGORIES);
    return MT_OK;
}

/* ---- call stacks ---- */

static mt_status load_stacks(struct mt_trace *trace, struct mt_page_names *names, struct mt_page_run *page,
                             size_t *out_count)
{
    struct mt_stack_row *rows = NULL;
    MT_TRY(mt_trace_stacks(trace, page->run, &rows, out_count));
    for (size_t i = 0; i < *out_count; i++) {
        const uint64_t values[] = {rows[i].parent, mt_page_text_number(names, rows[i].function),
                                   mt_page_text_number(names, rows[i].file), rows[i].line};
        mt_page_table_add(&page->tables[MT_PAGE_STACKS], values);
    }
    free(rows);
    if (*out_count <= 1)
        mt_page_run_leave_out(page, MT_PAGE_STACKS);
    return MT_OK;
}

/* ---- segments ---- */

static void add_segment(struct mt_page_run *page, const struct mt_segment_row *row)
{
    const uint64_t values[] = {row->address, row->bytes, row->stream, mt_page_position(page, row->mapped_event),
                               mt_page_life(row->mapped_event, row->unmapped_event)};
    mt_page_table_add(&page->tables[MT_PAGE_SEGMENTS], values);
}

static void add_part(struct mt_page_run *page, const struct mt_part_row *row)
{
    const uint64_t values[] = {row->segment, row->offset, row->bytes, mt_page_position(page, row->mapped_event),
                               mt_page_life(row->mapped_event, row->unmapped_event)};
    mt_page_table_add(&page->tables[MT_PAGE_PARTS], values);
}

/* The segments of a run and their parts. */
struct memory {
    struct mt_segment_row *segments;
    struct mt_part_row *parts;
    size_t segment_count, part_count;
};

/* True if every segment had all of its memory from its first event to its last. Then the table of parts is left out. */
static bool segments_are_whole(const struct memory *memory)
{
    if (memory->part_count != memory->segment_count)
        return false;
    for (size_t i = 0; i < memory->part_count; i++) {
        const struct mt_segment_row *segment = &memory->segments[i];
        const struct mt_part_row *part = &memory->parts[i];
        if (part->segment != i || part->offset != 0 || part->bytes != segment->bytes ||
            part->mapped_event != segment->mapped_event || part->unmapped_event != segment->unmapped_event)
            return false;
    }
    return true;
}

static void add_memory(struct mt_page_run *page, const struct memory *memory)
{
    for (size_t i = 0; i < memory->segment_count; i++)
        add_segment(page, &memory->segments[i]);
    for (size_t i = 0; i < memory->part_count; i++)
        add_part(page, &memory->parts[i]);
    if (segments_are_whole(memory))
        mt_page_run_leave_out(page, MT_PAGE_PARTS);
}

static mt_status load_segments(struct mt_trace *trace, struct mt_page_run *page)
{
    struct memory memory = {.segments = NULL};
    mt_status status = mt_trace_segments(trace, page->run, &memory.segments, &memory.segment_count);
    MT_THEN(status, mt_trace_parts(trace, page->run, &memory.parts, &memory.part_count));
    if (status == MT_OK)
        add_memory(page, &memory);
    free(memory.segments);
    free(memory.parts);
    return status;
}

/* ---- times ---- */

static void add_knots(struct mt_page_run *page)
{
    size_t count;
    struct mt_page_knot *knots = mt_page_knots_find(&page->tables[MT_PAGE_EVENTS].values[MT_PAGE_EVENT_TIME], &count);
    for (size_t i = 0; i < count; i++)
        mt_page_table_add(&page->tables[MT_PAGE_KNOTS], (const uint64_t[]){knots[i].event, knots[i].time});
    free(knots);
}

/* Divides the values of a column. */
static void divide(struct mt_page_table *table, size_t column, uint64_t divisor)
{
    struct mt_packed_list *values = &table->values[column], divided = {.count = 0};
    for (size_t i = 0; i < values->count; i++)
        mt_packed_list_add(&divided, mt_packed_list_get(values, i) / divisor);
    mt_packed_list_release(values);
    *values = divided;
}

/* Chooses the unit of times: 1 ns, unless the last time would not fit. That is so after three days. */
static void choose_time_unit(struct mt_page_run *page)
{
    struct mt_page_table *events = &page->tables[MT_PAGE_EVENTS];
    size_t count = events->row_count;
    page->time_unit_ns = 1;
    if (count == 0 || mt_page_table_value(events, MT_PAGE_EVENT_TIME, count - 1) >> 8 * MT_PAGE_MOST_WIDTH == 0)
        return;
    page->time_unit_ns = 1000;
    divide(events, MT_PAGE_EVENT_TIME, page->time_unit_ns);
    divide(&page->tables[MT_PAGE_KNOTS], MT_PAGE_KNOT_TIME, page->time_unit_ns);
    divide(&page->tables[MT_PAGE_KERNELS], MT_PAGE_KERNEL_START, page->time_unit_ns);
    divide(&page->tables[MT_PAGE_KERNELS], MT_PAGE_KERNEL_DURATION, page->time_unit_ns);
}

static void leave_out_if_empty(struct mt_page_run *page, enum mt_page_table_id id)
{
    if (page->tables[id].row_count == 0)
        mt_page_run_leave_out(page, id);
}

/* ---- a run ---- */

/* Reads what the thread of mt_page_reading does not. */
static mt_status load_rest(struct mt_trace *trace, struct mt_page_names *names, struct mt_page_run *page)
{
    size_t stack_count;
    MT_TRY(load_labels(trace, names, page));
    MT_TRY(load_stacks(trace, names, page, &stack_count));
    MT_TRY(load_segments(trace, page));
    return mt_page_blocks_load(trace, stack_count, page);
}

static mt_status load_tables(struct mt_trace *trace, const char *path, struct mt_page_names *names,
                             struct mt_page_run *page)
{
    struct mt_page_reading *reading = mt_page_reading_begin(path, page);
    mt_status status = load_rest(trace, names, page);
    if (status == MT_OK)
        return mt_page_reading_end(reading, trace, names);
    mt_page_reading_abandon(reading);
    return status;
}

mt_status mt_page_run_load(struct mt_trace *trace, const char *path, const struct mt_run *run,
                           struct mt_page_names *names, struct mt_page_run *out)
{
    out->run = run;
    mt_page_run_declare(out);
    MT_TRY(load_tables(trace, path, names, out));
    assert(out->tables[MT_PAGE_EVENTS].row_count == (size_t)run->event_count);
    add_knots(out);
    choose_time_unit(out);
    leave_out_if_empty(out, MT_PAGE_KERNELS);
    leave_out_if_empty(out, MT_PAGE_PROGRAM_PHASES);
    return MT_OK;
}

mt_status mt_page_run_measure(struct mt_page_run *page, enum mt_page_table_id from, enum mt_page_table_id to,
                              size_t *next_chunk)
{
    assert(from <= to && to <= MT_PAGE_TABLE_COUNT);
    for (int i = (int)from; i < (int)to; i++)
        if (page->tables[i].name != NULL)
            MT_TRY(mt_page_table_measure(&page->tables[i], next_chunk));
    return MT_OK;
}

void mt_page_run_release(struct mt_page_run *page)
{
    for (int i = 0; i < MT_PAGE_TABLE_COUNT; i++)
        mt_page_table_clear(&page->tables[i]);
}
