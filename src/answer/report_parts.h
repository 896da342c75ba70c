/* The inside of a page, for the files that make and write it.
 *
 * Invariants: every table is complete, so cell_count is a multiple of column_count, which is above 0. The first section is the
 * introduction, whose key and title are NULL; all others have both. bar_count <= MT_PAGE_MOST_BARS, and each of the bars is
 * below column_count. */
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { MT_PAGE_MOST_BARS = 3 };

struct cell {
    char *text;    /* as shown */
    json_t *exact; /* an integer of bytes, another number, or null for what is not known; NULL: the text is all */
};

struct column {
    char *title;
    bool is_number; /* aligned right */
};

typedef enum element_kind { ELEMENT_SAY, ELEMENT_HINT, ELEMENT_TABLE, ELEMENT_CURVE } element_kind;

struct element {
    element_kind kind;
    char *text;      /* paragraph, reason, or the title of a table or curve */
    bool is_found;   /* of a paragraph: the page begins with it */
    char *command;   /* of a hint */
    uint64_t *curve; /* of a curve, as the next two: curve_count values, bytes */
    size_t curve_count;
    char *end;              /* of the axis */
    char *key;              /* of a table, as the rest */
    struct column *columns; /* column_count of them */
    size_t column_count;
    bool keeps_columns; /* none is left out */
    struct cell *cells; /* row by row */
    size_t cell_count;
    char **links; /* by row: what it links to, or NULL; rows past link_count link to nothing */
    size_t link_count;
    size_t bars[MT_PAGE_MOST_BARS]; /* columns of the chart */
    size_t bar_count;               /* 0: there is no chart */
    size_t chart_rows;              /* the first rows, which the chart shows */
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

/* Returns how many rows a table has, without the header. */
size_t mt_page_count_rows(const struct element *table);

/* Returns what a row links to, from 1 on; NULL: nothing. */
const char *mt_page_link_of(const struct element *table, size_t row);

/* True if all rows of a table show the same in a column, and there are several, or if none has anything there. Pages leave it
 * out. Not of columns that the chart shows, nor of a table that keeps its columns. */
bool mt_page_is_constant(const struct element *table, size_t column);

/* Adds the title of a table with what all its rows have in common: "Peaks; in each row pass: full step". */
void mt_page_add_title(struct mt_text *out, const struct element *table);

/* Adds a curve as SVG; nothing if it has no value above 0. */
void mt_page_add_curve(struct mt_text *out, const struct element *curve);

/* Adds the chart of a table as SVG; nothing if the table has none, or more than 100 rows. */
void mt_page_add_chart(struct mt_text *out, const struct element *table);
