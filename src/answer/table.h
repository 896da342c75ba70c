/* Text output: sentences, wrapped at words, and tables with aligned columns and a header. Names in both are made safe
 * for a terminal. */
#pragma once

#include "answer/row.h"

#include <stdio.h>

/* ---- the screen: the terminal or file on which text is printed ---- */

struct mt_screen {
    FILE *file;                     /* borrowed */
    int columns;                    /* of the terminal; 0: not a terminal, or unknown */
    int width;                      /* of sentences */
    bool is_styled;                 /* headers may be bold */
    void (*note)(const char *text); /* called once per table with the columns that were left out */
};

/* Prints a sentence and ends its last line. Blanks at its beginning indent every line; newlines before them are printed
 * first. */
void mt_screen_say(const struct mt_screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a sentence like mt_screen_say, and releases it. */
void mt_screen_line(const struct mt_screen *screen, struct mt_text *line);

/* Prints words from the cursor on, which is in column `indent`. Later lines are indented to that column. */
void mt_screen_continue(const struct mt_screen *screen, const char *words, size_t indent);

/* Prints an empty line. */
void mt_screen_gap(const struct mt_screen *screen);

/* ---- tables ----
 *
 * Rows are kept until they are printed, so that the columns fit. A long table is printed in parts while rows are added,
 * and its columns only grow wider. So print its title before adding rows.
 *
 * On a narrow terminal, text columns are shortened with an ellipsis, the widest first; numbers and dates are never
 * shortened. Columns that can be spared are left out before texts become too short to be distinguished. If that is not
 * enough, lines break and everything is shown. Lines also break if the output is a file or a pipe. */

typedef enum mt_align { MT_ALIGN_LEFT, MT_ALIGN_RIGHT } mt_align;

struct mt_column {
    const char *title;
    mt_align align;
};

struct mt_table;

/* Creates a table with columns for the fields in the blank-separated list `fields`; NULL: all fields. `spare` lists the
 * fields that a narrow terminal may leave out, in this order; NULL: none. Borrows the headings. */
struct mt_table *mt_table_of_rows(struct mt_screen screen, const struct mt_row_type *type, const char *fields,
                                  const char *spare);

/* Adds an array of rows of the table's type. */
void mt_table_add_rows(struct mt_table *table, const void *rows, size_t count);

/* Creates a table whose cells are added one by one. Borrows the columns. */
struct mt_table *mt_table_of_cells(struct mt_screen screen, const struct mt_column *columns, size_t count);

/* Sets the columns that can be spared by their titles, in this order; NULL ends the list, which is borrowed. Call it
 * before adding rows. */
void mt_table_spare(struct mt_table *table, const char *const *titles);

/* Adds the next cell of the row; a row is complete when every column has one. The text is copied and made visible. */
void mt_table_add(struct mt_table *table, const char *text);
void mt_table_add_number(struct mt_table *table, int64_t number);
void mt_table_add_bytes(struct mt_table *table, uint64_t bytes);
void mt_table_add_share(struct mt_table *table, double part, double whole); /* as mt_format_share writes it */

/* Prints the rest of the table; also prints the header of a table without rows. */
void mt_table_print(struct mt_table *table);

void mt_table_destroy(struct mt_table *table); /* may be NULL */

/* Prints a table of `count` rows (mt_table_of_rows). */
void mt_screen_rows(const struct mt_screen *screen, const struct mt_row_type *type, const char *fields,
                    const char *spare, const void *rows, size_t count);
