#include "page/page_run.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

static uint32_t text_number(struct mt_page_names *names, const char *text)
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

/* Number 0 is no label, and stays all zeros. */
static void number_labels(const struct mt_label_row *rows, struct mt_page_names *names, struct mt_page_run *page)
{
    page->labels = mt_host_alloc(page->label_count * sizeof *page->labels + 1);
    for (size_t i = 1; i < page->label_count; i++)
        page->labels[i] = (struct mt_page_label){.category = category_position(names, rows[i].category),
                                                 .role = text_number(names, rows[i].role),
                                                 .op = text_number(names, rows[i].op),
                                                 .phase = text_number(names, rows[i].phase),
                                                 .dtype = text_number(names, rows[i].dtype),
                                                 .shape = text_number(names, rows[i].shape),
                                                 .span = text_number(names, rows[i].span),
                                                 .place = text_number(names, rows[i].place),
                                                 .layer = (uint32_t)(rows[i].layer + 1)};
}

static mt_status load_labels(struct mt_trace *trace, struct mt_page_names *names, struct mt_page_run *page)
{
    struct mt_label_row *rows = NULL;
    mt_status status = mt_trace_labels(trace, page->run, &rows, &page->label_count);
    if (status == MT_OK)
        number_labels(rows, names, page);
    free(rows);
    if (status == MT_OK && names->category_count > MT_PAGE_MOST_CATEGORIES)
        return mt_fail(MT_BAD_TRACE, "no page can show this run: its labels name %" PRIu32 " categories, more than %d",
                       names->category_count, MT_PAGE_MOST_CATEGORIES);
    return status;
}

/* ---- blocks ---- */

static uint32_t add_size(struct mt_page_run *page, const struct mt_block_row *block, uint32_t same_request)
{
    if ((page->size_count & (page->size_count - 1)) == 0) /* full at each power of two */
        page->sizes = mt_host_resize(page->sizes, page->size_count * 2 + 1, sizeof *page->sizes);
    page->sizes[page->size_count++] = (struct mt_page_size){
        .requested_bytes = block->requested_bytes, .block_bytes = block->block_bytes, .same_request = same_request};
    return (uint32_t)page->size_count;
}

/* Returns the number + 1 of the block's pair. `first` is that of the last pair with the same request; 0: none. */
static uint32_t find_size(struct mt_page_run *page, const struct mt_block_row *block, uint32_t first)
{
    for (uint32_t number = first; number != 0; number = page->sizes[number - 1].same_request)
        if (page->sizes[number - 1].block_bytes == block->block_bytes)
            return number;
    return add_size(page, block, first);
}

static void number_sizes(struct mt_page_run *page)
{
    struct mt_number_map by_request;
    mt_number_map_create(&by_request);
    page->size_of_block = mt_host_alloc(page->block_count * sizeof *page->size_of_block + 1);
    for (size_t i = 0; i < page->block_count; i++) {
        const struct mt_block_row *block = &page->blocks[i];
        uint64_t first = 0;
        size_t before = page->size_count;
        mt_number_map_get(&by_request, block->requested_bytes, &first);
        uint32_t number = find_size(page, block, (uint32_t)first);
        if (page->size_count > before)
            mt_number_map_put(&by_request, block->requested_bytes, number);
        assert(number >= 1 && page->sizes[number - 1].requested_bytes == block->requested_bytes);
        page->size_of_block[i] = number - 1;
    }
    mt_number_map_release(&by_request);
}

static int compare_allocs(const void *left, const void *right)
{
    const struct mt_block_row *a = left, *b = right;
    return MT_COMPARE(a->alloc_event, b->alloc_event);
}

/* Sets the uses of rows by label from those of whole blocks: the first row of a block has them if they lie in it. */
static void divide_uses(struct mt_page_run *page, const struct mt_block_row *whole, const struct mt_use_row *uses,
                        size_t count)
{
    for (size_t i = 0; i < page->block_count; i++) {
        const struct mt_block_row *row = &page->blocks[i], *block;
        block = bsearch(row, whole, count, sizeof *whole, compare_allocs);
        const struct mt_use_row *use = block != NULL ? &uses[block - whole] : NULL;
        if (use != NULL && (row->free_event == 0 || use->last < row->free_event))
            page->uses[i] = *use;
    }
}

