/* The page, and its writers of JSON, HTML and Markdown.
 *
 * Invariants: every table is complete, so cell_count is a multiple of column_count, which is above 0. The first section is the
 * introduction, whose key and title are NULL; all others have both. */
#include "answer/report_page.h"

#include "answer/escape.h"
#include "base/memory.h"
#include "mt_report_css.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    char *text;    /* as shown */
    json_t *exact; /* an integer of bytes, another number, or null for what is not known; NULL: the text is all */
};

struct column {
    char *title;
    bool is_number; /* aligned right */
};

typedef enum element_kind { ELEMENT_SAY, ELEMENT_HINT, ELEMENT_TABLE } element_kind;

struct element {
    element_kind kind;
    char *text;             /* paragraph, reason or the table's title */
    char *command;          /* of a hint */
    char *key;              /* of a table, as the rest */
    struct column *columns; /* column_count of them */
    size_t column_count;
    struct cell *cells; /* row by row */
    size_t cell_count;
};

struct section {
    char *key, *title;
    struct element *elements;
    size_t element_count;
};

struct mt_page {
    char *title;
    struct section *sections;
    size_t section_count;
};

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
    free(element->cells);
    free(element->columns);
    free(element->key);
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

/* Returns a copy of a key: of letters and dashes, so that no writer needs to escape it. */
static char *key_copy(const char *key)
{
    assert(key[0] != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz-")] == '\0');
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

void mt_page_say(struct mt_page *page, const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        mt_host_exhausted("a sentence");
    va_end(arguments);
    add_element(page, ELEMENT_SAY, text);
}

void mt_page_hint(struct mt_page *page, const char *command, const char *reason)
{
    add_element(page, ELEMENT_HINT, mt_host_strdup(reason))->command = mt_host_strdup(command);
}

static bool is_of_bytes(mt_field_kind kind)
{
    return kind == MT_FIELD_BYTES || kind == MT_FIELD_DIFFERENCE || kind == MT_FIELD_FIGURE;
}

/* Returns the exact value beside a text; other integers than bytes are plain numbers. Takes `value`. */
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

void mt_page_row(struct mt_page *page, const struct mt_row_type *type, const void *row)
{
    const struct section *section = &page->sections[page->section_count - 1];
    assert(section->element_count > 0);
    struct element *table = &section->elements[section->element_count - 1];
    assert(table->kind == ELEMENT_TABLE && table->cell_count % table->column_count == 0);
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

/* Returns the text of a cell; row 0 is the header. */
static const char *text_at(const struct element *table, size_t row, size_t column)
{
    assert(column < table->column_count && row * table->column_count <= table->cell_count);
    return row == 0 ? table->columns[column].title : table->cells[(row - 1) * table->column_count + column].text;
}

static size_t count_rows(const struct element *table)
{
    assert(table->kind == ELEMENT_TABLE && table->cell_count % table->column_count == 0);
    return table->cell_count / table->column_count;
}

/* JSON has the text that is shown, and beside it the exact number. */

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
    for (size_t row = 0; row < count_rows(table); row++) {
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

/* HTML is one file, with its styles inside, no scripts, and a policy that lets nothing be fetched or run. */

static const char html_head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

/* Adds "<p>text</p>\n", of any tags. */
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

/* Sizes are rounded; pointing at one shows its bytes. */
static void add_html_row(struct mt_text *out, const struct element *table, size_t row)
{
    mt_text_add(out, "<tr>");
    for (size_t column = 0; column < table->column_count; column++) {
        const json_t *exact = table->cells[row * table->column_count + column].exact;
        mt_text_add(out, "<td%s", class_of(&table->columns[column]));
        if (json_is_integer(exact))
            mt_text_add(out, " title=\"%" JSON_INTEGER_FORMAT " bytes\"", json_integer_value(exact));
        add_html(out, ">", text_at(table, row + 1, column), "</td>");
    }
    mt_text_add(out, "</tr>\n");
}

static void add_html_table(struct mt_text *out, const struct element *table)
{
    add_html(out, "<div class=\"scroll\"><table>\n<caption>", table->text, "</caption>\n<thead><tr>");
    for (size_t i = 0; i < table->column_count; i++) {
        mt_text_add(out, "<th scope=\"col\"%s", class_of(&table->columns[i]));
        add_html(out, ">", table->columns[i].title, "</th>");
    }
    mt_text_add(out, "</tr></thead>\n<tbody>\n");
    for (size_t row = 0; row < count_rows(table); row++)
        add_html_row(out, table, row);
    mt_text_add(out, "</tbody></table></div>\n");
}

static void add_html_element(struct mt_text *out, const struct element *element)
{
    if (element->kind == ELEMENT_TABLE) {
        add_html_table(out, element);
    } else if (element->kind == ELEMENT_SAY) {
        add_html(out, "<p>", element->text, "</p>\n");
    } else {
        add_html(out, "<p class=\"hint\">", element->text, ": <code>");
        add_html(out, "", element->command, "</code></p>\n");
    }
}

static void add_html_links(struct mt_text *out, const struct mt_page *page)
{
    mt_text_add(out, "<nav>");
    for (size_t i = 1; i < page->section_count; i++) {
        mt_text_add(out, "<a href=\"#%s", page->sections[i].key);
        add_html(out, "\">", page->sections[i].title, "</a> ");
    }
    mt_text_add(out, "</nav>\n");
}

void mt_page_write_html(const struct mt_page *page, struct mt_text *out)
{
    mt_text_add(out, "%s", html_head);
    add_html(out, "<title>", page->title, "</title>\n<style>\n");
    mt_text_add(out, "%s</style>\n</head>\n<body>\n<main>\n", mt_report_css);
    add_html(out, "<h1>", page->title, "</h1>\n");
    for (size_t i = 0; i < page->section_count; i++) {
        const struct section *section = &page->sections[i];
        if (section->title != NULL) {
            mt_text_add(out, "<h2 id=\"%s", section->key);
            add_html(out, "\">", section->title, "</h2>\n");
        }
        for (size_t j = 0; j < section->element_count; j++)
            add_html_element(out, &section->elements[j]);
        if (i == 0)
            add_html_links(out, page);
    }
    mt_text_add(out, "</main>\n</body>\n</html>\n");
}

/* Markdown is GitHub's. Tables are aligned in the source, too, so that it reads well as it is. */

/* The rule under a header has three characters at least. */
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
    for (size_t row = 0; row <= count_rows(table); row++) {
        int width = markdown_width(text_at(table, row, column));
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void add_markdown_row(struct mt_text *out, const struct element *table, const int *widths, size_t row)
{
    for (size_t column = 0; column < table->column_count; column++) {
        const char *text = text_at(table, row, column);
        int padding = widths[column] - markdown_width(text);
        bool is_number = table->columns[column].is_number;
        mt_text_add(out, "| %*s", is_number ? padding : 0, "");
        mt_text_add_markdown(out, text);
        mt_text_add(out, "%*s ", is_number ? 0 : padding, "");
    }
    mt_text_add(out, "|\n");
}

/* Adds the line under the header, which says how columns are aligned. */
static void add_rule(struct mt_text *out, const struct element *table, const int *widths)
{
    for (size_t column = 0; column < table->column_count; column++) {
        bool is_number = table->columns[column].is_number;
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
    add_marked(out, "**", table->text, "**\n\n");
    add_markdown_row(out, table, widths, 0);
    add_rule(out, table, widths);
    for (size_t row = 1; row <= count_rows(table); row++)
        add_markdown_row(out, table, widths, row);
    mt_text_add(out, "\n");
    free(widths);
}

/* Adds ": `command`", between more backticks than the command has in a row. */
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
    if (element->kind == ELEMENT_TABLE) {
        add_markdown_table(out, element);
        return;
    }
    if (element->text[0] != '\0' && strchr("#+-=", element->text[0]) != NULL) /* it would begin a list or a heading */
        mt_text_add(out, "\\");
    mt_text_add_markdown(out, element->text);
    if (element->kind == ELEMENT_HINT)
        add_code(out, element->command);
    mt_text_add(out, "\n\n");
}

void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out)
{
    add_marked(out, "# ", page->title, "\n\n");
    for (size_t i = 0; i < page->section_count; i++) {
        const struct section *section = &page->sections[i];
        if (section->title != NULL)
            add_marked(out, "## ", section->title, "\n\n");
        for (size_t j = 0; j < section->element_count; j++)
            add_markdown_element(out, &section->elements[j]);
    }
}
