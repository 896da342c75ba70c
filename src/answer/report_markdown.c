/* The page as GitHub Markdown. Tables are also aligned in the source, so that it is readable without rendering. Charts
 * and curves are left out. */
#include "answer/escape.h"
#include "answer/report_page.h"
#include "answer/report_parts.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The rule under a header has at least three characters. */
enum { NARROWEST_COLUMN = 3 };

static int markdown_width(const char *text)
{
    struct mt_text escaped = {0};
    mt_text_add_markdown(&escaped, text);
    int width = (int)mt_text_width(mt_text_get(&escaped), escaped.length);
    mt_text_release(&escaped);
    return width;
}

static int column_width(const struct element *table, size_t column)
{
    int widest = NARROWEST_COLUMN;
    for (size_t row = 0; row <= mt_page_count_rows(table); row++) {
        int width = markdown_width(mt_page_text_at(table, row, column));
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void add_markdown_row(struct mt_text *out, const struct element *table, const int *widths, size_t row)
{
    for (size_t column = 0; column < table->column_count; column++) {
        const char *text = mt_page_text_at(table, row, column);
        if (mt_page_is_constant(table, column))
            continue;
        int padding = widths[column] - markdown_width(text);
        bool is_number = table->columns[column].is_number;
        mt_text_add(out, "| %*s", is_number ? padding : 0, "");
        mt_text_add_markdown(out, text);
        mt_text_add(out, "%*s ", is_number ? 0 : padding, "");
    }
    mt_text_add(out, "|\n");
}

/* Adds the rule under the header, which defines the alignment of columns. */
static void add_rule(struct mt_text *out, const struct element *table, const int *widths)
{
    for (size_t column = 0; column < table->column_count; column++) {
        bool is_number = table->columns[column].is_number;
        if (mt_page_is_constant(table, column))
            continue;
        mt_text_add(out, "| ");
        for (int i = 0; i < widths[column] - is_number; i++)
            mt_text_add(out, "-");
        mt_text_add(out, is_number ? ": " : " ");
    }
    mt_text_add(out, "|\n");
}

/* Adds a text between marks. */
static void add_marked(struct mt_text *out, const char *begin, const char *text, const char *end)
{
    mt_text_add(out, "%s", begin);
    mt_text_add_markdown(out, text);
    mt_text_add(out, "%s", end);
}

static void add_markdown_table(struct mt_text *out, const struct element *table)
{
    int *widths = mt_host_alloc(table->column_count * sizeof *widths);
    for (size_t column = 0; column < table->column_count; column++)
        widths[column] = column_width(table, column);
    struct mt_text title = {0};
    mt_page_add_title(&title, table);
    add_marked(out, "**", mt_text_get(&title), "**\n\n");
    mt_text_release(&title);
    add_markdown_row(out, table, widths, 0);
    add_rule(out, table, widths);
    for (size_t row = 1; row <= mt_page_count_rows(table); row++)
        add_markdown_row(out, table, widths, row);
    mt_text_add(out, "\n");
    free(widths);
}

/* Adds ": `command`", in more backticks than any run of backticks in the command. */
static void add_code(struct mt_text *out, const char *command)
{
    size_t ticks = 1;
    for (const char *at = strchr(command, '`'); at != NULL; at = strchr(at, '`')) {
        size_t row = strspn(at, "`");
        ticks = row >= ticks ? row + 1 : ticks;
        at += row;
    }
    const char *space = ticks > 1 ? " " : "";
    mt_text_add(out, ": ");
    for (size_t i = 0; i < ticks; i++)
        mt_text_add(out, "`");
    mt_text_add(out, "%s%s%s", space, command, space);
    for (size_t i = 0; i < ticks; i++)
        mt_text_add(out, "`");
}

static void add_markdown_element(struct mt_text *out, const struct element *element)
{
    if (element->kind == ELEMENT_CURVE)
        return;
    if (element->kind == ELEMENT_TABLE) {
        add_markdown_table(out, element);
        return;
    }
    if (element->text[0] != '\0' && strchr("#+-=", element->text[0]) != NULL) /* would begin a list or a heading */
        mt_text_add(out, "\\");
    mt_text_add_markdown(out, element->text);
    if (element->kind == ELEMENT_HINT)
        add_code(out, element->command);
    mt_text_add(out, "\n\n");
}

/* Adds the findings as a list. */
static void add_markdown_findings(struct mt_text *out, const struct mt_page *page)
{
    const char *begin = "## What was found\n\n";
    for (size_t i = 1; i < page->section_count; i++)
        for (size_t j = 0; j < page->sections[i].element_count; j++) {
            if (!page->sections[i].elements[j].is_found)
                continue;
            mt_text_add(out, "%s", begin);
            begin = "";
            add_marked(out, "- ", page->sections[i].elements[j].text, "\n");
        }
    mt_text_add(out, "%s", begin[0] == '\0' ? "\n" : "");
}

void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out)
{
    add_marked(out, "# ", page->title, "\n\n");
    add_markdown_findings(out, page);
    for (size_t i = 0; i < page->section_count; i++) {
        const struct section *section = &page->sections[i];
        if (section->title != NULL)
            add_marked(out, "## ", section->title, "\n\n");
        for (size_t j = 0; j < section->element_count; j++)
            add_markdown_element(out, &section->elements[j]);
    }
}
