#include "answer/table.h"

#include "answer/escape.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts are shortened to no less than LEAST_SHORTENED characters. Columns are left out before texts get shorter than
 * EASILY_READ. */
enum { ROWS_AT_ONCE = 1000, COLUMN_GAP = 2, LEAST_SHORTENED = 10, EASILY_READ = 20 };

enum { LEFT_OUT = -1 };

/* The columns of a table of rows. */
enum { MOST_COLUMNS = 48, LONGEST_NAME = 64 };
struct row_columns {
    const struct mt_row_type *type;
    const struct mt_field *fields[MOST_COLUMNS];
    struct mt_column columns[MOST_COLUMNS];
    const char *spare[MOST_COLUMNS + 1];
};

/* Cells row by row, their texts one after another.
 * Invariants: starts[i] < text.length; widths[c] >= the width of every cell in column c; least[c] <= widths[c], or
 * LEAST_SHORTENED. */
struct mt_table {
    struct mt_screen screen;
    const struct mt_column *columns;
    size_t column_count;
    const char *const *spare; /* titles; NULL: none */
    struct row_columns *rows; /* for a table of rows; NULL: cells are added one by one */
    int *widths;              /* in characters */
    int *least;               /* widths to which columns can be shortened */
    int *shown;               /* widths on the screen: smaller on a narrow terminal, or LEFT_OUT */
    struct mt_text text;
    size_t *starts; /* of the cells in `text`; each ends with '\n', which does not occur in visible text */
    size_t cell_count;
    bool has_header; /* printed already, so the columns are fixed */
};

/* ---- the screen ---- */

void mt_screen_continue(const struct mt_screen *screen, const char *words, size_t indent)
{
    struct mt_text visible = {0}, lines = {0};
    mt_text_add_visible(&visible, words);
    mt_text_add_wrapped(&lines, mt_text_get(&visible), indent, (size_t)screen->width);
    fputs(mt_text_get(&lines), screen->file);
    mt_text_release(&visible);
    mt_text_release(&lines);
}

void mt_screen_line(const struct mt_screen *screen, struct mt_text *line)
{
    const char *words = mt_text_get(line);
    size_t gap = strspn(words, "\n"), indent = strspn(words + gap, " ");
    fprintf(screen->file, "%.*s", (int)(gap + indent), words);
    mt_screen_continue(screen, words + gap + indent, indent);
    mt_text_release(line);
}

void mt_screen_say(const struct mt_screen *screen, const char *format, ...)
{
    struct mt_text line = {0};
    va_list arguments;
    va_start(arguments, format);
    mt_text_add_list(&line, format, arguments);
    va_end(arguments);
    mt_screen_line(screen, &line);
}

void mt_screen_gap(const struct mt_screen *screen)
{
    putc('\n', screen->file);
}

/* ---- tables ---- */

static int width_of(const char *text, size_t bytes)
{
    return (int)mt_text_width(text, bytes);
}

static size_t cell_bytes(const struct mt_table *table, size_t cell)
{
    size_t end = cell + 1 < table->cell_count ? table->starts[cell + 1] : table->text.length;
    return end - table->starts[cell] - 1;
}

static void widen(int *width, int at_least)
{
    if (at_least > *width)
        *width = at_least;
}

/* True for a number or a date, which must not be shortened. */
static bool is_number(const char *text, size_t bytes)
{
    return strspn(text, "+-.0123456789e:TZ") >= bytes;
}

/* Widens a column for a text. Right-aligned columns contain numbers, which are never shortened. */
static void make_room(struct mt_table *table, size_t column, const char *text, size_t bytes)
{
    int width = width_of(text, bytes);
    widen(&table->widths[column], width);
    if (table->columns[column].align == MT_ALIGN_RIGHT || is_number(text, bytes))
        widen(&table->least[column], width);
}

struct mt_table *mt_table_of_cells(struct mt_screen screen, const struct mt_column *columns, size_t count)
{
    struct mt_table *table = mt_host_alloc(sizeof *table);
    *table = (struct mt_table){.screen = screen, .columns = columns, .column_count = count};
    table->widths = mt_host_alloc(count * sizeof *table->widths);
    table->least = mt_host_alloc(count * sizeof *table->least);
    table->shown = mt_host_alloc(count * sizeof *table->shown);
    for (size_t i = 0; i < count; i++) {
        make_room(table, i, columns[i].title, strlen(columns[i].title));
        table->least[i] = table->widths[i];
        if (columns[i].align == MT_ALIGN_LEFT)
            widen(&table->least[i], LEAST_SHORTENED);
    }
    return table;
}

/* Puts the fields in the blank-separated list `names` into `out`, or all fields if it is NULL; returns their number. */
static size_t find_fields(const struct mt_row_type *type, const char *names, const struct mt_field **out)
{
    size_t count = 0;
    for (; names == NULL && type->fields[count].name != NULL; count++) {
        assert(count < MOST_COLUMNS);
        out[count] = &type->fields[count];
    }
    if (names == NULL)
        return count;
    for (const char *name = names; *name != '\0'; name += strspn(name, " ")) {
        char one[LONGEST_NAME];
        size_t length = strcspn(name, " ");
        assert(length < sizeof one && count < MOST_COLUMNS);
        memcpy(one, name, length);
        one[length] = '\0';
        out[count++] = mt_row_field(type, one);
        name += length;
    }
    return count;
}

