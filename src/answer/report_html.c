/* The page as HTML: one file with inline styles, no scripts, and a security policy that forbids loading and running
 * anything. */
#include "answer/escape.h"
#include "answer/report_page.h"
#include "answer/report_parts.h"
#include "mt_report_css.h"

static const char html_head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

/* Adds "<p>text</p>\n", with any tags. */
static void add_html(struct mt_text *out, const char *begin, const char *text, const char *end)
{
    mt_text_add(out, "%s", begin);
    mt_text_add_markup(out, text);
    mt_text_add(out, "%s", end);
}

static const char *class_of(const struct column *column)
{
    return column->is_number ? " class=\"n\"" : "";
}

/* Sizes are rounded; hovering over one shows its bytes. */
static void add_html_row(struct mt_text *out, const struct element *table, size_t row)
{
    const char *link = mt_page_link_of(table, row + 1);
    mt_text_add(out, "<tr>");
    for (size_t column = 0; column < table->column_count; column++) {
        const json_t *exact = table->cells[row * table->column_count + column].exact;
        if (mt_page_is_constant(table, column))
            continue;
        mt_text_add(out, "<td%s", class_of(&table->columns[column]));
        if (json_is_integer(exact))
            mt_text_add(out, " title=\"%" JSON_INTEGER_FORMAT " bytes\"", json_integer_value(exact));
        mt_text_add(out, ">");
        if (link != NULL)
            add_html(out, "<a href=\"", link, "\">");
        add_html(out, "", mt_page_text_at(table, row + 1, column), link != NULL ? "</a></td>" : "</td>");
        link = NULL; /* only the first cell has it */
    }
    mt_text_add(out, "</tr>\n");
}

static void add_html_table(struct mt_text *out, const struct element *table)
{
    struct mt_text title = {0};
    mt_page_add_title(&title, table);
    add_html(out, "<div class=\"scroll\"><table>\n<caption>", mt_text_get(&title), "</caption>\n<thead><tr>");
    mt_text_release(&title);
    for (size_t i = 0; i < table->column_count; i++) {
        if (mt_page_is_constant(table, i))
            continue;
        mt_text_add(out, "<th scope=\"col\"%s", class_of(&table->columns[i]));
        add_html(out, ">", table->columns[i].title, "</th>");
    }
    mt_text_add(out, "</tr></thead>\n<tbody>\n");
    for (size_t row = 0; row < mt_page_count_rows(table); row++)
        add_html_row(out, table, row);
    mt_text_add(out, "</tbody></table></div>\n");
    mt_page_add_chart(out, table);
}

static void add_html_element(struct mt_text *out, const struct element *element)
{
    if (element->kind == ELEMENT_TABLE) {
        add_html_table(out, element);
    } else if (element->kind == ELEMENT_CURVE) {
        mt_page_add_curve(out, element);
    } else if (element->kind == ELEMENT_SAY) {
        add_html(out, "<p>", element->text, "</p>\n");
    } else {
        add_html(out, "<p class=\"hint\">", element->text, ": <code>");
        add_html(out, "", element->command, "</code></p>\n");
    }
}

/* Adds the table of contents, which stays visible. */
static void add_html_links(struct mt_text *out, const struct mt_page *page)
{
    mt_text_add(out, "<nav aria-label=\"Contents\">");
    for (size_t i = 1; i < page->section_count; i++) {
        mt_text_add(out, "<a href=\"#%s", page->sections[i].key);
        add_html(out, "\">", page->sections[i].title, "</a> ");
    }
    mt_text_add(out, "</nav>\n");
}

/* Adds the findings, each with a link to its section. */
static void add_html_findings(struct mt_text *out, const struct mt_page *page)
{
    const char *begin = "<h2 id=\"found\">What was found</h2>\n<ul>\n";
    for (size_t i = 1; i < page->section_count; i++)
        for (size_t j = 0; j < page->sections[i].element_count; j++) {
            if (!page->sections[i].elements[j].is_found)
                continue;
            mt_text_add(out, "%s", begin);
            begin = "";
            add_html(out, "<li>", page->sections[i].elements[j].text, " ");
            mt_text_add(out, "<a href=\"#%s", page->sections[i].key);
            add_html(out, "\">", page->sections[i].title, "</a></li>\n");
        }
    mt_text_add(out, "%s", begin[0] == '\0' ? "</ul>\n" : "");
}

void mt_page_write_html(const struct mt_page *page, struct mt_text *out)
{
    mt_text_add(out, "%s", html_head);
    add_html(out, "<title>", page->title, "</title>\n<style>\n");
    mt_text_add(out, "%s</style>\n</head>\n<body>\n", mt_report_css);
    add_html_links(out, page);
    add_html(out, "<main>\n<h1>", page->title, "</h1>\n");
    add_html_findings(out, page);
    for (size_t i = 0; i < page->section_count; i++) {
        const struct section *section = &page->sections[i];
        if (section->title != NULL) {
            mt_text_add(out, "<h2 id=\"%s", section->key);
            add_html(out, "\">", section->title, "</h2>\n");
        }
        for (size_t j = 0; j < section->element_count; j++)
            add_html_element(out, &section->elements[j]);
    }
    mt_text_add(out, "</main>\n</body>\n</html>\n");
}
