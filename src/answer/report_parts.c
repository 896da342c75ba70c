/* Properties of a page's tables, for the writers of pages. */
#include "answer/report_parts.h"

#include <assert.h>
#include <string.h>

const char *mt_page_text_at(const struct element *table, size_t row, size_t column)
{
    assert(column < table->column_count && row * table->column_count <= table->cell_count);
    return row == 0 ? table->columns[column].title : table->cells[(row - 1) * table->column_count + column].text;
}

size_t mt_page_count_rows(const struct element *table)
{
    assert(table->kind == ELEMENT_TABLE && table->cell_count % table->column_count == 0);
    return table->cell_count / table->column_count;
}

const char *mt_page_link_of(const struct element *table, size_t row)
{
    return row <= table->link_count ? table->links[row - 1] : NULL;
}

bool mt_page_is_constant(const struct element *table, size_t column)
{
    size_t rows = mt_page_count_rows(table);
    if (table->keeps_columns)
        return false;
    for (size_t i = 0; i < table->bar_count; i++)
        if (table->bars[i] == column)
            return false;
    for (size_t row = 2; row <= rows; row++)
        if (strcmp(mt_page_text_at(table, row, column), mt_page_text_at(table, 1, column)) != 0)
            return false;
    return rows > 1 || (rows == 1 && json_is_null(table->cells[column].exact));
}

void mt_page_add_title(struct mt_text *out, const struct element *table)
{
    const char *before = "; in each row ";
    mt_text_add(out, "%s", table->text);
    for (size_t column = 0; column < table->column_count; column++) {
        bool is_known = mt_page_is_constant(table, column) && !json_is_null(table->cells[column].exact);
        if (!is_known || table->columns[column].title[0] == '\0' || table->cells[column].text[0] == '\0')
            continue;
        mt_text_add(out, "%s%s: %s", before, table->columns[column].title, mt_page_text_at(table, 1, column));
        before = "; ";
    }
}