/* Reads the blocks, where one whose label changes is a row for each of them, and their uses. */
static mt_status load_rows_by_label(struct mt_trace *trace, struct mt_page_run *page)
{
    struct mt_block_row *whole = NULL;
    size_t count = 0;
    int64_t first = page->run->first_event, last = first + page->run->event_count - 1;
    MT_TRY(mt_trace_blocks_by_label(trace, page->run, first, last, &page->blocks, &page->block_count));
    page->uses = mt_host_alloc(page->block_count * sizeof *page->uses + 1);
    mt_status status = mt_trace_blocks(trace, page->run, first, last, &whole, &count);
    struct mt_use_row *uses = mt_host_alloc(count * sizeof *uses + 1);
    MT_THEN(status, mt_trace_uses(trace, page->run, whole, count, uses));
    if (status == MT_OK)
        divide_uses(page, whole, uses, count);
    free(uses);
    free(whole);
    return status;
}

/* Reads the blocks and their uses. In most runs no label changes, and a row is a block. */
static mt_status load_rows_of_blocks(struct mt_trace *trace, struct mt_page_run *page)
{
    bool relabels;
    int64_t first = page->run->first_event, last = first + page->run->event_count - 1;
    MT_TRY(mt_trace_has_relabels(trace, page->run, &relabels));
    if (relabels)
        return load_rows_by_label(trace, page);
    MT_TRY(mt_trace_blocks(trace, page->run, first, last, &page->blocks, &page->block_count));
    page->uses = mt_host_alloc(page->block_count * sizeof *page->uses + 1);
    return mt_trace_uses(trace, page->run, page->blocks, page->block_count, page->uses);
}

/* Reads the call stacks, if the run has any, and which block has which. */
static mt_status load_stacks(struct mt_trace *trace, struct mt_page_names *names, struct mt_page_run *page)
{
    struct mt_stack_row *rows = NULL;
    MT_TRY(mt_trace_stacks(trace, page->run, &rows, &page->stack_count));
    page->stacks = mt_host_alloc(page->stack_count * sizeof *page->stacks + 1);
    page->callers = mt_host_alloc(page->block_count * sizeof *page->callers + 1);
    for (size_t i = 0; i < page->stack_count; i++)
        page->stacks[i] = (struct mt_page_stack){.parent = rows[i].parent,
                                                 .function = text_number(names, rows[i].function),
                                                 .file = text_number(names, rows[i].file),
                                                 .line = rows[i].line};
    free(rows);
    return mt_trace_callers(trace, page->run, page->blocks, page->block_count, page->stack_count, page->callers);
}

static mt_status load_blocks(struct mt_trace *trace, struct mt_page_run *page)
{
    MT_TRY(load_rows_of_blocks(trace, page));
    number_sizes(page);
    MT_TRY(mt_trace_segments(trace, page->run, &page->segments, &page->segment_count));
    return mt_trace_parts(trace, page->run, &page->parts, &page->part_count);
}

/* Numbers the texts of marks, kernels and phases. */
static void number_texts(struct mt_page_names *names, struct mt_page_run *page)
{
    const struct mt_page_beside *beside = &page->beside;
    page->mark_spans = mt_host_alloc(beside->mark_count * sizeof *page->mark_spans + 1);
    page->kernel_names = mt_host_alloc(beside->kernel_count * sizeof *page->kernel_names + 1);
    page->phase_names = mt_host_alloc(beside->phase_count * sizeof *page->phase_names + 1);
    for (size_t i = 0; i < beside->mark_count; i++)
        page->mark_spans[i] = text_number(names, beside->marks[i].span);
    for (size_t i = 0; i < beside->kernel_count; i++)
        page->kernel_names[i] = text_number(names, beside->kernels[i].name);
    for (size_t i = 0; i < beside->phase_count; i++)
        page->phase_names[i] = text_number(names, beside->phases[i].name);
}

/* ---- times, marks, kernels and program phases, beside the rest ---- */

/* Below this number of events, opening the trace a second time takes longer than reading them. */
enum { WORTH_A_THREAD = 1 << 16 };

/* Rows that are read on a thread of their own, from an opening of the trace of their own. */
struct reading {
    pthread_t thread;
    const char *path;
    const struct mt_run *run;
    struct mt_page_beside rows;
    mt_status status;
};

static void release_beside(struct mt_page_beside *beside)
{
    mt_trace_close(beside->trace);
    free(beside->times);
    free(beside->marks);
    free(beside->kernels);
    free(beside->phases);
}

