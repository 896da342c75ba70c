#include "cli/write/export_rows.h"

#include "cli/output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 24 };

static size_t json_flags(const struct mt_export_rows *rows)
{
    return mt_output_file_is_terminal(rows->file) ? JSON_ENSURE_ASCII : 0;
}

/* What stands before a field: of JSON, its name. */
static void begin_field(struct mt_export_rows *rows)
{
    const char *name = rows->columns[rows->next];
    bool is_first = rows->next++ == 0;
    if (rows->form == MT_EXPORT_CSV) {
        mt_output_file_print(rows->file, is_first ? "" : ",");
        return;
    }
    if (is_first)
        mt_output_file_print(rows->file, rows->count == 0 ? "\n{\"" : ",\n{\"");
    else
        mt_output_file_print(rows->file, ", \"");
    mt_output_file_print(rows->file, name);
    mt_output_file_print(rows->file, "\": ");
}

void mt_export_add_integer(struct mt_export_rows *rows, int64_t value)
{
    char text[NUMBER_TEXT];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    begin_field(rows);
    mt_output_file_write(rows->file, text, (size_t)length);
}

void mt_export_add_size(struct mt_export_rows *rows, uint64_t value)
{
    char text[NUMBER_TEXT];
    int length = snprintf(text, sizeof text, "%" PRIu64, value);
    begin_field(rows);
    mt_output_file_write(rows->file, text, (size_t)length);
}

void mt_export_add_unknown(struct mt_export_rows *rows)
{
    begin_field(rows);
    mt_output_file_print(rows->file, rows->form == MT_EXPORT_JSON ? "null" : "");
}

/* Whether a JSON string of it is the text itself in quotes. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            return false;
    return true;
}

static void add_json_text(struct mt_export_rows *rows, const char *value)
{
    if (is_plain(value)) {
        mt_output_file_print(rows->file, "\"");
        mt_output_file_print(rows->file, value);
        mt_output_file_print(rows->file, "\"");
        return;
    }
    json_t *json = mt_json_text(value);
    char *text = json_dumps(json, JSON_ENCODE_ANY | json_flags(rows));
    mt_output_file_print(rows->file, text);
    free(text);
    json_decref(json);
}

static void add_csv_text(struct mt_export_rows *rows, const char *value)
{
    struct mt_text field = {0}, visible = {0};
    mt_text_add_csv(&field, value);
    if (mt_output_file_is_terminal(rows->file))
        mt_text_add_visible(&visible, mt_text_get(&field));
    mt_output_file_print(rows->file, mt_text_get(visible.data != NULL ? &visible : &field));
    mt_text_release(&field);
    mt_text_release(&visible);
}

void mt_export_add_text(struct mt_export_rows *rows, const char *value)
{
    begin_field(rows);
    if (rows->form == MT_EXPORT_JSON)
        add_json_text(rows, value);
    else if (is_plain(value) && strchr(value, ',') == NULL)
        mt_output_file_print(rows->file, value);
    else
        add_csv_text(rows, value);
}

mt_status mt_export_row_end(struct mt_export_rows *rows)
{
    mt_output_file_print(rows->file, rows->form == MT_EXPORT_JSON ? "}" : "\n");
    rows->next = 0;
    rows->count++;
    return mt_output_file_go_on(rows->file);
}

static void print_header(struct mt_export_rows *rows)
{
    for (size_t i = 0; i < rows->column_count; i++) {
        mt_output_file_print(rows->file, i == 0 ? "" : ",");
        mt_output_file_print(rows->file, rows->columns[i]);
    }
    mt_output_file_print(rows->file, "\n");
}

/* The object without the brace that closes it. */
static void print_head(struct mt_export_rows *rows, const json_t *head)
{
    char *text = json_dumps(head, json_flags(rows));
    mt_output_file_write(rows->file, text, strlen(text) - 1);
    mt_output_file_print(rows->file, ", \"rows\": [");
    free(text);
}

void mt_export_rows_begin(struct mt_export_rows *rows, struct mt_output_file *file, mt_export_form form, json_t *head,
                          const char *const *columns, size_t column_count)
{
    *rows = (struct mt_export_rows){.file = file, .form = form, .columns = columns, .column_count = column_count};
    if (form == MT_EXPORT_CSV)
        print_header(rows);
    else
        print_head(rows, head);
    json_decref(head);
}

void mt_export_rows_end(struct mt_export_rows *rows)
{
    if (rows->form == MT_EXPORT_JSON)
        mt_output_file_print(rows->file, rows->count > 0 ? "\n]}\n" : "]}\n");
}
