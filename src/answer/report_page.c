/* The page and its JSON. */
#include "answer/report_page.h"

#include "answer/report_parts.h"
#include "base/memory.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_section(struct mt_page *page, char *key, char *title)
{
    page->sections = mt_host_room(page->sections, page->section_count, sizeof *page->sections);
    page->sections[page->section_count++] = (struct section){.key = key, .title = title};
}

struct mt_page *mt_page_create(const char *title)
{
    struct mt_page *page = mt_host_alloc(sizeof *page);
    page->title = mt_host_strdup(title);
    add_section(page, NULL, NULL);
    return page;
}

static void element_release(struct element *element)
{
    for (size_t i = 0; i < element->cell_count; i++) {
        free(element->cells[i].text);
        json_decref(element->cells[i].exact);
    }
    for (size_t i = 0; i < element->column_count; i++)
        free(element->columns[i].title);
    for (size_t i = 0; i < element->link_count; i++)
        free(element->links[i]);
    free(element->links);
    free(element->cells);
    free(element->columns);
    free(element->key);
    free(element->curve);
    free(element->end);
    free(element->text);
    free(element->command);
}

void mt_page_destroy(struct mt_page *page)
{
    if (page == NULL)
        return;
    for (size_t i = 0; i < page->section_count; i++) {
        struct section *section = &page->sections[i];
        for (size_t j = 0; j < section->element_count; j++)
            element_release(&section->elements[j]);
        free(section->elements);
        free(section->key);
        free(section->title);
    }
    free(page->sections);
    free(page->title);
    free(page);
}