static mt_status read_rows(struct mt_trace *trace, const struct mt_run *run, struct mt_page_beside *out)
{
    int64_t first = run->first_event, last = first + run->event_count - 1;
    MT_TRY(mt_trace_times(trace, run, first, last, &out->times));
    MT_TRY(mt_trace_marks(trace, run, first, last, &out->marks, &out->mark_count));
    MT_TRY(mt_trace_launches(trace, run, &out->kernels, &out->kernel_count));
    return mt_trace_phase_entries(trace, run, &out->phases, &out->phase_count);
}

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
    struct reading *reading = context;
    reading->status = mt_trace_open(reading->path, &reading->rows.trace);
    if (reading->status == MT_OK && !has_run(reading->rows.trace, reading->run))
        reading->status = MT_BAD_TRACE;
    if (reading->status == MT_OK)
        reading->status = read_rows(reading->rows.trace, reading->run, &reading->rows);
    return NULL;
}

/* Begins to read the run in the trace at `path`; borrows both. Returns NULL if that is not worth a thread, or there is
 * none. */
static struct reading *begin_reading(const char *path, const struct mt_run *run)
{
    if (run->event_count < WORTH_A_THREAD)
        return NULL;
    struct reading *reading = mt_host_alloc(sizeof *reading);
    *reading = (struct reading){.path = path, .run = run};
    if (pthread_create(&reading->thread, NULL, read_beside, reading) == 0)
        return reading;
    free(reading);
    return NULL;
}

/* Waits for the thread. True if it has read all rows. */
static bool wait_for(struct reading *reading)
{
    return reading != NULL && pthread_join(reading->thread, NULL) == 0 && reading->status == MT_OK;
}

static void drop(struct reading *reading)
{
    if (reading != NULL)
        release_beside(&reading->rows);
    free(reading);
}

/* Waits for the rows. If they were not read, reads them from `trace`, and fails as that does. Release *out in any
 * case. */
static mt_status end_reading(struct reading *reading, struct mt_trace *trace, const struct mt_run *run,
                             struct mt_page_beside *out)
{
    *out = (struct mt_page_beside){.trace = NULL};
    if (!wait_for(reading)) {
        drop(reading);
        return read_rows(trace, run, out);
    }
    *out = reading->rows;
    free(reading);
    return MT_OK;
}

/* Waits for the thread and drops the rows; `reading` may be NULL. */
static void abandon_reading(struct reading *reading)
{
    wait_for(reading);
    drop(reading);
}

/* ---- a run ---- */

/* Makes times never fall. They may by a little, where the clock of a card was read on two sides. */
static void straighten(uint64_t *times, size_t count)
{
    for (size_t i = 1; i < count; i++)
        times[i] = times[i] < times[i - 1] ? times[i - 1] : times[i];
}

/* Returns the unit of times: 1 ns, unless the last time would not fit. That is so after three days. */
static uint64_t time_unit(const uint64_t *times, size_t count)
{
    bool fits = count == 0 || times[count - 1] >> 8 * MT_PAGE_MOST_WIDTH == 0;
    return fits ? 1 : 1000;
}

/* Reads labels and blocks, and beside them times, marks, kernels and program phases. */
static mt_status load_rows(struct mt_trace *trace, const char *path, struct mt_page_names *names,
                           struct mt_page_run *page)
{
    struct reading *reading = begin_reading(path, page->run);
    mt_status status = load_labels(trace, names, page);
    MT_THEN(status, load_blocks(trace, page));
    MT_THEN(status, load_stacks(trace, names, page));
    if (status == MT_OK)
        return end_reading(reading, trace, page->run, &page->beside);
    abandon_reading(reading);
    return status;
}

mt_status mt_page_run_load(struct mt_trace *trace, const char *path, const struct mt_run *run,
                           struct mt_page_names *names, struct mt_page_run *out)
{
    *out = (struct mt_page_run){.run = run, .time_count = (size_t)run->event_count};
    MT_TRY(load_rows(trace, path, names, out));
    number_texts(names, out);
    uint64_t *times = out->beside.times;
    straighten(times, out->time_count);
    assert(out->time_count == 0 || times != NULL);
    out->time_unit_ns = time_unit(times, out->time_count);
    out->knots = mt_page_knots_find(times, out->time_count, &out->knot_count);
    mt_page_run_declare(out);
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
    release_beside(&page->beside);
    free(page->knots);
    free(page->labels);
    free(page->blocks);
    free(page->size_of_block);
    free(page->sizes);
    free(page->uses);
    free(page->stacks);
    free(page->callers);
    free(page->segments);
    free(page->parts);
    free(page->mark_spans);
    free(page->kernel_names);
    free(page->phase_names);
}
