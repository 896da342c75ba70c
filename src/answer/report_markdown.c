/* The page as GitHub's Markdown. Tables are aligned in the source too, so that it reads well as it is. */
#include "answer/escape.h"
#include "answer/report_parts.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A table's texts, escaped, the header first, and what each column takes. */
struct layout {
    const struct mt_page_grid *grid;
    char **texts; /* (rows + 1) * column_count */
    size_t count;
    int *widths;
};

static int width_of(const char *text)
{
    return (int)mt_text_width(text, strlen(text));
}

static char *escaped_copy(const char *text)
{
    struct mt_text escaped = {0};
    mt_text_add_markdown(&escaped, text);
    return escaped.data != NULL ? escaped.data : mt_host_strdup("");
}

static struct layout layout_create(const struct mt_page_grid *grid)
{
    struct layout layout = {.grid = grid, .count = grid->column_count + grid->cell_count};
    layout.texts = mt_host_alloc(layout.count * sizeof *layout.texts);
    layout.widths = mt_host_alloc(grid->column_count * sizeof *layout.widths);
    for (size_t i = 0; i < layout.count; i++) {
        bool is_header = i < grid->column_count;
        layout.texts[i] = escaped_copy(is_header ? grid->columns[i].title : grid->cells[i - grid->column_count].text);
        int width = width_of(layout.texts[i]), *column = &layout.widths[i % grid->column_count];
        *column = width > *column ? width : *column;
    }
    for (size_t i = 0; i < grid->column_count; i++)
        layout.widths[i] = layout.widths[i] < 3 ? 3 : layout.widths[i];
    return layout;
}

static void layout_release(struct layout *layout)
{
    for (size_t i = 0; i < layout->count; i++)
        free(layout->texts[i]);
    free(layout->texts);
    free(layout->widths);
}

static void add_row(struct mt_text *out, const struct layout *layout, size_t row)
{
    const struct mt_page_grid *grid = layout->grid;
    for (size_t column = 0; column < grid->column_count; column++) {
        const char *text = layout->texts[row * grid->column_count + column];
        int padding = layout->widths[column] - width_of(text);
        bool right = grid->columns[column].align == MT_ALIGN_RIGHT;
        mt_text_add(out, "| %*s%s%*s ", right ? padding : 0, "", text, right ? 0 : padding, "");
    }
    mt_text_add(out, "|\n");
}

/* The line under the header, which says how columns are aligned. */
static void add_rule(struct mt_text *out, const struct layout *layout)
{
    for (size_t column = 0; column < layout->grid->column_count; column++) {
        bool right = layout->grid->columns[column].align == MT_ALIGN_RIGHT;
        mt_text_add(out, "| ");
        for (int i = 0; i < layout->widths[column] - right; i++)
            mt_text_add(out, "-");
        mt_text_add(out, right ? ": " : " ");
    }
    mt_text_add(out, "|\n");
}

static void add_table(struct mt_text *out, const struct mt_element *element)
{
    struct layout layout = layout_create(&element->grid);
    mt_text_add(out, "**");
    mt_text_add_markdown(out, element->text);
    mt_text_add(out, "**\n\n");
    add_row(out, &layout, 0);
    add_rule(out, &layout);
    for (size_t row = 1; row <= mt_grid_rows(&element->grid); row++)
        add_row(out, &layout, row);
    mt_text_add(out, "\n");
    layout_release(&layout);
}

/* ": `command`", between more backticks than the command has in a row. */
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

static void add_element(struct mt_text *out, const struct mt_element *element)
{
    if (element->kind == MT_ELEMENT_TABLE) {
        add_table(out, element);
        return;
    }
    if (element->text[0] != '\0' && strchr("#+-=", element->text[0]) != NULL) /* it would begin a list or a heading */
        mt_text_add(out, "\\");
    mt_text_add_markdown(out, element->text);
    if (element->kind == MT_ELEMENT_HINT)
        add_code(out, element->command);
    mt_text_add(out, "\n\n");
}

static void add_heading(struct mt_text *out, const char *marks, const char *title)
{
    mt_text_add(out, "%s ", marks);
    mt_text_add_markdown(out, title);
    mt_text_add(out, "\n\n");
}

void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out)
{
    add_heading(out, "#", page->title);
    for (size_t i = 0; i < page->section_count; i++) {
        const struct mt_section *section = &page->sections[i];
        if (section->title != NULL)
            add_heading(out, "##", section->title);
        for (size_t j = 0; j < section->element_count; j++)
            add_element(out, &section->elements[j]);
    }
}