/* Returns a copy of a key. It has only letters, digits and dashes, so writers need not escape it. */
static char *key_copy(const char *key)
{
    assert(key[0] != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0');
    return mt_host_strdup(key);
}

void mt_page_section(struct mt_page *page, const char *key, const char *title)
{
    assert(title[0] != '\0');
    add_section(page, key_copy(key), mt_host_strdup(title));
}

/* Adds an element to the last section. Takes the text. */
static struct element *add_element(struct mt_page *page, element_kind kind, char *text)
{
    assert(page->section_count > 0);
    struct section *section = &page->sections[page->section_count - 1];
    section->elements = mt_host_room(section->elements, section->element_count, sizeof *section->elements);
    struct element *element = &section->elements[section->element_count++];
    *element = (struct element){.kind = kind, .text = text};
    return element;
}

static char *sentence_of(const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        mt_host_exhausted("a sentence");
    return text;
}

void mt_page_say(struct mt_page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_element(page, ELEMENT_SAY, sentence_of(format, arguments));
    va_end(arguments);
}

void mt_page_find(struct mt_page *page, const char *format, ...)
{
    va_list arguments;
    assert(page->section_count > 1);
    va_start(arguments, format);
    add_element(page, ELEMENT_SAY, sentence_of(format, arguments))->is_found = true;
    va_end(arguments);
}

void mt_page_curve(struct mt_page *page, const char *title, const uint64_t *bytes, size_t count, const char *end)
{
    struct element *curve = add_element(page, ELEMENT_CURVE, mt_host_strdup(title));
    curve->curve = mt_host_alloc((count + 1) * sizeof *curve->curve);
    memcpy(curve->curve, bytes, count * sizeof *bytes);
    curve->curve_count = count;
    curve->end = mt_host_strdup(end);
}

void mt_page_hint(struct mt_page *page, const char *command, const char *reason)
{
    add_element(page, ELEMENT_HINT, mt_host_strdup(reason))->command = mt_host_strdup(command);
}

static bool is_of_bytes(mt_field_kind kind)
{
    return kind == MT_FIELD_BYTES || kind == MT_FIELD_DIFFERENCE || kind == MT_FIELD_FIGURE;
}

/* Returns the exact value for a text; integers other than bytes are plain numbers. Takes `value`. */
static json_t *exact_of(const struct mt_field *field, json_t *value, const char *shown)
{
    bool is_words = json_is_string(value) || (json_is_null(value) && shown[0] != '\0' && strcmp(shown, "-") != 0);
    bool is_count = json_is_integer(value) && !is_of_bytes(field->kind);
    if (!is_words && !is_count)
        return value;
    json_t *exact = is_count ? json_real(json_number_value(value)) : NULL;
    json_decref(value);
    return exact;
}

static struct cell cell_of(const struct mt_field *field, const void *row)
{
    struct mt_text shown = {0};
    mt_field_add_shown(field, row, &shown);
    json_t *exact = exact_of(field, mt_field_json(field, row), mt_text_get(&shown));
    struct cell cell = {mt_host_strdup(json_is_null(exact) ? "–" : mt_text_get(&shown)), exact};
    mt_text_release(&shown);
    return cell;
}

/* Returns the last table. */
static struct element *last_table(const struct mt_page *page)
{
    const struct section *section = &page->sections[page->section_count - 1];
    assert(section->element_count > 0);
    struct element *table = &section->elements[section->element_count - 1];
    assert(table->kind == ELEMENT_TABLE && table->cell_count % table->column_count == 0);
    return table;
}

void mt_page_row(struct mt_page *page, const struct mt_row_type *type, const void *row)
{
    struct element *table = last_table(page);
    for (const struct mt_field *field = type->fields; field->name != NULL; field++) {
        table->cells = mt_host_room(table->cells, table->cell_count, sizeof *table->cells);
        table->cells[table->cell_count++] = cell_of(field, row);
    }
    assert(table->cell_count % table->column_count == 0);
}

void mt_page_table(struct mt_page *page, const char *key, const char *title, const struct mt_row_type *type,
                   const void *rows, size_t count)
{
    struct element *table = add_element(page, ELEMENT_TABLE, mt_host_strdup(title));
    assert(type->fields[0].name != NULL);
    table->key = key_copy(key);
    for (const struct mt_field *field = type->fields; field->name != NULL; field++) {
        table->columns = mt_host_room(table->columns, table->column_count, sizeof *table->columns);
        table->columns[table->column_count++] =
            (struct column){mt_host_strdup(field->heading), mt_field_is_number(field)};
    }
    for (size_t i = 0; i < count; i++)
        mt_page_row(page, type, (const char *)rows + i * type->bytes);
}

void mt_page_link(struct mt_page *page, const char *target)
{
    struct element *table = last_table(page);
    assert(mt_page_count_rows(table) > table->link_count);
    while (table->link_count < mt_page_count_rows(table)) {
        table->links = mt_host_room(table->links, table->link_count, sizeof *table->links);
        table->links[table->link_count++] = NULL;
    }
    table->links[table->link_count - 1] = mt_host_strdup(target);
}

void mt_page_keep_columns(struct mt_page *page)
{
    last_table(page)->keeps_columns = true;
}

void mt_page_chart(struct mt_page *page, ...)
{
    struct element *table = last_table(page);
    va_list titles;
    va_start(titles, page);
    for (const char *title; (title = va_arg(titles, const char *)) != NULL && table->bar_count < MT_PAGE_MOST_BARS;)
        for (size_t column = 0; column < table->column_count; column++)
            if (strcmp(table->columns[column].title, title) == 0) {
                table->bars[table->bar_count++] = column;
                break;
            }
    va_end(titles);
    table->chart_rows = mt_page_count_rows(table);
}

/* JSON has the shown text and the exact number. */

static json_t *cell_json(const struct cell *cell)
{
    if (json_is_null(cell->exact))
        return json_null();
    json_t *json = json_pack("{s:o}", "text", mt_json_text(cell->text));
    if (cell->exact != NULL)
        json_object_set(json, json_is_integer(cell->exact) ? "bytes" : "value", cell->exact);
    return json;
}

static json_t *table_json(const struct element *table)
{
    json_t *columns = json_array(), *rows = json_array();
    for (size_t column = 0; column < table->column_count; column++)
        json_array_append_new(columns, mt_json_text(table->columns[column].title));
    for (size_t row = 0; row < mt_page_count_rows(table); row++) {
        json_t *cells = json_array();
        for (size_t column = 0; column < table->column_count; column++)
            json_array_append_new(cells, cell_json(&table->cells[row * table->column_count + column]));
        json_array_append_new(rows, cells);
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "key", table->key, "title", mt_json_text(table->text), "columns", columns,
                     "rows", rows);
}

static json_t *section_json(const struct section *section)
{
    json_t *tables = json_array(), *text = json_array(), *hints = json_array();
    for (size_t i = 0; i < section->element_count; i++) {
        const struct element *element = &section->elements[i];
        if (element->kind == ELEMENT_TABLE)
            json_array_append_new(tables, table_json(element));
        else if (element->kind == ELEMENT_SAY)
            json_array_append_new(text, mt_json_text(element->text));
        else if (element->kind == ELEMENT_HINT)
            json_array_append_new(hints, json_pack("{s:o, s:o}", "reason", mt_json_text(element->text), "command",
                                                   mt_json_text(element->command)));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "key", mt_json_text(section->key), "title",
                     mt_json_text(section->title), "tables", tables, "text", text, "hints", hints);
}

/* Returns the findings with their sections. */
static json_t *findings_json(const struct mt_page *page)
{
    json_t *findings = json_array();
    for (size_t i = 1; i < page->section_count; i++)
        for (size_t j = 0; j < page->sections[i].element_count; j++)
            if (page->sections[i].elements[j].is_found)
                json_array_append_new(findings, json_pack("{s:s, s:o}", "section", page->sections[i].key, "text",
                                                          mt_json_text(page->sections[i].elements[j].text)));
    return findings;
}

json_t *mt_page_json(const struct mt_page *page)
{
    json_t *sections = json_array();
    for (size_t i = 1; i < page->section_count; i++)
        json_array_append_new(sections, section_json(&page->sections[i]));
    json_t *introduction = section_json(&page->sections[0]);
    json_t *answer = json_pack("{s:s, s:o, s:o, s:O, s:o}", "schema", "memtrace.report/1", "title",
                               mt_json_text(page->title), "findings", findings_json(page), "introduction",
                               json_object_get(introduction, "text"), "sections", sections);
    json_decref(introduction);
    return answer;
}
