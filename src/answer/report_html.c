/* The page as one HTML file: styles inside, no scripts, and a policy that lets nothing be fetched or run. */
#include "answer/escape.h"
#include "answer/report_parts.h"
#include "mt_report_css.h"

#include <inttypes.h>
#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

static const char *class_of(const struct mt_column *column)
{
    return column->align == MT_ALIGN_RIGHT ? " class=\"n\"" : "";
}

static void add_header(struct mt_text *out, const struct mt_page_grid *grid)
{
    mt_text_add(out, "<thead><tr>");
    for (size_t i = 0; i < grid->column_count; i++) {
        mt_text_add(out, "<th scope=\"col\"%s>", class_of(&grid->columns[i]));
        mt_text_add_markup(out, grid->columns[i].title);
        mt_text_add(out, "</th>");
    }
    mt_text_add(out, "</tr></thead>\n");
}

/* Sizes are rounded; pointing at one shows its bytes. */
static void add_cell(struct mt_text *out, const struct mt_cell *cell, const struct mt_column *column)
{
    mt_text_add(out, "<td%s", class_of(column));
    if (cell->kind == MT_CELL_BYTES)
        mt_text_add(out, " title=\"%" PRId64 " bytes\"", cell->bytes);
    mt_text_add(out, ">");
    mt_text_add_markup(out, cell->text);
    mt_text_add(out, "</td>");
}

static void add_table(struct mt_text *out, const struct mt_element *element)
{
    const struct mt_page_grid *grid = &element->grid;
    mt_text_add(out, "<div class=\"scroll\"><table>\n<caption>");
    mt_text_add_markup(out, element->text);
    mt_text_add(out, "</caption>\n");
    add_header(out, grid);
    mt_text_add(out, "<tbody>\n");
    for (size_t row = 0; row < mt_grid_rows(grid); row++) {
        mt_text_add(out, "<tr>");
        for (size_t column = 0; column < grid->column_count; column++)
            add_cell(out, &grid->cells[row * grid->column_count + column], &grid->columns[column]);
        mt_text_add(out, "</tr>\n");
    }
    mt_text_add(out, "</tbody></table></div>\n");
}

static void add_element(struct mt_text *out, const struct mt_element *element)
{
    if (element->kind == MT_ELEMENT_TABLE) {
        add_table(out, element);
        return;
    }
    mt_text_add(out, element->kind == MT_ELEMENT_HINT ? "<p class=\"hint\">" : "<p>");
    mt_text_add_markup(out, element->text);
    if (element->kind == MT_ELEMENT_HINT) {
        mt_text_add(out, ": <code>");
        mt_text_add_markup(out, element->command);
        mt_text_add(out, "</code>");
    }
    mt_text_add(out, "</p>\n");
}

static void add_links(struct mt_text *out, const struct mt_page *page)
{
    mt_text_add(out, "<nav>");
    for (size_t i = 1; i < page->section_count; i++) {
        mt_text_add(out, "<a href=\"#%s\">", page->sections[i].key);
        mt_text_add_markup(out, page->sections[i].title);
        mt_text_add(out, "</a> ");
    }
    mt_text_add(out, "</nav>\n");
}

static void add_section(struct mt_text *out, const struct mt_section *section)
{
    if (section->title != NULL) {
        mt_text_add(out, "<h2 id=\"%s\">", section->key);
        mt_text_add_markup(out, section->title);
        mt_text_add(out, "</h2>\n");
    }
    for (size_t i = 0; i < section->element_count; i++)
        add_element(out, &section->elements[i]);
}

void mt_page_write_html(const struct mt_page *page, struct mt_text *out)
{
    mt_text_add(out, "%s<title>", head);
    mt_text_add_markup(out, page->title);
    mt_text_add(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", mt_report_css);
    mt_text_add_markup(out, page->title);
    mt_text_add(out, "</h1>\n");
    for (size_t i = 0; i < page->section_count; i++) {
        add_section(out, &page->sections[i]);
        if (i == 0)
            add_links(out, page);
    }
    mt_text_add(out, "</main>\n</body>\n</html>\n");
}
