#include "cli/output/table.h"

#include "base/memory.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 1000, COLUMN_GAP = 2, LEAST_SHORTENED = 10 };

/* Cells row by row, their texts one after another.
 * Invariants: starts[i] < text.length; widths[c] >= the width of every cell of column c
 * that was added. */
struct mt_table {
    const struct mt_column *columns;
    size_t column_count;
    int *widths; /* in characters */
    int *shown;  /* what of it is shown: less where a terminal is too narrow */
    struct mt_text text;
    size_t *starts; /* of the cells in `text`; each ends with '\n', which no visible text has */
    size_t cell_count;
    bool has_header; /* printed already */
};

static int width_of(const char *text, size_t bytes)
{
    return (int)mt_text_width(text, bytes);
}

static size_t cell_bytes(const struct mt_table *table, size_t cell)
{
    size_t end = cell + 1 < table->cell_count ? table->starts[cell + 1] : table->text.length;
    return end - table->starts[cell] - 1;
}

static void widen(struct mt_table *table, size_t column, int width)
{
    if (width > table->widths[column])
        table->widths[column] = width;
}

struct mt_table *mt_table_create(const struct mt_column *columns, size_t count)
{
    struct mt_table *table = mt_host_alloc(sizeof *table);
    *table = (struct mt_table){.columns = columns, .column_count = count};
    table->widths = mt_host_alloc(count * sizeof *table->widths);
    table->shown = mt_host_alloc(count * sizeof *table->shown);
    for (size_t i = 0; i < count; i++)
        widen(table, i, width_of(columns[i].title, strlen(columns[i].title)));
    return table;
}

void mt_table_destroy(struct mt_table *table)
{
    if (table == NULL)
        return;
    mt_text_release(&table->text);
    free(table->starts);
    free(table->widths);
    free(table->shown);
    free(table);
}

void mt_table_add(struct mt_table *table, const char *text)
{
    table->starts = mt_host_room(table->starts, table->cell_count, sizeof *table->starts);
    size_t cell = table->cell_count++;
    table->starts[cell] = table->text.length;
    mt_text_add_visible(&table->text, text);
    mt_text_add(&table->text, "\n");
    int width = width_of(table->text.data + table->starts[cell], cell_bytes(table, cell));
    widen(table, cell % table->column_count, width);
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

/* How narrow a column may become: what is right-aligned is numbers, and not shortened at all. */
static int least_width(const struct mt_table *table, size_t column)
{
    const char *title = table->columns[column].title;
    int least = width_of(title, strlen(title));
    if (table->columns[column].align == MT_ALIGN_RIGHT)
        return table->widths[column];
    return least > LEAST_SHORTENED ? least : LEAST_SHORTENED;
}

/* The column that is widest beyond its least width; column_count: there is none. */
static size_t find_widest(const struct mt_table *table)
{
    size_t widest = table->column_count;
    for (size_t i = 0; i < table->column_count; i++)
        if (table->shown[i] > least_width(table, i) &&
            (widest == table->column_count || table->shown[i] > table->shown[widest]))
            widest = i;
    return widest;
}

/* On a terminal that is too narrow the widest columns of text are shortened. Where that is not enough lines break anyway,
 * and all is shown. */
static void fit(struct mt_table *table)
{
    int columns = mt_output_columns(), total = -COLUMN_GAP;
    for (size_t i = 0; i < table->column_count; i++) {
        table->shown[i] = table->widths[i];
        total += table->widths[i] + COLUMN_GAP;
    }
    while (columns > 0 && total > columns) {
        size_t widest = find_widest(table);
        if (widest == table->column_count) {
            memcpy(table->shown, table->widths, table->column_count * sizeof *table->shown);
            return;
        }
        table->shown[widest]--;
        total--;
    }
}

/* Whether it is a number or a date, and would mean something else if it were shortened. */
static bool is_number(const char *text, size_t bytes)
{
    return strspn(text, "+-.0123456789e:TZ") >= bytes;
}

/* What is printed of a cell: all, or its beginning and its end with an ellipsis in between, since names begin alike in one
 * table and end alike in another. */
struct shown {
    size_t head_bytes, tail_bytes; /* no tail: all */
    int width;
};

/* How many bytes of `text` its first characters take, as many as a column of `width` has room for. */
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

/* Blanks wait for text after them, so that no line ends in some: `pending` stand before this cell. Returns how many stand
 * before the next one. */
static int print_cell(const struct mt_table *table, size_t column, const char *text, size_t bytes, int pending)
{
    struct shown shown = shown_of(table, column, text, bytes);
    int padding = table->shown[column] > shown.width ? table->shown[column] - shown.width : 0;
    bool is_right = table->columns[column].align == MT_ALIGN_RIGHT;
    if (bytes == 0 || is_right)
        pending += padding;
    if (bytes > 0) {
        printf("%*s%.*s", pending, "", (int)shown.head_bytes, text);
        if (shown.tail_bytes > 0)
            printf("…%.*s", (int)shown.tail_bytes, text + bytes - shown.tail_bytes);
        pending = is_right ? 0 : padding;
    }
    if (column + 1 < table->column_count)
        return pending + COLUMN_GAP;
    putchar('\n');
    return 0;
}

static void print_header(struct mt_table *table)
{
    bool styled = mt_output_is_styled();
    fputs(styled ? "\033[1m" : "", stdout);
    int pending = 0;
    for (size_t i = 0; i < table->column_count; i++)
        pending = print_cell(table, i, table->columns[i].title, strlen(table->columns[i].title), pending);
    fputs(styled ? "\033[0m" : "", stdout);
    table->has_header = true;
}

void mt_table_print(struct mt_table *table)
{
    fit(table);
    if (!table->has_header)
        print_header(table);
    int pending = 0;
    for (size_t cell = 0; cell < table->cell_count; cell++)
        pending = print_cell(table, cell % table->column_count, table->text.data + table->starts[cell],
                             cell_bytes(table, cell), pending);
    table->cell_count = 0;
    table->text.length = 0;
}
