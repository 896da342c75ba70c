/* Charts of tables as SVG: each row of the table has a label, and a bar for each charted column with a length
 * proportional to the number. All bars of a chart share one scale and start at zero.
 *
 *   label ──▶│███████████████ 63.36 GiB
 *            │██████████████▏ 65.34 GiB */
#include "answer/escape.h"
#include "answer/report_parts.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Units of the picture, which are pixels at its full width. */
enum { WIDTH = 760, VALUE = 96, BAR = 13, BETWEEN = 9, MOST_ROWS = 100 };

/* The room of labels: wide enough for the longest, within bounds. Labels that are longer are shortened. */
enum { LEAST_LABEL = 270, MOST_LABEL = 420, LABEL_MARGIN = 8 };
static const double character_width = 6.6; /* of most letters, by a little more */

static const char *const classes[MT_PAGE_MOST_BARS] = {"a", "b", "c"};

/* Returns the number in a cell; NAN if there is none. */
static double number_at(const struct element *table, size_t row, size_t column)
{
    const json_t *exact = table->cells[(row - 1) * table->column_count + column].exact;
    return json_is_number(exact) ? json_number_value(exact) : (double)NAN;
}

/* The scale of a chart, and where its bars begin. Invariant: low <= 0 <= high. */
struct scale {
    double low, high, left;
};

static double place_of(struct scale scale, double number)
{
    return scale.left + (number - scale.low) / (scale.high - scale.low) * (WIDTH - scale.left - VALUE);
}

static struct scale scale_of(const struct element *table)
{
    struct scale scale = {0};
    for (size_t row = 1; row <= table->chart_rows; row++)
        for (size_t i = 0; i < table->bar_count; i++) {
            scale.low = fmin(scale.low, number_at(table, row, table->bars[i]));
            scale.high = fmax(scale.high, number_at(table, row, table->bars[i]));
        }
    return scale;
}

/* True if a column may label rows: it is left of the charted columns or, if there is no such column, has text. */
static bool may_name(const struct element *table, size_t column)
{
    if (mt_page_is_constant(table, column))
        return false;
    return column < table->bars[0] || (table->bars[0] == 0 && !table->columns[column].is_number);
}

/* True if two rows are equal in all label columns before `end`. */
static bool is_alike(const struct element *table, size_t row, size_t other, size_t end)
{
    for (size_t column = 0; column < end; column++)
        if (may_name(table, column) &&
            strcmp(mt_page_text_at(table, row, column), mt_page_text_at(table, other, column)) != 0)
            return false;
    return true;
}

/* True if a column distinguishes rows that are equal in the label columns before it. Other columns would only make
 * labels longer. */
static bool is_name(const struct element *table, size_t column)
{
    if (!may_name(table, column))
        return false;
    for (size_t row = 2; row <= table->chart_rows; row++)
        for (size_t other = 1; other < row; other++)
            if (is_alike(table, row, other, column) && !is_alike(table, row, other, column + 1))
                return true;
    return table->chart_rows == 1;
}

/* Returns the number of characters. */
static size_t count_characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += !mt_continues_character(*text);
    return count;
}

/* Returns the bytes of the first `count` characters. */
static size_t bytes_of_characters(const char *text, size_t count)
{
    size_t end = 0;
    for (; text[end] != '\0'; end++)
        if (!mt_continues_character(text[end]) && count-- == 0)
            break;
    return end;
}

/* Adds a text of at most so many characters: of a longer one its beginning, an ellipsis and its end, which tells
 * modules apart. */
static void add_shortened(struct mt_text *out, const char *text, size_t most)
{
    size_t count = count_characters(text), tail = (most - 1) / 2;
    struct mt_text shown = {0};
    if (count <= most)
        mt_text_add(&shown, "%s", text);
    else
        mt_text_add(&shown, "%.*s…%s", (int)bytes_of_characters(text, most - 1 - tail), text,
                    text + bytes_of_characters(text, count - tail));
    mt_text_add_markup(out, mt_text_get(&shown));
    mt_text_release(&shown);
}

static void format_label(const struct element *table, const bool *names, size_t row, struct mt_text *out)
{
    for (size_t column = 0; column < table->column_count; column++)
        if (names[column])
            mt_text_add(out, "%s%s%s%s", out->length > 0 ? ", " : "",
                        table->columns[column].is_number ? table->columns[column].title : "",
                        table->columns[column].is_number ? " " : "", mt_page_text_at(table, row, column));
}

/* Returns the room of the longest label. */
static double room_of_labels(const struct element *table, const bool *names)
{
    double room = LEAST_LABEL;
    for (size_t row = 1; row <= table->chart_rows; row++) {
        struct mt_text label = {0};
        format_label(table, names, row, &label);
        room = fmax(room, (double)count_characters(mt_text_get(&label)) * character_width + 2 * LABEL_MARGIN);
        mt_text_release(&label);
    }
    return fmin(room, MOST_LABEL);
}

/* Adds a label, which a browser shows in full under the pointer. */
static void add_label(struct mt_text *out, const struct element *table, const bool *names, size_t row,
                      struct scale scale, double y)
{
    struct mt_text label = {0};
    format_label(table, names, row, &label);
    mt_text_add(out, "<text class=\"l\" x=\"%.0f\" y=\"%.1f\"><title>", scale.left - LABEL_MARGIN, y);
    mt_text_add_markup(out, mt_text_get(&label));
    mt_text_add(out, "</title>");
    add_shortened(out, mt_text_get(&label), (size_t)((scale.left - 2 * LABEL_MARGIN) / character_width));
    mt_text_add(out, "</text>");
    mt_text_release(&label);
}

