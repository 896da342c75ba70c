#include "answer/row.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A share of less percent rounds to 0.0. */
static const double LEAST_PERCENT = 0.05;

char *mt_format_step(int64_t step, char *text)
{
    if (step < 0)
        snprintf(text, MT_BYTES_TEXT, "init");
    else
        snprintf(text, MT_BYTES_TEXT, "step %" PRId64, step);
    return text;
}

char *mt_format_share(double part, double whole, char *text)
{
    double percent = 100 * part / whole;
    if (!(whole > 0))
        snprintf(text, MT_BYTES_TEXT, "-");
    else if (percent != 0 && fabs(percent) < LEAST_PERCENT)
        snprintf(text, MT_BYTES_TEXT, percent > 0 ? "<0.1 %%" : ">-0.1 %%");
    else
        mt_print(text, MT_BYTES_TEXT, "%.1f %%", percent);
    return text;
}

static json_t *json_of_damaged(const char *text)
{
    struct mt_text repaired = {0};
    mt_utf8_add_repaired(&repaired, text);
    json_t *json = json_string(mt_text_get(&repaired));
    mt_text_release(&repaired);
    return json;
}

json_t *mt_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *json = json_string(text);
    return json != NULL ? json : json_of_damaged(text);
}

json_t *mt_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

struct mt_figure mt_figure_number(double value, const char *format, ...)
{
    struct mt_figure figure = {.value = value};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(figure.text, sizeof figure.text, format, arguments);
    va_end(arguments);
    assert(figure.text[0] != '\0');
    return figure;
}

struct mt_figure mt_figure_bytes(uint64_t bytes)
{
    struct mt_figure figure = {.bytes = (int64_t)bytes, .is_bytes = true};
    mt_format_bytes(bytes, figure.text);
    return figure;
}

struct mt_figure mt_figure_difference(int64_t bytes)
{
    struct mt_figure figure = {.bytes = bytes, .is_bytes = true};
    mt_format_difference(bytes, figure.text);
    return figure;
}

struct mt_figure mt_figure_words(const char *words)
{
    return mt_figure_number(NAN, "%s", words);
}

/* Returns a figure as JSON; null if it is unknown or only text. */
static json_t *figure_json(const struct mt_figure *figure)
{
    if (figure->text[0] == '\0')
        return json_null();
    return figure->is_bytes ? json_integer(figure->bytes) : mt_json_number(figure->value);
}

/* Returns the field with this name; NULL: none. */
static const struct mt_field *find_field(const struct mt_row_type *type, const char *name)
{
    for (const struct mt_field *field = type->fields; field->name != NULL; field++) {
        const struct mt_field *found = field;
        if (field->kind == MT_FIELD_PART && field->offset == 0)
            found = find_field(field->of, name);
        else if (strcmp(field->name, name) != 0)
            found = NULL;
        if (found != NULL)
            return found;
    }
    return NULL;
}

void mt_rows_release(const struct mt_row_type *type, void *rows, size_t count)
{
    static_assert(offsetof(struct mt_text, data) == 0, "a field finds the text where its data is");
    for (size_t i = 0; i < count; i++)
        for (const struct mt_field *field = type->fields; field->name != NULL; field++)
            if (field->is_owned)
                mt_text_release((struct mt_text *)((char *)rows + i * type->bytes + field->offset));
    free(rows);
}

const struct mt_field *mt_row_field(const struct mt_row_type *type, const char *name)
{
    const struct mt_field *field = find_field(type, name);
    assert(field != NULL);
    return field;
}

/* The value of a field in its struct, read as the type of its kind. */
#define AT(type) (*(type const *)((const char *)row + field->offset))

static size_t count_at(const struct mt_field *field, const void *row)
{
    return *(const size_t *)((const char *)row + field->count_offset);
}

static json_t *known_json(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *bytes_json(uint64_t bytes)
{
    return json_integer((json_int_t)bytes);
}

json_t *mt_field_json(const struct mt_field *field, const void *row)
{
    switch (field->kind) {
    case MT_FIELD_TEXT:
    case MT_FIELD_DIGITS:
        return mt_json_text(AT(char *));
    case MT_FIELD_NAME:
        return AT(char *) != NULL && AT(char *)[0] != '\0' ? mt_json_text(AT(char *)) : json_null();
    case MT_FIELD_INTEGER:
    case MT_FIELD_DIFFERENCE:
    case MT_FIELD_SIGNED_BYTES:
        return json_integer(AT(int64_t));
    case MT_FIELD_STREAM:
        return json_integer(AT(mt_stream));
    case MT_FIELD_POSITIVE:
        return known_json(AT(int64_t) > 0 ? AT(int64_t) : -1);
    case MT_FIELD_KNOWN:
    case MT_FIELD_STEP:
        return known_json(AT(int64_t));
    case MT_FIELD_COUNT:
    case MT_FIELD_BYTES:
    case MT_FIELD_NANOSECONDS:
        return bytes_json(AT(uint64_t));
    case MT_FIELD_SOME_BYTES:
        return AT(uint64_t) > 0 ? bytes_json(AT(uint64_t)) : json_null();
    case MT_FIELD_FLAG:
        return json_boolean(AT(bool));
    case MT_FIELD_NUMBER:
    case MT_FIELD_MS:
    case MT_FIELD_SHARE:
        return mt_json_number(AT(double));
    case MT_FIELD_CHOICE:
        assert(AT(int) >= 0 && field->names[AT(int)] != NULL);
        return json_string(field->names[AT(int)]);
    case MT_FIELD_FIGURE:
        return figure_json(&AT(struct mt_figure));
    case MT_FIELD_VALUE:
        return AT(json_t *) != NULL ? json_incref(AT(json_t *)) : json_null();
    case MT_FIELD_ROW:
        return mt_row_json(field->of, &AT(char));
    case MT_FIELD_ROW_OR_NULL:
        return AT(void *) != NULL ? mt_row_json(field->of, AT(void *)) : json_null();
    case MT_FIELD_SOME_ROWS:
        return AT(void *) != NULL ? mt_rows_json(field->of, AT(void *), count_at(field, row)) : json_null();
    case MT_FIELD_ROWS:
        return mt_rows_json(field->of, AT(void *), count_at(field, row));
    case MT_FIELD_PART:
    case MT_FIELD_MEMBERS:
        break;
    }
    assert(!"a field that is one member");
    return json_null();
}

void mt_row_add_json(const struct mt_row_type *type, const void *row, json_t *object)
{
    for (const struct mt_field *field = type->fields; field->name != NULL; field++)
        if (field->kind == MT_FIELD_PART)
            mt_row_add_json(field->of, &AT(char), object);
        else if (field->kind == MT_FIELD_MEMBERS)
            json_object_update(object, AT(json_t *));
        else if (!field->is_shown_only)
            json_object_set_new(object, field->name, mt_field_json(field, row));
}

json_t *mt_row_json(const struct mt_row_type *type, const void *row)
{
    json_t *object = json_object();
    mt_row_add_json(type, row, object);
    return object;
}

json_t *mt_rows_json(const struct mt_row_type *type, const void *rows, size_t count)
{
    json_t *list = json_array();
    assert(count == 0 || rows != NULL);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, mt_row_json(type, (const char *)rows + i * type->bytes));
    return list;
}

