/* Tables of the timeline page: columns of integers, coded so that they compress well. docs/page.md is the format.
 *
 *   rows ──▶ packed lists of numbers ──(difference to the row before)──(divided by the unit)──▶ planes of bytes
 *
 * A table is filled row by row while the trace is read, so that only its packed numbers are in host memory.
 *
 * Threads: filling and measuring, one at a time; a measured table may be encoded from any. */
#pragma once

#include "base/packed_list.h"
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
};

enum { MT_PAGE_MOST_COLUMNS = 9, MT_PAGE_PART_ROWS = 1 << 16, MT_PAGE_MOST_WIDTH = 6 };

/* The largest integer that JavaScript's numbers hold exactly, as do all below it. */
#define MT_PAGE_MOST_VALUE ((UINT64_C(1) << 53) - 1)

/* A table. `shape` and `first_chunk` are set by mt_page_table_measure.
 * Invariants: values[i].count is row_count for i below column_count. Once measured: every stored number of column i is
 * below 256^shape[i].width; column_count <= MT_PAGE_MOST_COLUMNS. */
struct mt_page_table {
    const char *name;     /* NULL: the run has no such table */
    const char *row_name; /* one of its rows, for errors: "block" */
    const struct mt_page_column *columns;
    size_t column_count, row_count;
    struct mt_packed_list values[MT_PAGE_MOST_COLUMNS];
    struct mt_page_shape {
        int width;     /* bytes of a stored number, 0 to MT_PAGE_MOST_WIDTH */
        uint64_t unit; /* a power of two that divides every value */
    } shape[MT_PAGE_MOST_COLUMNS];
    size_t first_chunk;
};

/* Adds a row: a value for each column. */
void mt_page_table_add(struct mt_page_table *table, const uint64_t *values);

/* Adds rows of zeros until there are `count`. */
void mt_page_table_fill(struct mt_page_table *table, size_t count);

/* Returns a value. */
static inline uint64_t mt_page_table_value(const struct mt_page_table *table, size_t column, size_t row)
{
    return mt_packed_list_get(&table->values[column], row);
}

/* Removes all rows. */
void mt_page_table_clear(struct mt_page_table *table);

/* Computes the shapes, and numbers the chunks from *next_chunk on. MT_BAD_TRACE if a value is above MT_PAGE_MOST_VALUE,
 * needs more than MT_PAGE_MOST_WIDTH bytes, or falls in a column of differences. */
mt_status mt_page_table_measure(struct mt_page_table *table, size_t *next_chunk);

/* Returns the number of chunks of a table. */
size_t mt_page_table_chunks(const struct mt_page_table *table);

/* Returns the value of column `index` in the first row of chunk number `part`, which the differences begin with. */
uint64_t mt_page_table_first(const struct mt_page_table *table, size_t index, size_t part);

/* Returns the bytes of chunk number `part` of the table, from 0. The caller frees them. */
unsigned char *mt_page_table_encode(const struct mt_page_table *table, size_t part, size_t *out_bytes);

/* Returns the same for up to MT_PAGE_SAMPLE_ROWS from the middle of the table, as a sample of its chunks. */
enum { MT_PAGE_SAMPLE_ROWS = 1 << 14 };
unsigned char *mt_page_table_sample(const struct mt_page_table *table, size_t *out_bytes);
