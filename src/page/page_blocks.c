/* The blocks of a run on the page, with their sizes, uses and callers.
 *
 *   blocks visited ──▶ a row each, whose life is set when it ends ──▶ uses and callers find their rows in order */
#include "base/memory.h"
#include "base/number_map.h"
#include "page/page_load.h"

#include <assert.h>
#include <stdlib.h>

/* ---- sizes ---- */

/* The pairs of sizes by request. same_request[i] is the number + 1 of another pair with the request of pair i; 0:
 * none. */
struct size_index {
    struct mt_page_table *sizes;
    struct mt_number_map last_pair; /* of a request: its number + 1 */
    uint32_t *same_request;
};

static uint32_t add_size(struct size_index *index, const struct mt_block_row *block, uint32_t same_request)
{
    const uint64_t pair[] = {
        [MT_PAGE_SIZE_REQUESTED] = block->requested_bytes, [MT_PAGE_SIZE_BLOCK] = block->block_bytes};
    size_t count = index->sizes->row_count;
    *MT_HOST_ADD(index->same_request, count) = same_request;
    mt_page_table_add(index->sizes, pair);
    mt_number_map_put(&index->last_pair, block->requested_bytes, count);
    return (uint32_t)count;
}

/* Returns the row of the block's pair in the table of sizes. */
static uint32_t number_size(struct size_index *index, const struct mt_block_row *block)
{
    uint64_t first = 0;
    mt_number_map_get(&index->last_pair, block->requested_bytes, &first);
    for (uint32_t number = (uint32_t)first; number != 0; number = index->same_request[number - 1])
        if (mt_page_table_value(index->sizes, MT_PAGE_SIZE_BLOCK, number - 1) == block->block_bytes)
            return number - 1;
    return add_size(index, block, (uint32_t)first) - 1;
}

/* ---- blocks ---- */

struct block_load {
    struct mt_page_run *page;
    struct mt_page_table *blocks;
    struct size_index sizes;
};

static void begin_row(void *context, const struct mt_block_row *block)
{
    struct block_load *load = context;
    const uint64_t row[] = {mt_page_position(load->page, block->alloc_event),
                            0,
                            block->segment,
                            block->offset,
                            number_size(&load->sizes, block),
                            block->label};
    mt_page_table_add(load->blocks, row);
}

static void end_row(void *context, const struct mt_block_change *change)
{
    const struct block_load *load = context;
    uint64_t alloc = mt_page_table_value(load->blocks, MT_PAGE_BLOCK_ALLOC, change->row);
    uint64_t end = mt_page_position(load->page, change->event);
    mt_packed_list_set(&load->blocks->values[MT_PAGE_BLOCK_LIFE], change->row, end > alloc ? end - alloc : 0);
}

static void begin_next_row(void *context, const struct mt_block_change *change)
{
    struct block_load *load = context;
    const struct mt_page_table *blocks = load->blocks;
    const uint64_t row[] = {mt_page_position(load->page, change->event),
                            0,
                            mt_page_table_value(blocks, MT_PAGE_BLOCK_SEGMENT, change->row),
                            mt_page_table_value(blocks, MT_PAGE_BLOCK_OFFSET, change->row),
                            mt_page_table_value(blocks, MT_PAGE_BLOCK_SIZE, change->row),
                            change->label};
    end_row(context, change);
    mt_page_table_add(load->blocks, row);
}

static mt_status load_rows(struct mt_trace *trace, struct mt_page_run *page)
{
    struct block_load load = {
        .page = page, .blocks = &page->tables[MT_PAGE_BLOCKS], .sizes = {.sizes = &page->tables[MT_PAGE_SIZES]}};
    const struct mt_block_visitor visitor = {
        .rows = MT_ROW_A_LABEL, .context = &load, .begin = begin_row, .end = end_row, .relabel = begin_next_row};
    mt_number_map_create(&load.sizes.last_pair);
    mt_status status = mt_trace_blocks_visit(trace, page->run, &visitor);
    mt_number_map_release(&load.sizes.last_pair);
    free(load.sizes.same_request);
    return status;
}

/* ---- rows of blocks, found in order ---- */

/* Invariant: blocks that are looked for next were allocated at or after that of row `next`. */
struct row_search {
    struct mt_page_run *page;
    size_t next, stack_count;
};

static uint64_t alloc_of(const struct mt_page_run *page, size_t row)
{
    return mt_page_table_value(&page->tables[MT_PAGE_BLOCKS], MT_PAGE_BLOCK_ALLOC, row);
}

