/* Tables for people: aligned columns, a header, names made safe for a terminal.
 *
 * Rows are kept until they are printed, so that the columns fit. A long table is printed part by part while it is made,
 * and its columns only grow: so a table's title is printed before its rows are added.
 *
 * On a terminal that is too narrow, columns of text are shortened with an ellipsis, the widest first; numbers and dates
 * never are. Columns that can be spared are left out before texts become too short to be told apart. Where nothing helps
 * lines break, and all is shown; so it is where stdout is a file or a pipe. */
#ifndef MT_CLI_TABLE_H
#define MT_CLI_TABLE_H

#include "base/text.h"

typedef enum mt_align { MT_ALIGN_LEFT, MT_ALIGN_RIGHT } mt_align;

struct mt_column {
    const char *title;
    mt_align align;
};

struct mt_table;

/* Borrows the columns. */
struct mt_table *mt_table_create(const struct mt_column *columns, size_t count);
void mt_table_destroy(struct mt_table *table);

/* The columns that can be spared, by their titles, the first of them first; NULL ends the list, which is borrowed. A note
 * tells which of them a terminal has no room for. Call before rows are added. */
void mt_table_spare(struct mt_table *table, const char *const *titles);

/* The next cell of the row; a row is complete when every column has one. The text is copied and made visible. */
void mt_table_add(struct mt_table *table, const char *text);
void mt_table_add_number(struct mt_table *table, int64_t number);
void mt_table_add_bytes(struct mt_table *table, uint64_t bytes);
void mt_table_add_share(struct mt_table *table, double part, double whole); /* as mt_format_share says it */

/* Prints what is left of the table; the header also if it has no rows. */
void mt_table_print(struct mt_table *table);

#endif
