/* Tables of the timeline page: columns of whole numbers, coded so that they compress well. docs/page.md is the format.
 *
 *   rows ──value()──▶ numbers ──(difference to the row before)──(divided by the unit)──▶ planes of bytes
 *
 * A table is declared, not filled: a column says how its number is found in the rows, so nothing is held twice. */
#ifndef MT_PAGE_PAGE_TABLE_H
#define MT_PAGE_PAGE_TABLE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum mt_page_coding {
    MT_PAGE_PLAIN, /* the number */
    MT_PAGE_DELTA  /* its difference to the one before; the numbers never fall */
} mt_page_coding;

struct mt_page_column {
    const char *name;
    mt_page_coding coding;
    uint64_t (*value)(const void *rows, size_t row);
};

enum { MT_PAGE_MOST_COLUMNS = 9, MT_PAGE_PART_ROWS = 1 << 16, MT_PAGE_MOST_WIDTH = 6 };

/* JavaScript's numbers are exact up to here. */
#define MT_PAGE_MOST_VALUE ((UINT64_C(1) << 53) - 1)

/* A table. `shape` and `first_chunk` are set by mt_page_table_measure.
 * Invariant: what is stored of column i of any row is below 256^shape[i].width. */
struct mt_page_table {
    const char *name;     /* NULL: the run has no such table */
    const char *row_name; /* one of its rows, for errors: "block" */
    const void *rows;     /* handed to the columns' functions */
    size_t row_count;
    const struct mt_page_column *columns;
    size_t column_count;
    struct mt_page_shape {
        int width;     /* bytes of a stored number, 0 to MT_PAGE_MOST_WIDTH */
        uint64_t unit; /* a power of two that divides every value */
    } shape[MT_PAGE_MOST_COLUMNS];
    size_t first_chunk;
};

/* Finds what the columns need, and numbers the chunks from *next_chunk on. MT_BAD_TRACE if a value is above
 * MT_PAGE_MOST_VALUE, is not stored in MT_PAGE_MOST_WIDTH bytes, or falls where it never should. */
mt_status mt_page_table_measure(struct mt_page_table *table, size_t *next_chunk);

/* How many chunks the rows take. */
size_t mt_page_table_chunks(const struct mt_page_table *table);

/* What column `index` has in the first row of chunk number `part`, which differences begin with. */
uint64_t mt_page_table_first(const struct mt_page_table *table, size_t index, size_t part);

/* The bytes of chunk number `part` of the table, from 0; the caller's, free(). */
unsigned char *mt_page_table_encode(const struct mt_page_table *table, size_t part, size_t *out_bytes);

/* The same of up to MT_PAGE_SAMPLE_ROWS in the middle of the table: what its chunks are like. */
enum { MT_PAGE_SAMPLE_ROWS = 1 << 14 };
unsigned char *mt_page_table_sample(const struct mt_page_table *table, size_t *out_bytes);

#endif