struct mt_table *mt_table_of_rows(struct mt_screen screen, const struct mt_row_type *type, const char *fields,
                                  const char *spare)
{
    struct row_columns *rows = mt_host_alloc(sizeof *rows);
    const struct mt_field *spared[MOST_COLUMNS];
    size_t count = find_fields(type, fields, rows->fields);
    size_t spared_count = spare != NULL ? find_fields(type, spare, spared) : 0;
    for (size_t i = 0; i < count; i++)
        rows->columns[i] = (struct mt_column){rows->fields[i]->heading,
                                              mt_field_is_number(rows->fields[i]) ? MT_ALIGN_RIGHT : MT_ALIGN_LEFT};
    for (size_t i = 0; i < spared_count; i++)
        rows->spare[i] = spared[i]->heading;
    rows->spare[spared_count] = NULL;
    rows->type = type;
    struct mt_table *table = mt_table_of_cells(screen, rows->columns, count);
    table->rows = rows;
    if (spared_count > 0)
        mt_table_spare(table, rows->spare);
    return table;
}

void mt_table_add_rows(struct mt_table *table, const void *rows, size_t count)
{
    struct mt_text cell = {0};
    assert(table->rows != NULL && table->cell_count % table->column_count == 0);
    for (size_t i = 0; i < count * table->column_count; i++) {
        const char *row = (const char *)rows + i / table->column_count * table->rows->type->bytes;
        cell.length = 0;
        mt_field_add_shown(table->rows->fields[i % table->column_count], row, &cell);
        mt_table_add(table, cell.length > 0 ? cell.data : "");
    }
    mt_text_release(&cell);
}

void mt_table_destroy(struct mt_table *table)
{
    if (table == NULL)
        return;
    mt_text_release(&table->text);
    free(table->starts);
    free(table->widths);
    free(table->least);
    free(table->shown);
    free(table->rows);
    free(table);
}

void mt_table_spare(struct mt_table *table, const char *const *titles)
{
    assert(table->cell_count == 0 && !table->has_header);
    table->spare = titles;
}

void mt_table_add(struct mt_table *table, const char *text)
{
    table->starts = mt_host_room(table->starts, table->cell_count, sizeof *table->starts);
    size_t cell = table->cell_count++;
    assert(cell == 0 || table->starts[cell - 1] < table->text.length);
    table->starts[cell] = table->text.length;
    mt_text_add_visible(&table->text, text);
    mt_text_add(&table->text, "\n");
    make_room(table, cell % table->column_count, table->text.data + table->starts[cell], cell_bytes(table, cell));
    if (table->cell_count == ROWS_AT_ONCE * table->column_count)
        mt_table_print(table);
}

void mt_table_add_number(struct mt_table *table, int64_t number)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%" PRId64, number);
    mt_table_add(table, text);
}

void mt_table_add_bytes(struct mt_table *table, uint64_t bytes)
{
    char text[MT_BYTES_TEXT];
    mt_table_add(table, mt_format_bytes(bytes, text));
}

void mt_table_add_share(struct mt_table *table, double part, double whole)
{
    char text[MT_BYTES_TEXT];
    mt_table_add(table, mt_format_share(part, whole, text));
}

/* Shows all columns in full, except those that are left out, and returns the table's width. */
static int show_whole(struct mt_table *table)
{
    int total = -COLUMN_GAP;
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->shown[i] == LEFT_OUT)
            continue;
        table->shown[i] = table->widths[i];
        total += table->widths[i] + COLUMN_GAP;
    }
    return total;
}

/* Returns the widest column that can be shortened and is wider than `readable`; column_count if there is none. */
static size_t find_widest(const struct mt_table *table, int readable)
{
    size_t widest = table->column_count;
    for (size_t i = 0; i < table->column_count; i++)
        if (table->shown[i] > table->least[i] && table->shown[i] > readable &&
            (widest == table->column_count || table->shown[i] > table->shown[widest]))
            widest = i;
    return widest;
}

/* Shortens the widest columns, to no less than `readable` characters. True if the table then fits. */
static bool shorten(struct mt_table *table, int columns, int readable)
{
    for (int total = show_whole(table); total > columns; total--) {
        size_t widest = find_widest(table, readable);
        if (widest == table->column_count)
            return false;
        table->shown[widest]--;
    }
    return true;
}

/* Returns the column with this title; it must exist. */
static size_t find_column(const struct mt_table *table, const char *title)
{
    size_t column = 0;
    while (strcmp(table->columns[column].title, title) != 0) {
        column++;
        assert(column < table->column_count);
    }
    return column;
}

/* Leaves out columns in the order of `spare` until the rest is readable. Then restores those that still fit, since
 * widths differ, starting with the last. */
