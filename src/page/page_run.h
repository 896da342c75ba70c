/* One run on the timeline page: tables that are filled while the trace is read. */
#pragma once

#include "base/interner.h"
#include "page/page_table.h"
#include "trace/query/blocks.h"

/* The tables of docs/page.md, in the order of the file: the page works on each while it reads the next. Of two runs,
 * both have the tables for the first picture before either has the rest. */
enum mt_page_table_id {
    MT_PAGE_SIZES,
    MT_PAGE_LABELS,
    MT_PAGE_SEGMENTS,
    MT_PAGE_PARTS,
    MT_PAGE_KNOTS,
    MT_PAGE_BLOCKS,
    MT_PAGE_MARKS,
    MT_PAGE_KERNELS,
    MT_PAGE_PROGRAM_PHASES,
    MT_PAGE_REST, /* from here on: not needed for the first picture */
    MT_PAGE_EVENTS = MT_PAGE_REST,
    MT_PAGE_USES,
    MT_PAGE_STACKS,
    MT_PAGE_CALLERS,
    MT_PAGE_TABLE_COUNT
};

/* More than two runs of ours have, and few enough for a byte in the page, with one value left for blocks without a
 * label. */
enum { MT_PAGE_MOST_CATEGORIES = 255 };

/* Texts and categories, each once, for all runs of a page. Number 0 of the texts is "". The number of a category is its
 * position + 1, and memtrace's own come first. */
struct mt_page_names {
    struct mt_name_set *texts, *categories;
    uint32_t text_count, category_count;
};

/* One run. Event ids are as in the trace; the page counts them from run->first_event.
 * Invariant: a row of the tables of uses and callers belongs to the block of the same row. */
struct mt_page_run {
    const struct mt_run *run;
    uint64_t time_unit_ns; /* the unit of times on the page */
    struct mt_page_table tables[MT_PAGE_TABLE_COUNT];
};

void mt_page_names_create(struct mt_page_names *names);
void mt_page_names_release(struct mt_page_names *names);

/* Returns the number of a text. */
uint32_t mt_page_text_number(struct mt_page_names *names, const char *text);

/* Reads the run from the trace, which is the file at `path`, and fills its tables. Borrows trace and run. Release
 * *out in any case. MT_BAD_TRACE if there are too many categories; and as the queries of the trace. */
mt_status mt_page_run_load(struct mt_trace *trace, const char *path, const struct mt_run *run,
                           struct mt_page_names *names, struct mt_page_run *out);

/* Measures the tables in [from, to), and numbers their chunks from *next_chunk on. Fails as mt_page_table_measure. */
mt_status mt_page_run_measure(struct mt_page_run *page, enum mt_page_table_id from, enum mt_page_table_id to,
                              size_t *next_chunk);
void mt_page_run_release(struct mt_page_run *page);