/* Finds the row that begins with the event: search->next. */
static bool find_row(struct row_search *search, int64_t event)
{
    uint64_t alloc = mt_page_position(search->page, event);
    size_t count = search->page->tables[MT_PAGE_BLOCKS].row_count;
    while (search->next < count && alloc_of(search->page, search->next) < alloc)
        search->next++;
    return search->next < count && alloc_of(search->page, search->next) == alloc;
}

/* Returns the first of the first `count` rows that begins at `alloc` or later; `count`: none. */
static size_t row_from(const struct mt_page_run *page, size_t count, uint64_t alloc)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (alloc_of(page, middle) < alloc)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the values of a block's row; a damaged trace may have them twice. */
static void add_at(struct mt_page_table *table, size_t row, const uint64_t *values)
{
    if (table->row_count > row)
        return;
    mt_page_table_fill(table, row);
    mt_page_table_add(table, values);
}

/* ---- uses ---- */

enum { USE_IS_KNOWN = 1, USE_IS_UNREAD = 2 };

/* Returns the distance in rows to the block that this one was copied from; 0: none that is older. */
static uint64_t distance_to_source(const struct mt_page_run *page, size_t row, const struct mt_use_row *use)
{
    if (use->copied_from == 0)
        return 0;
    uint64_t alloc = mt_page_position(page, use->copied_from);
    size_t found = row_from(page, row, alloc);
    return found < row && alloc_of(page, found) == alloc ? row - found : 0;
}

static void add_use(struct mt_page_run *page, size_t row, const struct mt_use_row *use)
{
    int64_t alloc = page->run->first_event + (int64_t)alloc_of(page, row);
    const uint64_t values[] = {USE_IS_KNOWN + (use->unread ? USE_IS_UNREAD : 0),
                               use->reads,
                               use->writes,
                               mt_page_life(alloc, use->first),
                               mt_page_life(use->first, use->last),
                               mt_page_life(use->first, use->idle_from),
                               mt_page_life(use->idle_from, use->idle_to),
                               distance_to_source(page, row, use)};
    add_at(&page->tables[MT_PAGE_USES], row, values);
}

/* True if a row ends since its block gets another label. */
static bool ends_by_relabel(const struct mt_page_run *page, uint64_t end)
{
    size_t count = page->tables[MT_PAGE_BLOCKS].row_count, next = row_from(page, count, end);
    return next < count && alloc_of(page, next) == end;
}

/* Adds the use of a block to its first row, if it lies in that. */
static mt_status visit_use(void *context, int64_t alloc_event, const struct mt_use_row *use)
{
    struct row_search *search = context;
    struct mt_page_run *page = search->page;
    if (!find_row(search, alloc_event))
        return MT_OK;
    uint64_t life = mt_page_table_value(&page->tables[MT_PAGE_BLOCKS], MT_PAGE_BLOCK_LIFE, search->next);
    int64_t end = life > 0 ? alloc_event + (int64_t)life : 0;
    if (end > 0 && use->last >= end && ends_by_relabel(page, mt_page_position(page, end)))
        return MT_OK;
    MT_TRY(mt_use_check(use, page->run, alloc_event, end));
    add_use(page, search->next, use);
    return MT_OK;
}

static mt_status load_uses(struct mt_trace *trace, struct mt_page_run *page)
{
    struct row_search search = {.page = page};
    struct mt_page_table *uses = &page->tables[MT_PAGE_USES];
    MT_TRY(mt_trace_uses_visit(trace, page->run, visit_use, &search));
    if (uses->row_count == 0)
        mt_page_run_leave_out(page, MT_PAGE_USES);
    else
        mt_page_table_fill(uses, page->tables[MT_PAGE_BLOCKS].row_count);
    return MT_OK;
}

/* ---- callers ---- */

static void visit_caller(void *context, int64_t alloc_event, int64_t stack)
{
    struct row_search *search = context;
    if (find_row(search, alloc_event) && stack < (int64_t)search->stack_count)
        add_at(&search->page->tables[MT_PAGE_CALLERS], search->next, &(const uint64_t){(uint64_t)stack});
}

static mt_status load_callers(struct mt_trace *trace, size_t stack_count, struct mt_page_run *page)
{
    struct row_search search = {.page = page, .stack_count = stack_count};
    if (stack_count <= 1) {
        mt_page_run_leave_out(page, MT_PAGE_CALLERS);
        return MT_OK;
    }
    MT_TRY(mt_trace_callers_visit(trace, page->run, visit_caller, &search));
    mt_page_table_fill(&page->tables[MT_PAGE_CALLERS], page->tables[MT_PAGE_BLOCKS].row_count);
    return MT_OK;
}

mt_status mt_page_blocks_load(struct mt_trace *trace, size_t stack_count, struct mt_page_run *page)
{
    MT_TRY(load_rows(trace, page));
    MT_TRY(load_uses(trace, page));
    return load_callers(trace, stack_count, page);
}
