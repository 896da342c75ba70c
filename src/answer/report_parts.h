/* What a page is made of; for report_page.c and its writers only. */
#ifndef MT_ANSWER_REPORT_PARTS_H
#define MT_ANSWER_REPORT_PARTS_H

#include "answer/report_page.h"

typedef enum mt_cell_kind { MT_CELL_TEXT, MT_CELL_BYTES, MT_CELL_NUMBER, MT_CELL_ABSENT } mt_cell_kind;

struct mt_cell {
    mt_cell_kind kind;
    char *text; /* as shown */
    int64_t bytes;
    double number;
};

/* Invariant: cell_count is a multiple of column_count once the next element was begun. */
struct mt_page_grid {
    char *key;
    struct mt_column *columns; /* titles owned */
    size_t column_count;
    struct mt_cell *cells;
    size_t cell_count;
};

typedef enum mt_element_kind { MT_ELEMENT_SAY, MT_ELEMENT_HINT, MT_ELEMENT_TABLE } mt_element_kind;

struct mt_element {
    mt_element_kind kind;
    char *text;               /* paragraph, reason or the table's title */
    char *command;            /* of a hint */
    struct mt_page_grid grid; /* of a table */
};

/* The first section is the introduction: its key and title are NULL. */
struct mt_section {
    char *key, *title;
    struct mt_element *elements;
    size_t element_count;
};

struct mt_page {
    char *title;
    struct mt_section *sections;
    size_t section_count;
};

static inline size_t mt_grid_rows(const struct mt_page_grid *grid)
{
    return grid->cell_count / grid->column_count;
}

#endif
