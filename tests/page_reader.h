/* Reads a timeline page by docs/page.md alone: the elements, base64, zlib, the planes of bytes. Fails the test if
 * anything is inconsistent. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <zlib.h>

/* A page. The text is the whole file, ended by a NUL. */
struct page {
    char *text;
    size_t length;
    json_t *description;
};

static inline int base64_digit(char letter)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = letter != '\0' ? strchr(digits, letter) : NULL;
    if (found == NULL)
        fail_msg("'%c' is no letter of base64", letter);
    return (int)(found - digits);
}

/* Returns the bytes of base64 text up to `end`. The caller frees them. */
static inline unsigned char *base64_bytes(const char *text, const char *end, size_t *out_count)
{
    size_t length = (size_t)(end - text), padding = 0;
    assert_int_equal(length % 4, 0);
    unsigned char *bytes = malloc(length / 4 * 3 + 1), *at = bytes;
    for (const char *group = text; group < end; group += 4) {
        uint32_t number = 0;
        for (int i = 0; i < 4; i++) {
            bool padded = group + 4 == end && i >= 2 && group[i] == '=';
            padding += padded;
            number = number << 6 | (uint32_t)(padded ? 0 : base64_digit(group[i]));
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            *at++ = (unsigned char)(number >> shift);
    }
    *out_count = (size_t)(at - bytes) - padding;
    return bytes;
}

/* Returns the bytes that zlib compressed, and a NUL. The caller frees them. */
static inline unsigned char *inflate_bytes(const unsigned char *packed, size_t count, size_t *out_count)
{
    size_t room = 1 << 16;
    unsigned char *bytes = malloc(room);
    z_stream stream = {.next_in = (Bytef *)packed, .avail_in = (uInt)count};
    assert_int_equal(inflateInit(&stream), Z_OK);
    int code = Z_OK;
    while (code == Z_OK) {
        if (stream.total_out + 1 >= room)
            bytes = realloc(bytes, room *= 2);
        stream.next_out = bytes + stream.total_out;
        stream.avail_out = (uInt)(room - 1 - stream.total_out);
        code = inflate(&stream, Z_NO_FLUSH);
    }
    assert_int_equal(code, Z_STREAM_END);
    assert_int_equal(stream.avail_in, 0);
    *out_count = stream.total_out;
    bytes[stream.total_out] = '\0';
    inflateEnd(&stream);
    return bytes;
}

/* Returns the contents of chunk `number` of a set. The caller frees them. */
static inline unsigned char *page_chunk_of(const struct page *page, const char *set, size_t number, size_t *out_count)
{
    char head[128];
    snprintf(head, sizeof head, "<script type=\"application/octet-stream;base64\" id=\"%schunk-%zu\">", set, number);
    const char *begin = strstr(page->text, head);
    if (begin == NULL)
        fail_msg("%schunk-%zu is missing", set, number);
    begin += strlen(head);
    size_t packed_count;
    unsigned char *packed = base64_bytes(begin, strstr(begin, "</script>\n"), &packed_count);
    unsigned char *bytes = inflate_bytes(packed, packed_count, out_count);
    free(packed);
    return bytes;
}

static inline unsigned char *page_chunk(const struct page *page, size_t number, size_t *out_count)
{
    return page_chunk_of(page, "", number, out_count);
}

/* Returns the JSON in chunk 0 of a set, a new reference. */
static inline json_t *page_description(const struct page *page, const char *set)
{
    size_t count;
    char *json = (char *)page_chunk_of(page, set, 0, &count);
    json_error_t error;
    json_t *description = json_loadb(json, count, 0, &error);
    if (description == NULL)
        fail_msg("the description is no JSON: %s", error.text);
    free(json);
    return description;
}

/* Reads a page. Takes ownership of the text. */
static inline void page_read(char *text, size_t length, struct page *out)
{
    *out = (struct page){.text = text, .length = length};
    assert_int_equal(strlen(text), length);
    out->description = page_description(out, "");
}

static inline void page_release(struct page *page)
{
    json_decref(page->description);
    free(page->text);
}

static inline json_t *page_run(const struct page *page, size_t run)
{
    json_t *found = json_array_get(json_object_get(page->description, "runs"), run);
    assert_non_null(found);
    return found;
}

static inline json_int_t page_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

/* Returns a table; NULL if the run does not have it. */
static inline json_t *page_table(const struct page *page, size_t run, const char *name)
{
    return json_object_get(json_object_get(page_run(page, run), "tables"), name);
}

/* Finds a column, and the offset of its planes in a chunk, in bytes a row. */
static inline json_t *page_find_column(const json_t *table, const char *name, size_t *out_before, size_t *out_row_bytes)
{
    json_t *columns = json_object_get(table, "columns"), *found = NULL, *column;
    size_t index;
    *out_before = *out_row_bytes = 0;
    json_array_foreach(columns, index, column)
    {
        json_int_t width = page_number(column, "width");
        assert_in_range(width, 0, 6);
        if (strcmp(json_string_value(json_object_get(column, "name")), name) == 0) {
            found = column;
            *out_before = *out_row_bytes;
        }
        *out_row_bytes += (size_t)width;
    }
    if (found == NULL)
        fail_msg("there is no column %s", name);
    return found;
}

/* Decodes the `rows` rows of chunk number `part` of a table. */
static inline void page_decode(const json_t *column, size_t part, const unsigned char *planes, size_t rows,
                               uint64_t *out)
{
    const char *coding = json_string_value(json_object_get(column, "coding"));
    uint64_t unit = (uint64_t)page_number(column, "unit");
    uint64_t sum = (uint64_t)json_integer_value(json_array_get(json_object_get(column, "first"), part));
    json_int_t width = page_number(column, "width");
    assert_true(strcmp(coding, "delta") == 0 || strcmp(coding, "plain") == 0);
    for (size_t row = 0; row < rows; row++) {
        uint64_t stored = 0;
        for (json_int_t byte = 0; byte < width; byte++)
            stored |= (uint64_t)planes[(size_t)byte * rows + row] << 8 * byte;
        sum = strcmp(coding, "delta") == 0 ? sum + stored * unit : stored * unit;
        out[row] = sum;
    }
}

/* Returns the values of a column. The caller frees them. */
static inline uint64_t *page_column(const struct page *page, size_t run, const char *name, const char *column_name,
                                    size_t *out_rows)
{
    const json_t *table = page_table(page, run, name);
    if (table == NULL)
        fail_msg("there is no table %s", name);
    size_t before, row_bytes, bytes_count;
    const json_t *column = page_find_column(table, column_name, &before, &row_bytes);
    size_t rows = (size_t)page_number(table, "rows"), part_rows = (size_t)page_number(table, "part_rows");
    size_t chunk = (size_t)page_number(table, "first_chunk");
    uint64_t *values = malloc(rows * sizeof *values + 1);
    for (size_t from = 0, part = 0; from < rows; from += part_rows, part++) {
        size_t count = rows - from < part_rows ? rows - from : part_rows;
        unsigned char *bytes = page_chunk(page, chunk + part, &bytes_count);
        assert_int_equal(bytes_count, count * row_bytes);
        page_decode(column, part, bytes + before * count, count, values + from);
        free(bytes);
    }
    *out_rows = rows;
    return values;
}

/* Returns a text by its position in `list`: texts, categories or phases. */
static inline const char *page_text(const struct page *page, const char *list, uint64_t position)
{
    const json_t *text = json_array_get(json_object_get(page->description, list), (size_t)position);
    if (!json_is_string(text))
        fail_msg("%s has no number %llu", list, (unsigned long long)position);
    return json_string_value(text);
}
