/* The page as one HTML file: styles inside, no scripts, and a policy that lets nothing be fetched or run. */
#include "cli/output/output.h"
#include "cli/report/report_parts.h"

#include <inttypes.h>
#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

static const char styles[] =
    "<style>\n"
    ":root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d6dbe0; --paper: #fff;\n"
    "  --band: #f6f8fa; --accent: #0b5cad; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa4ae; --line: #363d45;\n"
    "  --paper: #14171b; --band: #1c2026; --accent: #79b8ff; } }\n"
    "body { margin: 0; background: var(--paper); color: var(--ink);\n"
    "  font: 15px/1.55 system-ui, -apple-system, \"Segoe UI\", Roboto, sans-serif; }\n"
    "main { max-width: 78rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }\n"
    "h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 1rem; }\n"
    "h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }\n"
    "p { max-width: 48rem; margin: .75rem 0; }\n"
    "nav { margin: 1rem 0; } nav a { margin-right: 1.25rem; white-space: nowrap; }\n"
    "a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }\n"
    ".scroll { overflow-x: auto; margin: 1rem 0; }\n"
    "table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92em; }\n"
    "caption { text-align: left; font-weight: 600; white-space: nowrap; padding-bottom: .4rem; }\n"
    "th, td { padding: .28rem .6rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }\n"
    "th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; border-bottom-width: 2px; "
    "}\n"
    "th.n, td.n { text-align: right; }\n"
    "tbody tr:nth-child(even) { background: var(--band); }\n"
    "code { font: .92em ui-monospace, \"SF Mono\", Menlo, Consolas, monospace; background: var(--band);\n"
    "  border: 1px solid var(--line); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }\n"
    ".hint { color: var(--soft); }\n"
    "@media print { h2 { break-after: avoid; } tr { break-inside: avoid; } .scroll { overflow: visible; } }\n"
    "</style>\n";

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
    mt_text_add(out, "</title>\n%s</head>\n<body>\n<main>\n<h1>", styles);
    mt_text_add_markup(out, page->title);
    mt_text_add(out, "</h1>\n");
    for (size_t i = 0; i < page->section_count; i++) {
        add_section(out, &page->sections[i]);
        if (i == 0)
            add_links(out, page);
    }
    mt_text_add(out, "</main>\n</body>\n</html>\n");
}