/* Adds a bar with its number at the end; for a cell without a number, its text. */
static void add_bar(struct mt_text *out, const struct element *table, size_t row, size_t i, struct scale scale,
                    double y)
{
    double number = number_at(table, row, table->bars[i]), end = place_of(scale, fmax(number, 0));
    if (!isnan(number))
        mt_text_add(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", classes[i],
                    place_of(scale, fmin(number, 0)), y, fmax(1, end - place_of(scale, fmin(number, 0))), BAR - 2);
    mt_text_add(out, "<text x=\"%.1f\" y=\"%.1f\">", (isnan(number) ? place_of(scale, 0) : end) + 5, y + BAR - 4);
    mt_text_add_markup(out, mt_page_text_at(table, row, table->bars[i]));
    mt_text_add(out, "</text>");
}

static void add_bars(struct mt_text *out, const struct element *table, const bool *names, size_t row,
                     struct scale scale, double y)
{
    const char *link = mt_page_link_of(table, row);
    if (link != NULL) {
        mt_text_add(out, "<a href=\"");
        mt_text_add_markup(out, link);
        mt_text_add(out, "\">");
    }
    add_label(out, table, names, row, scale, y + (double)table->bar_count * BAR / 2 + 4);
    for (size_t i = 0; i < table->bar_count; i++)
        add_bar(out, table, row, i, scale, y + (double)i * BAR);
    mt_text_add(out, "%s\n", link != NULL ? "</a>" : "");
}

/* Adds a legend of the colours of columns. */
static void add_key(struct mt_text *out, const struct element *table)
{
    mt_text_add(out, "<figcaption>");
    for (size_t i = 0; i < table->bar_count; i++) {
        mt_text_add(out, "<i class=\"%s\"></i>", classes[i]);
        mt_text_add_markup(out, table->columns[table->bars[i]].title);
        mt_text_add(out, " ");
    }
    mt_text_add(out, "</figcaption>");
}

void mt_page_add_chart(struct mt_text *out, const struct element *table)
{
    struct scale scale = scale_of(table);
    assert(table->chart_rows <= mt_page_count_rows(table));
    if (table->bar_count == 0 || table->chart_rows > MOST_ROWS || scale.high <= scale.low)
        return;
    bool *names = mt_host_alloc(table->column_count * sizeof *names);
    for (size_t column = 0; column < table->column_count; column++)
        names[column] = is_name(table, column);
    scale.left = room_of_labels(table, names);
    double pitch = (double)table->bar_count * BAR + BETWEEN;
    mt_text_add(out, "<figure>");
    add_key(out, table);
    /* Screen readers use the table, which also has the links. */
    mt_text_add(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"%s\" aria-label=\"Chart: ", WIDTH,
                (double)table->chart_rows * pitch, table->link_count > 0 ? "group" : "img");
    mt_text_add_markup(out, table->text);
    mt_text_add(out, "\">\n");
    for (size_t row = 1; row <= table->chart_rows; row++)
        add_bars(out, table, names, row, scale, (double)(row - 1) * pitch + BETWEEN / 2.0);
    mt_text_add(out, "<path d=\"M%.1f 0V%.0f\"/></svg></figure>\n", place_of(scale, 0),
                (double)table->chart_rows * pitch);
    free(names);
}

/* ---- curves ---- */

enum { CURVE_HEIGHT = 150, CURVE_MARGIN = 18 }; /* text above and below is in the margin */

void mt_page_add_curve(struct mt_text *out, const struct element *curve)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < curve->curve_count; i++)
        highest = curve->curve[i] > highest ? curve->curve[i] : highest;
    if (highest == 0)
        return;
    mt_text_add(out, "<figure><figcaption>");
    mt_text_add_markup(out, curve->text);
    mt_text_add(out, "</figcaption><svg viewBox=\"0 %d %d %d\" role=\"img\" aria-label=\"", -CURVE_MARGIN, WIDTH,
                CURVE_HEIGHT + 2 * CURVE_MARGIN);
    mt_text_add_markup(out, curve->text);
    mt_text_add(out, "\">\n<path class=\"area\" d=\"M0 %d", CURVE_HEIGHT);
    for (size_t i = 0; i < curve->curve_count; i++)
        mt_text_add(out, "V%.1fH%.1f", CURVE_HEIGHT * (1 - (double)curve->curve[i] / (double)highest),
                    WIDTH * (double)(i + 1) / (double)curve->curve_count);
    mt_text_add(out, "V%dZ\"/><path d=\"M0 0H%d\"/><text y=\"-5\">%s</text><text y=\"%d\">0</text>", CURVE_HEIGHT,
                WIDTH, MT_SIZE(highest), CURVE_HEIGHT + 14);
    mt_text_add(out, "<text class=\"l\" x=\"%d\" y=\"%d\">", WIDTH, CURVE_HEIGHT + 14);
    mt_text_add_markup(out, curve->end);
    mt_text_add(out, "</text></svg></figure>\n");
}
