#include "answer/row_stream.h"

#include "answer/escape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 24 };

/* Returns flags that make JSON pure ASCII on a terminal, since JSON does not escape C1 control characters. */
static size_t json_flags(const struct mt_row_stream *stream)
{
    return mt_output_file_is_terminal(stream->file) ? JSON_ENSURE_ASCII : 0;
}

static void print(struct mt_row_stream *stream, const char *text)
{
    mt_output_file_print(stream->file, text);
}

static void begin_csv(struct mt_row_stream *stream)
{
    for (const struct mt_field *field = stream->type->fields; field->name != NULL; field++) {
        print(stream, field->name);
        print(stream, field[1].name != NULL ? "," : "\n");
    }
}

/* Writes the object without its closing brace. */
static void begin_json(struct mt_row_stream *stream, const json_t *head)
{
    char *text = json_dumps(head, json_flags(stream));
    mt_output_file_write(stream->file, text, strlen(text) - 1);
    print(stream, ", \"rows\": [");
    free(text);
}

void mt_row_stream_begin(struct mt_row_stream *stream, struct mt_output_file *file, mt_row_form form,
                         const struct mt_row_type *type, json_t *head)
{
    assert(form == MT_ROWS_CSV || json_object_size(head) > 0);
    *stream = (struct mt_row_stream){.file = file, .type = type, .form = form};
    if (form == MT_ROWS_CSV)
        begin_csv(stream);
    else
        begin_json(stream, head);
    json_decref(head);
}

/* True if the text needs no escapes, neither in quotes in JSON nor without quotes in CSV. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\' || *text == ',')
            return false;
    return true;
}

static void print_json(struct mt_row_stream *stream, json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | json_flags(stream));
    print(stream, text);
    free(text);
    json_decref(value);
}

static void print_csv_text(struct mt_row_stream *stream, const char *value)
{
    struct mt_text field = {0}, visible = {0};
    mt_text_add_csv(&field, value);
    if (mt_output_file_is_log(stream->file))
        mt_text_add_visible(&visible, mt_text_get(&field));
    print(stream, mt_text_get(visible.data != NULL ? &visible : &field));
    mt_text_release(&field);
    mt_text_release(&visible);
}

static void print_text(struct mt_row_stream *stream, const char *value)
{
    if (stream->form == MT_ROWS_CSV && is_plain(value) && strchr("=+-@", value[0]) == NULL) {
        print(stream, value);
    } else if (stream->form == MT_ROWS_CSV) {
        print_csv_text(stream, value);
    } else if (is_plain(value)) {
        print(stream, "\"");
        print(stream, value);
        print(stream, "\"");
    } else {
        print_json(stream, mt_json_text(value));
    }
}

static void print_integer(struct mt_row_stream *stream, int64_t value)
{
    char text[NUMBER_TEXT];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    mt_output_file_write(stream->file, text, (size_t)length);
}

static void print_size(struct mt_row_stream *stream, uint64_t value)
{
    char text[NUMBER_TEXT];
    int length = snprintf(text, sizeof text, "%" PRIu64, value);
    mt_output_file_write(stream->file, text, (size_t)length);
}

static void print_any(struct mt_row_stream *stream, const struct mt_field *field, const void *row)
{
    struct mt_text text = {0};
    if (stream->form == MT_ROWS_JSON) {
        print_json(stream, mt_field_json(field, row));
        return;
    }
    mt_field_add_exact(field, row, &text);
    print_text(stream, mt_text_get(&text));
    mt_text_release(&text);
}

/* Writes a field. The most frequent kinds are written without creating a JSON value. */
static void print_field(struct mt_row_stream *stream, const struct mt_field *field, const void *row)
{
    const void *at = (const char *)row + field->offset;
    assert(field->of == NULL);
    if (field->kind == MT_FIELD_TEXT && *(const char *const *)at != NULL)
        print_text(stream, *(const char *const *)at);
    else if (field->kind == MT_FIELD_INTEGER)
        print_integer(stream, *(const int64_t *)at);
    else if (field->kind == MT_FIELD_BYTES || field->kind == MT_FIELD_COUNT)
        print_size(stream, *(const uint64_t *)at);
    else
        print_any(stream, field, row);
}

mt_status mt_row_stream_add(struct mt_row_stream *stream, const void *row)
{
    bool is_json = stream->form == MT_ROWS_JSON;
    if (is_json)
        print(stream, stream->count == 0 ? "\n{" : ",\n{");
    for (const struct mt_field *field = stream->type->fields; field->name != NULL; field++) {
        if (field != stream->type->fields)
            print(stream, is_json ? ", " : ",");
        if (is_json) {
            print(stream, "\"");
            print(stream, field->name);
            print(stream, "\": ");
        }
        print_field(stream, field, row);
    }
    print(stream, is_json ? "}" : "\n");
    stream->count++;
    return mt_output_file_go_on(stream->file);
}

void mt_row_stream_end(struct mt_row_stream *stream)
{
    if (stream->form == MT_ROWS_JSON)
        print(stream, stream->count > 0 ? "\n]}\n" : "]}\n");
}
