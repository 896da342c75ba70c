/* The page as JSON: what is shown, and beside it the exact number. */
#include "answer/escape.h"
#include "answer/report_parts.h"

static json_t *cell_json(const struct mt_cell *cell)
{
    switch (cell->kind) {
    case MT_CELL_BYTES:
        return json_pack("{s:o, s:I}", "text", mt_json_text(cell->text), "bytes", (json_int_t)cell->bytes);
    case MT_CELL_NUMBER:
        return json_pack("{s:o, s:o}", "text", mt_json_text(cell->text), "value", mt_json_number(cell->number));
    case MT_CELL_TEXT:
        return json_pack("{s:o}", "text", mt_json_text(cell->text));
    default:
        return json_null();
    }
}

static json_t *row_json(const struct mt_page_grid *grid, size_t row)
{
    json_t *cells = json_array();
    for (size_t column = 0; column < grid->column_count; column++)
        json_array_append_new(cells, cell_json(&grid->cells[row * grid->column_count + column]));
    return cells;
}

static json_t *table_json(const struct mt_element *element)
{
    const struct mt_page_grid *grid = &element->grid;
    json_t *columns = json_array(), *rows = json_array();
    for (size_t column = 0; column < grid->column_count; column++)
        json_array_append_new(columns, mt_json_text(grid->columns[column].title));
    for (size_t row = 0; row < mt_grid_rows(grid); row++)
        json_array_append_new(rows, row_json(grid, row));
    return json_pack("{s:s, s:o, s:o, s:o}", "key", grid->key, "title", mt_json_text(element->text), "columns", columns,
                     "rows", rows);
}

/* Adds key, title, tables, text and hints. */
static json_t *section_json(const struct mt_section *section)
{
    json_t *tables = json_array(), *text = json_array(), *hints = json_array();
    for (size_t i = 0; i < section->element_count; i++) {
        const struct mt_element *element = &section->elements[i];
        if (element->kind == MT_ELEMENT_TABLE)
            json_array_append_new(tables, table_json(element));
        else if (element->kind == MT_ELEMENT_SAY)
            json_array_append_new(text, mt_json_text(element->text));
        else
            json_array_append_new(hints, json_pack("{s:o, s:o}", "reason", mt_json_text(element->text), "command",
                                                   mt_json_text(element->command)));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "key", mt_json_text(section->key), "title",
                     mt_json_text(section->title), "tables", tables, "text", text, "hints", hints);
}

json_t *mt_page_json(const struct mt_page *page)
{
    json_t *sections = json_array();
    for (size_t i = 1; i < page->section_count; i++)
        json_array_append_new(sections, section_json(&page->sections[i]));
    json_t *introduction = section_json(&page->sections[0]);
    json_t *answer =
        json_pack("{s:s, s:o, s:O, s:o}", "schema", "memtrace.report/1", "title", mt_json_text(page->title),
                  "introduction", json_object_get(introduction, "text"), "sections", sections);
    json_decref(introduction);
    return answer;
}