static void leave_columns_out(struct mt_table *table, int columns)
{
    const char *const *next = table->spare;
    while (*next != NULL && !shorten(table, columns, EASILY_READ))
        table->shown[find_column(table, *next++)] = LEFT_OUT;
    while (next-- > table->spare) {
        size_t column = find_column(table, *next);
        table->shown[column] = 0;
        if (!shorten(table, columns, EASILY_READ))
            table->shown[column] = LEFT_OUT;
    }
}

/* Decides the widths to show. Later parts of a table use the columns of its header. */
static void fit(struct mt_table *table)
{
    int columns = table->screen.columns;
    if (columns > 0 && !table->has_header && table->spare != NULL)
        leave_columns_out(table, columns);
    if (columns > 0 && (shorten(table, columns, EASILY_READ) || shorten(table, columns, 0)))
        return;
    if (!table->has_header)
        memset(table->shown, 0, table->column_count * sizeof *table->shown);
    show_whole(table);
}

/* Calls the screen's note with the columns that are left out. */
static void note_what_is_left_out(const struct mt_table *table)
{
    struct mt_text titles = {0};
    for (size_t i = 0; i < table->column_count; i++)
        if (table->shown[i] == LEFT_OUT)
            mt_text_add(&titles, "%s%s", titles.length > 0 ? ", " : "", table->columns[i].title);
    if (titles.length > 0)
        table->screen.note(mt_text_get(&titles));
    mt_text_release(&titles);
}

/* The printed part of a cell: the whole text, or its beginning, an ellipsis and its end. Both ends are kept, since some
 * names have the same beginning, and others the same end. */
struct shown {
    size_t head_bytes, tail_bytes; /* no tail: the whole text */
    int width;
};

/* Returns the number of bytes in the first `width` characters of the text. */
static size_t bytes_of_width(const char *text, size_t bytes, int width)
{
    size_t end = 0;
    while (end < bytes && (mt_continues_character(text[end]) || width > 0))
        width -= !mt_continues_character(text[end++]);
    return end;
}

static struct shown shown_of(const struct mt_table *table, size_t column, const char *text, size_t bytes)
{
    int width = width_of(text, bytes), room = table->shown[column];
    if (width <= room || is_number(text, bytes))
        return (struct shown){.head_bytes = bytes, .width = width};
    int tail = (room - 1) / 2;
    return (struct shown){.head_bytes = bytes_of_width(text, bytes, room - 1 - tail),
                          .tail_bytes = bytes - bytes_of_width(text, bytes, width - tail),
                          .width = room};
}

/* Prints a cell after `pending` blanks, and returns the number of blanks after it. These are printed with the next
 * text, so that no line ends in blanks. */
static int print_cell(const struct mt_table *table, size_t column, const char *text, size_t bytes, int pending)
{
    FILE *out = table->screen.file;
    struct shown shown = shown_of(table, column, text, bytes);
    int padding = table->shown[column] > shown.width ? table->shown[column] - shown.width : 0;
    bool is_right = table->columns[column].align == MT_ALIGN_RIGHT;
    if (bytes == 0)
        return pending + padding;
    fprintf(out, "%*s%.*s", is_right ? pending + padding : pending, "", (int)shown.head_bytes, text);
    if (shown.tail_bytes > 0)
        fprintf(out, "…%.*s", (int)shown.tail_bytes, text + bytes - shown.tail_bytes);
    return is_right ? 0 : padding;
}

/* Prints a line of the cells from `first` on, or of the titles. */
enum { TITLES = -1 };
static void print_line(const struct mt_table *table, int64_t first)
{
    int pending = 0;
    bool is_first = true;
    for (size_t column = 0; column < table->column_count; column++) {
        if (table->shown[column] == LEFT_OUT)
            continue;
        size_t cell = (size_t)first + column;
        const char *title = table->columns[column].title;
        pending += is_first ? 0 : COLUMN_GAP;
        is_first = false;
        pending = first == TITLES ? print_cell(table, column, title, strlen(title), pending)
                                  : print_cell(table, column, table->text.data + table->starts[cell],
                                               cell_bytes(table, cell), pending);
    }
    putc('\n', table->screen.file);
}

static void print_header(struct mt_table *table)
{
    fputs(table->screen.is_styled ? "\033[1m" : "", table->screen.file);
    print_line(table, TITLES);
    fputs(table->screen.is_styled ? "\033[0m" : "", table->screen.file);
    table->has_header = true;
}

void mt_table_print(struct mt_table *table)
{
    assert(table->cell_count % table->column_count == 0);
    bool is_first = !table->has_header;
    fit(table);
    if (is_first)
        print_header(table);
    for (size_t cell = 0; cell < table->cell_count; cell += table->column_count)
        print_line(table, (int64_t)cell);
    table->cell_count = 0;
    table->text.length = 0;
    if (is_first)
        note_what_is_left_out(table);
}

void mt_screen_rows(const struct mt_screen *screen, const struct mt_row_type *type, const char *fields,
                    const char *spare, const void *rows, size_t count)
{
    struct mt_table *table = mt_table_of_rows(*screen, type, fields, spare);
    mt_table_add_rows(table, rows, count);
    mt_table_print(table);
    mt_table_destroy(table);
}
