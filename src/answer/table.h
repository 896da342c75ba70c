/* Answers for people: sentences, wrapped at words, and tables with aligned columns and a header. Names in either are made safe for
 * a terminal. */
#pragma once

#include "answer/row.h"

#include <stdio.h>

/* ---- the screen: the place that answers for people are printed on ---- */

struct mt_screen {
    FILE *file;                     /* borrowed */
    int columns;                    /* of the terminal; 0: it is none, or does not say */
    int width;                      /* of sentences */
    bool is_styled;                 /* headers may be bold */
    void (*note)(const char *text); /* is told once of a table which columns were left out */
};

/* Prints a sentence and ends its last line. Blanks at its beginning indent every line; line ends before them are printed
 * first. */
void mt_screen_say(const struct mt_screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Does the same, and releases the sentence. */
void mt_screen_line(const struct mt_screen *screen, struct mt_text *line);

/* Prints words whose first line begins at the cursor, which is in column `indent`. Further lines begin there. */
void mt_screen_continue(const struct mt_screen *screen, const char *words, size_t indent);

/* Ends a line, so that the next text is set apart. */
void mt_screen_gap(const struct mt_screen *screen);

/* ---- tables ----
 *
 * Rows are kept until they are printed, so that the columns fit. A long table is printed part by part while it is made,
 * and its columns only grow. So print its title before you add rows.
 *
 * On a terminal that is too narrow, columns of text are shortened with an ellipsis, the widest first; numbers and dates
 * never are. Columns that can be spared are left out before texts become too short to be told apart. If nothing helps,
 * lines break and all is shown. The same holds where the output is a file or a pipe. */

typedef enum mt_align { MT_ALIGN_LEFT, MT_ALIGN_RIGHT } mt_align;

struct mt_column {
    const char *title;
    mt_align align;
};

struct mt_table;

/* Creates a table with columns for those fields of a row, their names separated by blanks; NULL: all. `spare` names the fields that a
 * narrow terminal may leave out, the first of them first, likewise; NULL: none. The headings are borrowed. */
struct mt_table *mt_table_of_rows(struct mt_screen screen, const struct mt_row_type *type, const char *fields,
                                  const char *spare);

/* Adds rows of the table's type, one behind the other. */
void mt_table_add_rows(struct mt_table *table, const void *rows, size_t count);

/* Creates a table whose cells are added one by one. Borrows the columns. */
struct mt_table *mt_table_of_cells(struct mt_screen screen, const struct mt_column *columns, size_t count);

/* Names the columns that can be spared by their titles, as above; NULL ends the list, which is borrowed. Call before rows
 * are added. */
void mt_table_spare(struct mt_table *table, const char *const *titles);

/* Adds the next cell of the row; a row is complete when every column has one. The text is copied and made visible. */
void mt_table_add(struct mt_table *table, const char *text);
void mt_table_add_number(struct mt_table *table, int64_t number);
void mt_table_add_bytes(struct mt_table *table, uint64_t bytes);
void mt_table_add_share(struct mt_table *table, double part, double whole); /* as mt_format_share writes it */

/* Prints the rest of the table; the header also if it has no rows. */
void mt_table_print(struct mt_table *table);

void mt_table_destroy(struct mt_table *table); /* may be NULL */

/* Prints a table of `count` rows (mt_table_of_rows). */
void mt_screen_rows(const struct mt_screen *screen, const struct mt_row_type *type, const char *fields,
                    const char *spare, const void *rows, size_t count);
