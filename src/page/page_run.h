/* One run as the timeline page carries it: what is read of the trace, and the tables that are made of it. */
#ifndef MT_PAGE_PAGE_RUN_H
#define MT_PAGE_PAGE_RUN_H

#include "base/name_set.h"
#include "page/page_beside.h"
#include "page/page_knots.h"
#include "page/page_table.h"
#include "trace/query/blocks.h"

/* The tables of docs/page.md, in the order of the file: the page works on each while the next is still being read. Of two
 * runs, both have those that the first picture needs before either has the rest. */
enum mt_page_table_id {
    MT_PAGE_SIZES,
    MT_PAGE_LABELS,
    MT_PAGE_SEGMENTS,
    MT_PAGE_PARTS,
    MT_PAGE_KNOTS,
    MT_PAGE_BLOCKS,
    MT_PAGE_MARKS,
    MT_PAGE_KERNELS,
    MT_PAGE_REST, /* from here on: not needed for the first picture */
    MT_PAGE_EVENTS = MT_PAGE_REST,
    MT_PAGE_USES,
    MT_PAGE_TABLE_COUNT
};

/* More than two runs have that we recorded, and few enough that a page has a byte for them and for blocks without a label. */
enum { MT_PAGE_MOST_CATEGORIES = 255 };

/* What the runs of a page share: texts and categories, each once. Number 0 of texts is ""; the categories' numbers are
 * their positions plus 1, and the program's own come first. */
struct mt_page_names {
    struct mt_name_set *texts, *categories;
    uint32_t text_count, category_count;
};

/* A label in numbers: positions in texts and categories. */
struct mt_page_label {
    uint32_t category, role, op, phase, dtype, shape, span, place, layer; /* layer: plus 1 */
};

/* The sizes of blocks, each pair once. */
struct mt_page_size {
    uint64_t requested_bytes, block_bytes;
    uint32_t same_request; /* number, plus 1, of another pair with the same requested_bytes; 0: none */
};

/* Event ids are as in the trace; what the page stores counts from run->first_event.
 * Invariants: size_of_block[i] and uses[i] are of blocks[i], mark_spans[i] of beside.marks[i], kernel_names[i] of beside.kernels[i], kernel_names[i] of kernels[i];
 * tables[i].rows is this. */
struct mt_page_run {
    const struct mt_run *run;
    struct mt_page_beside beside;
    size_t time_count;
    uint64_t time_unit_ns; /* what the page counts times in */
    struct mt_page_knot *knots;
    size_t knot_count;
    struct mt_page_label *labels;
    size_t label_count;
    struct mt_block_row *blocks;
    uint32_t *size_of_block;
    size_t block_count;
    struct mt_page_size *sizes;
    size_t size_count;
    struct mt_use_row *uses;
    struct mt_segment_row *segments;
    size_t segment_count;
    struct mt_part_row *parts;
    size_t part_count;
    uint32_t *mark_spans, *kernel_names; /* positions in texts */
    struct mt_page_table tables[MT_PAGE_TABLE_COUNT];
};

void mt_page_names_create(struct mt_page_names *names);
void mt_page_names_release(struct mt_page_names *names);

/* Reads the run of the trace, which is the file at `path`, and declares its tables. Release in any case. */
mt_status mt_page_run_load(struct mt_trace *trace, const char *path, const struct mt_run *run,
                           struct mt_page_names *names, struct mt_page_run *out);

/* Measures the tables from one to before another, whose chunks are numbered from *next_chunk on. */
mt_status mt_page_run_measure(struct mt_page_run *page, enum mt_page_table_id from, enum mt_page_table_id to,
                              size_t *next_chunk);
void mt_page_run_release(struct mt_page_run *page);

/* Declares the tables of what was read; for mt_page_run_load. */
void mt_page_run_declare(struct mt_page_run *page);

#endif
