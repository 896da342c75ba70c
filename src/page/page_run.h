/* One run on the timeline page: the rows that are read from the trace, and the tables that are made of them. */
#pragma once

#include "base/interner.h"
#include "page/page_knots.h"
#include "page/page_table.h"
#include "trace/query/blocks.h"
#include "trace/query/holders.h"

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

/* A label in numbers: positions in texts and categories. */
struct mt_page_label {
    uint32_t category, role, op, phase, dtype, shape, span, place, layer; /* layer: + 1 */
};

/* A call stack: its innermost frame, in positions in texts, and the number of its caller's; 0: none. */
struct mt_page_stack {
    uint32_t parent, function, file;
    uint64_t line;
};

/* The sizes of blocks, each pair once. */
struct mt_page_size {
    uint64_t requested_bytes, block_bytes;
    uint32_t same_request; /* number + 1 of another pair with the same requested_bytes; 0: none */
};

/* Rows that are not about blocks. In a long run they are read on another thread beside the blocks, from a second
 * opening of the trace, which halves the time that reading takes. */
struct mt_page_beside {
    struct mt_trace *trace; /* the opening that owns the rows' texts; NULL: the run's */
    uint64_t *times;        /* of each event */
    struct mt_mark_row *marks;
    size_t mark_count;
    struct mt_launch_row *kernels;
    size_t kernel_count;
    struct mt_phase_entry_row *phases; /* of the program */
    size_t phase_count;
};

/* Event ids are as in the trace; the page counts them from run->first_event.
 * Invariants: size_of_block[i] and uses[i] belong to blocks[i], mark_spans[i] to beside.marks[i], kernel_names[i] to
 * beside.kernels[i], phase_names[i] to beside.phases[i]; size_of_block[i] < size_count; tables[i].rows is this struct. */
struct mt_page_run {
    const struct mt_run *run;
    struct mt_page_beside beside;
    size_t time_count;
    uint64_t time_unit_ns; /* the unit of times on the page */
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
    struct mt_page_stack *stacks; /* by number, from 0, which is none */
    size_t stack_count;
    uint32_t *callers; /* of each block: the number of its call stack */
    struct mt_segment_row *segments;
    size_t segment_count;
    struct mt_part_row *parts;
    size_t part_count;
    uint32_t *mark_spans, *kernel_names, *phase_names; /* positions in texts */
    struct mt_page_table tables[MT_PAGE_TABLE_COUNT];
};

void mt_page_names_create(struct mt_page_names *names);
void mt_page_names_release(struct mt_page_names *names);

/* Reads the run from the trace, which is the file at `path`, and declares its tables. Borrows trace and run. Release
 * *out in any case. MT_BAD_TRACE if there are too many categories; and as the queries of the trace. */
mt_status mt_page_run_load(struct mt_trace *trace, const char *path, const struct mt_run *run,
                           struct mt_page_names *names, struct mt_page_run *out);

/* Measures the tables in [from, to), and numbers their chunks from *next_chunk on. Fails as mt_page_table_measure. */
mt_status mt_page_run_measure(struct mt_page_run *page, enum mt_page_table_id from, enum mt_page_table_id to,
                              size_t *next_chunk);
void mt_page_run_release(struct mt_page_run *page);

/* Declares the tables of the rows that were read; for mt_page_run_load. */
void mt_page_run_declare(struct mt_page_run *page);