bool mt_field_is_number(const struct mt_field *field)
{
    switch (field->kind) {
    case MT_FIELD_TEXT:
    case MT_FIELD_NAME:
    case MT_FIELD_STEP:
    case MT_FIELD_FLAG:
    case MT_FIELD_CHOICE:
        return false;
    default:
        return true;
    }
}

static void add_number(const char *format, double number, struct mt_text *out)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (isfinite(number))
        mt_text_add(out, format, number);
    else
        mt_text_add(out, "-");
#pragma GCC diagnostic pop
}

/* Adds fields whose readable form differs from JSON. Returns false if it does not differ. */
static bool add_for_people(const struct mt_field *field, const void *row, struct mt_text *out)
{
    char text[MT_BYTES_TEXT];
    switch (field->kind) {
    case MT_FIELD_STEP:
        mt_text_add(out, "%s", mt_format_step(AT(int64_t), text));
        return true;
    case MT_FIELD_POSITIVE:
        if (AT(int64_t) == 0)
            mt_text_add(out, "-");
        return AT(int64_t) == 0;
    case MT_FIELD_KNOWN:
        if (AT(int64_t) < 0)
            mt_text_add(out, "-");
        return AT(int64_t) < 0;
    case MT_FIELD_BYTES:
        mt_text_add(out, "%s", mt_format_bytes(AT(uint64_t), text));
        return true;
    case MT_FIELD_SOME_BYTES:
        mt_text_add(out, "%s", AT(uint64_t) > 0 ? mt_format_bytes(AT(uint64_t), text) : "-");
        return true;
    case MT_FIELD_DIFFERENCE:
        mt_text_add(out, "%s", mt_format_difference(AT(int64_t), text));
        return true;
    case MT_FIELD_SIGNED_BYTES:
        mt_text_add(out, "%s%s", AT(int64_t) < 0 ? "-" : "", mt_format_bytes((uint64_t)llabs(AT(int64_t)), text));
        return true;
    case MT_FIELD_NANOSECONDS:
        mt_text_add(out, "%.3f ms", (double)AT(uint64_t) / 1e6);
        return true;
    case MT_FIELD_FLAG:
        mt_text_add(out, AT(bool) ? "yes" : "no");
        return true;
    case MT_FIELD_NUMBER:
        add_number(field->format != NULL ? field->format : "%.2f", AT(double), out);
        return true;
    case MT_FIELD_MS:
        add_number("%.3f", AT(double), out);
        return true;
    case MT_FIELD_SHARE:
        mt_text_add(out, "%s", isfinite(AT(double)) ? mt_format_share(AT(double), 1, text) : "-");
        return true;
    case MT_FIELD_FIGURE:
        mt_text_add(out, "%s", AT(struct mt_figure).text[0] != '\0' ? AT(struct mt_figure).text : "-");
        return true;
    default:
        return false;
    }
}

void mt_field_add_shown(const struct mt_field *field, const void *row, struct mt_text *out)
{
    if (!add_for_people(field, row, out))
        mt_field_add_exact(field, row, out);
}

void mt_field_add_exact(const struct mt_field *field, const void *row, struct mt_text *out)
{
    json_t *value = mt_field_json(field, row);
    assert(!json_is_object(value) && !json_is_array(value));
    if (json_is_string(value)) {
        mt_text_add(out, "%s", field->kind == MT_FIELD_CHOICE ? json_string_value(value) : AT(char *));
    } else if (!json_is_null(value)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        mt_text_add(out, "%s", text);
        free(text);
    }
    json_decref(value);
}

const char *mt_field_json_type(const struct mt_field *field)
{
    static const char *const types[] = {
#define X(kind, json) [MT_FIELD_##kind] = json,
        MT_FIELD_KINDS(X)
#undef X
    };
    return types[field->kind];
}
