/* Reads CSV exactly as RFC 4180 defines it, for tests of CSV writers. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_COLUMNS = 32 };

/* The state of reading a CSV file, which is cut into fields in place. */
struct csv {
    char *text, *rest;
    const char *titles[MOST_COLUMNS], *fields[MOST_COLUMNS];
    size_t column_count;
};

/* Cuts off one field; *out_after is the character after it. RFC 4180. */
static inline const char *csv_field(struct csv *csv, char *out_after)
{
    char *field = csv->rest, *to = field, *from = field;
    bool is_quoted = *from == '"';
    for (from += is_quoted; is_quoted ? *from != '"' || from[1] == '"' : *from != ',' && *from != '\n'; from++) {
        assert_int_not_equal(*from, '\0');
        from += is_quoted && *from == '"';
        *to++ = *from;
    }
    from += is_quoted;
    *out_after = *from;
    *to = '\0';
    csv->rest = from + 1;
    return field;
}

static inline bool csv_line(struct csv *csv, const char **fields, size_t *out_count)
{
    char after = ',';
    if (*csv->rest == '\0')
        return false;
    for (*out_count = 0; after == ','; ++*out_count) {
        assert_true(*out_count < MOST_COLUMNS);
        fields[*out_count] = csv_field(csv, &after);
    }
    assert_int_equal(after, '\n');
    return true;
}

static inline struct csv csv_begin(char *text)
{
    struct csv csv = {.text = text, .rest = text};
    assert_true(csv_line(&csv, csv.titles, &csv.column_count));
    return csv;
}

static inline bool csv_next(struct csv *csv)
{
    size_t count;
    if (!csv_line(csv, csv->fields, &count))
        return false;
    assert_int_equal(count, csv->column_count);
    return true;
}

static inline const char *csv_get(const struct csv *csv, const char *title)
{
    for (size_t i = 0; i < csv->column_count; i++)
        if (strcmp(csv->titles[i], title) == 0)
            return csv->fields[i];
    fail_msg("there is no column %s", title);
    return "";
}

static inline int64_t csv_integer(const struct csv *csv, const char *title)
{
    char *end;
    const char *text = csv_get(csv, title);
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        fail_msg("%s is \"%s\"", title, text);
    return value;
}
