#include "answer/report_page.h"

#include "answer/report_parts.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_section(struct mt_page *page, char *key, char *title)
{
    page->sections = mt_host_room(page->sections, page->section_count, sizeof *page->sections);
    page->sections[page->section_count++] = (struct mt_section){.key = key, .title = title};
}

struct mt_page *mt_page_create(const char *title)
{
    struct mt_page *page = mt_host_alloc(sizeof *page);
    page->title = mt_host_strdup(title);
    add_section(page, NULL, NULL);
    return page;
}

static void grid_release(struct mt_page_grid *grid)
{
    for (size_t i = 0; i < grid->cell_count; i++)
        free(grid->cells[i].text);
    for (size_t i = 0; i < grid->column_count; i++)
        free((char *)grid->columns[i].title);
    free(grid->cells);
    free(grid->columns);
    free(grid->key);
}

static void section_release(struct mt_section *section)
{
    for (size_t i = 0; i < section->element_count; i++) {
        free(section->elements[i].text);
        free(section->elements[i].command);
        grid_release(&section->elements[i].grid);
    }
    free(section->elements);
    free(section->key);
    free(section->title);
}

void mt_page_destroy(struct mt_page *page)
{
    if (page == NULL)
        return;
    for (size_t i = 0; i < page->section_count; i++)
        section_release(&page->sections[i]);
    free(page->sections);
    free(page->title);
    free(page);
}

void mt_page_section(struct mt_page *page, const char *key, const char *title)
{
    add_section(page, mt_host_strdup(key), mt_host_strdup(title));
}

static struct mt_element *add_element(struct mt_page *page, mt_element_kind kind, char *text)
{
    struct mt_section *section = &page->sections[page->section_count - 1];
    section->elements = mt_host_room(section->elements, section->element_count, sizeof *section->elements);
    struct mt_element *element = &section->elements[section->element_count++];
    *element = (struct mt_element){.kind = kind, .text = text};
    return element;
}

void mt_page_say(struct mt_page *page, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        mt_host_exhausted("a sentence");
    va_end(arguments);
    add_element(page, MT_ELEMENT_SAY, text);
}

void mt_page_hint(struct mt_page *page, const char *command, const char *reason)
{
    add_element(page, MT_ELEMENT_HINT, mt_host_strdup(reason))->command = mt_host_strdup(command);
}

void mt_page_table(struct mt_page *page, const char *key, const char *title, const struct mt_column *columns,
                   size_t column_count)
{
    struct mt_page_grid *grid = &add_element(page, MT_ELEMENT_TABLE, mt_host_strdup(title))->grid;
    grid->key = mt_host_strdup(key);
    grid->columns = mt_host_alloc(column_count * sizeof *grid->columns);
    grid->column_count = column_count;
    for (size_t i = 0; i < column_count; i++)
        grid->columns[i] = (struct mt_column){mt_host_strdup(columns[i].title), columns[i].align};
}

static struct mt_page_grid *last_grid(const struct mt_page *page)
{
    const struct mt_section *section = &page->sections[page->section_count - 1];
    assert(section->element_count > 0 && section->elements[section->element_count - 1].kind == MT_ELEMENT_TABLE);
    return &section->elements[section->element_count - 1].grid;
}

static void add_cell(struct mt_page *page, struct mt_cell cell, const char *text)
{
    struct mt_page_grid *grid = last_grid(page);
    grid->cells = mt_host_room(grid->cells, grid->cell_count, sizeof *grid->cells);
    cell.text = mt_host_strdup(text);
    grid->cells[grid->cell_count++] = cell;
}

void mt_page_cell(struct mt_page *page, const char *text)
{
    add_cell(page, (struct mt_cell){.kind = MT_CELL_TEXT}, text);
}

void mt_page_cell_bytes(struct mt_page *page, uint64_t bytes)
{
    char text[MT_BYTES_TEXT];
    add_cell(page, (struct mt_cell){.kind = MT_CELL_BYTES, .bytes = (int64_t)bytes}, mt_format_bytes(bytes, text));
}

void mt_page_cell_difference(struct mt_page *page, int64_t bytes)
{
    char text[MT_BYTES_TEXT];
    add_cell(page, (struct mt_cell){.kind = MT_CELL_BYTES, .bytes = bytes}, mt_format_difference(bytes, text));
}

void mt_page_cell_count(struct mt_page *page, int64_t count)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%" PRId64, count);
    mt_page_cell_number(page, (double)count, text);
}

void mt_page_cell_number(struct mt_page *page, double number, const char *text)
{
    add_cell(page, (struct mt_cell){.kind = MT_CELL_NUMBER, .number = number}, text);
}

void mt_page_cell_absent(struct mt_page *page)
{
    add_cell(page, (struct mt_cell){.kind = MT_CELL_ABSENT}, "–");
}
