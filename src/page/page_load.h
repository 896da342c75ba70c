/* The parts of reading a run into the tables of its page. Ownership and failures as in page_run.h. */
#pragma once

#include "page/page_run.h"

/* The columns that are read back. */
enum { MT_PAGE_EVENT_TIME };
enum { MT_PAGE_KNOT_EVENT, MT_PAGE_KNOT_TIME };
enum { MT_PAGE_BLOCK_ALLOC, MT_PAGE_BLOCK_LIFE, MT_PAGE_BLOCK_SEGMENT, MT_PAGE_BLOCK_OFFSET, MT_PAGE_BLOCK_SIZE };
enum { MT_PAGE_SIZE_REQUESTED, MT_PAGE_SIZE_BLOCK };
enum { MT_PAGE_MARK_SPAN = 3 };
enum { MT_PAGE_KERNEL_START, MT_PAGE_KERNEL_DURATION, MT_PAGE_KERNEL_NAME };
enum { MT_PAGE_PHASE_NAME = 1 };

/* Sets the columns of the tables, which have no rows. */
void mt_page_run_declare(struct mt_page_run *page);

/* Removes a table from the page. */
static inline void mt_page_run_leave_out(struct mt_page_run *page, enum mt_page_table_id id)
{
    mt_page_table_clear(&page->tables[id]);
    page->tables[id].name = NULL;
}

/* Returns a lifetime in events; 0: to the end. */
static inline uint64_t mt_page_life(int64_t begin, int64_t end)
{
    return end > begin ? (uint64_t)(end - begin) : 0;
}

/* Returns an event's position in the run. */
static inline uint64_t mt_page_position(const struct mt_page_run *page, int64_t event)
{
    return (uint64_t)(event - page->run->first_event);
}

/* Fills the tables of sizes, blocks, uses and, if the run has more than one of `stack_count` call stacks, callers. */
mt_status mt_page_blocks_load(struct mt_trace *trace, size_t stack_count, struct mt_page_run *page);

/* Reads times, marks, kernels and program phases, in a long run on a thread of their own, from a second opening of the
 * trace. That halves the time that reading takes. */
struct mt_page_reading;

/* Begins to fill the tables of events, marks, kernels and program phases, which nobody else touches until the end.
 * Borrows `path`, the trace's file. */
struct mt_page_reading *mt_page_reading_begin(const char *path, struct mt_page_run *page);

/* Waits for the thread. If it did not read all rows, reads them from `trace`, and fails as that does. Adds the texts to
 * `names`. Frees the reading. */
mt_status mt_page_reading_end(struct mt_page_reading *reading, struct mt_trace *trace, struct mt_page_names *names);

/* Waits for the thread, and frees the reading. */
void mt_page_reading_abandon(struct mt_page_reading *reading);
