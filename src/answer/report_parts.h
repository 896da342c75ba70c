/* The internals of a page, for the files that build and write it.
 *
 * Invariants: every table is complete, so cell_count is a multiple of column_count, which is above 0. The first section
 * is the introduction, with NULL as key and title; all others have both. bar_count <= MT_PAGE_MOST_BARS, and each
 * element of bars is below column_count. */
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { MT_PAGE_MOST_BARS = 3 };

struct cell {
    char *text;    /* as shown */
    json_t *exact; /* an integer of bytes, another number, or null if unknown; NULL: there is only the text */
};

struct column {
    char *title;
    bool is_number; /* right-aligned */
};

typedef enum element_kind { ELEMENT_SAY, ELEMENT_HINT, ELEMENT_TABLE, ELEMENT_CURVE } element_kind;

struct element {
    element_kind kind;
    char *text;      /* paragraph, reason, or the title of a table or curve */
    bool is_found;   /* the paragraph is a finding */
    char *command;   /* of a hint */
    uint64_t *curve; /* for curves, like the next two: curve_count values, bytes */
    size_t curve_count;
    char *end;              /* of the axis */
    char *key;              /* for tables, like the following */
    struct column *columns; /* column_count of them */
    size_t column_count;
    bool keeps_columns; /* no column is left out */
    struct cell *cells; /* row by row */
    size_t cell_count;
    char **links; /* by row: target of its link, or NULL; rows from link_count on have none */
    size_t link_count;
    size_t bars[MT_PAGE_MOST_BARS]; /* columns of the chart */
    size_t bar_count;               /* 0: no chart */
    size_t chart_rows;              /* number of rows in the chart, from the first */
};

struct section {
    char *key, *title;
    struct element *elements;
    size_t element_count;
};

struct mt_page {
    char *title;
    struct section *sections;
    size_t section_count;
};

/* Returns the text of a cell; row 0 is the header. */
const char *mt_page_text_at(const struct element *table, size_t row, size_t column);

/* Returns the number of rows of a table, without the header. */
size_t mt_page_count_rows(const struct element *table);

/* Returns the link target of a row, numbered from 1; NULL: none. */
const char *mt_page_link_of(const struct element *table, size_t row);

/* True if a column has the same value in all of several rows, or no value in any row. Pages leave it out. False for
 * columns of the chart, and for a table that keeps its columns. */
bool mt_page_is_constant(const struct element *table, size_t column);

/* Adds a table's title with the values that are equal in all rows: "Peaks; in each row pass: full step". */
void mt_page_add_title(struct mt_text *out, const struct element *table);

/* Adds a curve as SVG; nothing if all its values are 0. */
void mt_page_add_curve(struct mt_text *out, const struct element *curve);

/* Adds a table's chart as SVG; nothing if the table has none, or more than 100 rows. */
void mt_page_add_chart(struct mt_text *out, const struct element *table);
