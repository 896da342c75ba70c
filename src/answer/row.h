/* Rows of answers, described once.
 *
 * A row is a struct with values. Its type lists its fields: name, kind, offset in the struct, heading and meaning.
 * JSON, CSV, tables and docs/json.md are all generated from that list, so they always have the same fields.
 *
 *   struct + struct mt_row_type ──┬─▶ mt_row_json      {"max_bytes": 1048576}
 *                                 ├─▶ mt_table         1.00 MiB            (table.h)
 *                                 ├─▶ mt_row_stream    rows as they come   (row_stream.h)
 *                                 └─▶ memtrace help    docs/json.md
 *
 * Threads: descriptions are constant; everything else belongs to its caller. */
#pragma once

#include "base/text.h"
#include "base/types.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a field, which determines its type in the struct, in JSON and in a table. X(kind, its type in JSON, with
 * ? if it may be null). */
#define MT_FIELD_KINDS(X)                                                                                              \
    X(TEXT, "text")            /* const char *; NULL is null, and empty in a table */                                  \
    X(DIGITS, "text")          /* const char * that holds a number */                                                  \
    X(NAME, "text?")           /* const char *; NULL and "" are null */                                                \
    X(INTEGER, "integer")      /* int64_t */                                                                           \
    X(STREAM, "integer")       /* mt_stream */                                                                         \
    X(KNOWN, "integer?")       /* int64_t; below 0 is null, and "-" in a table */                                      \
    X(POSITIVE, "integer?")    /* int64_t; 0 is null, and "-" in a table */                                            \
    X(STEP, "integer?")        /* int64_t; below 0 is null: before the first step */                                   \
    X(COUNT, "integer")        /* uint64_t */                                                                          \
    X(BYTES, "integer")        /* uint64_t; a table shows 1.00 MiB */                                                  \
    X(SOME_BYTES, "integer?")  /* uint64_t; 0 is null, and "-" in a table */                                           \
    X(DIFFERENCE, "integer")   /* int64_t of bytes; a table shows +1.00 MiB */                                         \
    X(SIGNED_BYTES, "integer") /* int64_t; a table shows -1.00 MiB */                                                  \
    X(NANOSECONDS, "integer")  /* uint64_t; a table shows milliseconds */                                              \
    X(FLAG, "boolean")         /* bool; "yes" or "no" */                                                               \
    X(NUMBER, "number?")       /* double; NAN is null, and "-" in a table */                                           \
    X(MS, "number?")           /* double of milliseconds; a table shows three decimals */                              \
    X(SHARE, "number?")        /* double, of 1; a table shows 41.7 % */                                                \
    X(CHOICE, "text")          /* int: an index of `names` */                                                          \
    X(FIGURE, "number?")       /* struct mt_figure; "-" in a table where it is not known */                            \
    X(VALUE, "any")            /* json_t *, borrowed; NULL is null. For what has no fixed fields */                    \
    X(ROW, "object")           /* a struct of type `of` in the row */                                                  \
    X(ROW_OR_NULL, "object?")  /* a pointer to one; NULL is null */                                                    \
    X(SOME_ROWS, "list?")      /* as ROWS; a NULL pointer is null */                                                   \
    X(ROWS, "list")            /* a pointer to the first of some, with a size_t that counts them */                    \
    X(PART, "")                /* a struct of type `of` in the row: its fields are the row's */                        \
    X(MEMBERS, "")             /* json_t *, an object, borrowed: its members are the row's */

typedef enum mt_field_kind {
#define X(kind, json) MT_FIELD_##kind,
    MT_FIELD_KINDS(X)
#undef X
} mt_field_kind;

/* A number with its own text in tables, such as "0.52 ± 0.03"; or text without a number, such as "out of memory". All
 * zero: unknown. */
struct mt_figure {
    char text[2 * MT_BYTES_TEXT]; /* as shown; "": unknown */
    bool is_bytes;
    int64_t bytes; /* if is_bytes */
    double value;  /* otherwise; NAN: none, there is only the text */
};

/* Make a figure: from a number shown with `format`; a size; a signed difference of sizes; or only text. */
struct mt_figure mt_figure_number(double value, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct mt_figure mt_figure_bytes(uint64_t bytes);
struct mt_figure mt_figure_difference(int64_t bytes);
struct mt_figure mt_figure_words(const char *words);

struct mt_row_type;

/* A field of a row. */
struct mt_field {
    const char *name;             /* in JSON and CSV */
    const char *heading;          /* of its column in tables; NULL: not in tables */
    const char *meaning;          /* for docs/json.md; NULL: the name explains it */
    size_t offset;                /* of the value in the struct */
    size_t count_offset;          /* of the count of MT_FIELD_ROWS */
    const struct mt_row_type *of; /* for MT_FIELD_ROW, _ROW_OR_NULL and _ROWS */
    const char *const *names;     /* for MT_FIELD_CHOICE */
    const char *format;           /* for MT_FIELD_NUMBER in tables, for printf; NULL: "%.2f" */
    mt_field_kind kind;
    bool is_shown_only; /* in tables, not in JSON or CSV */
    bool is_owned;      /* a struct mt_text that the row owns; its data is the value */
};

/* A type of rows. Field names are unique, except for fields that are only shown. */
struct mt_row_type {
    size_t bytes;                  /* size of the struct, and distance of rows in an array */
    const struct mt_field *fields; /* ends with a NULL name */
};

/* The offset of the member. Does not compile if it has another type. */
#define MT_FIELD_AT(row, member, type) (offsetof(row, member) + 0 * sizeof((type *)0 == &((row *)0)->member))

/* Entries of a list of fields: MT_FIELD(BYTES, uint64_t, struct mt_top_row, bytes, "bytes", "size", "as requested"). */
#define MT_FIELD(field_kind, type, row, member, field_name, title, words)                                              \
    {                                                                                                                  \
        .kind = MT_FIELD_##field_kind, .offset = MT_FIELD_AT(row, member, type), .name = (field_name),                 \
        .heading = (title), .meaning = (words)                                                                         \
    }
/* The same for fields that only tables have: MT_SHOWN(BYTES, uint64_t, struct mt_top_row, bytes, "bytes", "size"). */
#define MT_SHOWN(field_kind, type, row, member, field_name, title)                                                     \
    {                                                                                                                  \
        .kind = MT_FIELD_##field_kind, .offset = MT_FIELD_AT(row, member, type), .name = (field_name),                 \
        .heading = (title), .is_shown_only = true                                                                      \
    }
#define MT_TEXT(...) MT_FIELD(TEXT, const char *, __VA_ARGS__)
#define MT_NAME(...) MT_FIELD(NAME, const char *, __VA_ARGS__)
/* For a struct mt_text that the row owns (mt_rows_release). */
#define MT_OWNED(row, member, field_name, title, words)                                                                \
    {                                                                                                                  \
        .kind = MT_FIELD_TEXT, .offset = MT_FIELD_AT(row, member, struct mt_text), .name = (field_name),               \
        .heading = (title), .meaning = (words), .is_owned = true                                                       \
    }
#define MT_SHOWN_OWNED(field_kind, row, member, field_name, title)                                                     \
    {                                                                                                                  \
        .kind = MT_FIELD_##field_kind, .offset = MT_FIELD_AT(row, member, struct mt_text), .name = (field_name),       \
        .heading = (title), .is_shown_only = true, .is_owned = true                                                    \
    }
#define MT_DIGITS(...) MT_FIELD(DIGITS, const char *, __VA_ARGS__)
#define MT_INTEGER(...) MT_FIELD(INTEGER, int64_t, __VA_ARGS__)
#define MT_STREAM(...) MT_FIELD(STREAM, mt_stream, __VA_ARGS__)
#define MT_KNOWN(...) MT_FIELD(KNOWN, int64_t, __VA_ARGS__)
#define MT_POSITIVE(...) MT_FIELD(POSITIVE, int64_t, __VA_ARGS__)
#define MT_STEP(...) MT_FIELD(STEP, int64_t, __VA_ARGS__)
#define MT_COUNT(...) MT_FIELD(COUNT, uint64_t, __VA_ARGS__)
#define MT_BYTES(...) MT_FIELD(BYTES, uint64_t, __VA_ARGS__)
#define MT_SOME_BYTES(...) MT_FIELD(SOME_BYTES, uint64_t, __VA_ARGS__)
#define MT_DIFFERENCE(...) MT_FIELD(DIFFERENCE, int64_t, __VA_ARGS__)
#define MT_SIGNED_BYTES(...) MT_FIELD(SIGNED_BYTES, int64_t, __VA_ARGS__)
#define MT_NANOSECONDS(...) MT_FIELD(NANOSECONDS, uint64_t, __VA_ARGS__)
#define MT_FLAG(...) MT_FIELD(FLAG, bool, __VA_ARGS__)
#define MT_NUMBER(...) MT_FIELD(NUMBER, double, __VA_ARGS__)
#define MT_NUMBER_AS(row, member, field_name, title, shown_as, words)                                                  \
    {                                                                                                                  \
        .kind = MT_FIELD_NUMBER, .offset = MT_FIELD_AT(row, member, double), .name = (field_name), .heading = (title), \
        .format = (shown_as), .meaning = (words)                                                                       \
    }
#define MT_SHOWN_AS(row, member, field_name, title, shown_as)                                                          \
    {                                                                                                                  \
        .kind = MT_FIELD_NUMBER, .offset = MT_FIELD_AT(row, member, double), .name = (field_name), .heading = (title), \
        .format = (shown_as), .is_shown_only = true                                                                    \
    }
#define MT_SHARE(...) MT_FIELD(SHARE, double, __VA_ARGS__)
#define MT_MS(...) MT_FIELD(MS, double, __VA_ARGS__)
#define MT_VALUE(...) MT_FIELD(VALUE, json_t *, __VA_ARGS__)
#define MT_CHOICE(row, member, field_name, title, words, texts)                                                        \
    {                                                                                                                  \
        .kind = MT_FIELD_CHOICE,                                                                                       \
        .offset = offsetof(row, member) + 0 * sizeof(char[sizeof((row *)0)->member == 4 ? 1 : -1]),                    \
        .name = (field_name), .heading = (title), .meaning = (words), .names = (texts)                                 \
    }
#define MT_ROW(row, member, field_name, type, words)                                                                   \
    {                                                                                                                  \
        .kind = MT_FIELD_ROW, .offset = offsetof(row, member), .name = (field_name), .of = (type), .meaning = (words)  \
    }
#define MT_ROW_OR_NULL(row, member, field_name, type, words)                                                           \
    {                                                                                                                  \
        .kind = MT_FIELD_ROW_OR_NULL, .offset = offsetof(row, member), .name = (field_name), .of = (type),             \
        .meaning = (words)                                                                                             \
    }
#define MT_ROWS(row, member, count, field_name, type, words)                                                           \
    {                                                                                                                  \
        .kind = MT_FIELD_ROWS, .offset = offsetof(row, member), .count_offset = MT_FIELD_AT(row, count, size_t),       \
        .name = (field_name), .of = (type), .meaning = (words)                                                         \
    }
#define MT_SOME_ROWS(row, member, count, field_name, type, words)                                                      \
    {                                                                                                                  \
        .kind = MT_FIELD_SOME_ROWS, .offset = offsetof(row, member), .count_offset = MT_FIELD_AT(row, count, size_t),  \
        .name = (field_name), .of = (type), .meaning = (words)                                                         \
    }
#define MT_PART(row, member, type)                                                                                     \
    {                                                                                                                  \
        .kind = MT_FIELD_PART, .offset = offsetof(row, member), .name = "", .of = (type)                               \
    }
/* Includes the fields of another type for the same struct. Tables find them like the row's own fields. */
#define MT_FIELDS_OF(type)                                                                                             \
    {                                                                                                                  \
        .kind = MT_FIELD_PART, .name = "", .of = (type)                                                                \
    }
#define MT_MEMBERS(row, member, words)                                                                                 \
    {                                                                                                                  \
        .kind = MT_FIELD_MEMBERS, .offset = MT_FIELD_AT(row, member, json_t *), .name = "", .meaning = (words)         \
    }
/* Rows that are written one by one (row_stream.h), without a struct for the list. */
#define MT_STREAMED(field_name, type, words)                                                                           \
    {                                                                                                                  \
        .kind = MT_FIELD_ROWS, .name = (field_name), .of = (type), .meaning = (words)                                  \
    }
#define MT_FIELDS_END                                                                                                  \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

/* The type of a struct from its list of fields. */
#define MT_ROW_TYPE(row, list)                                                                                         \
    {                                                                                                                  \
        .bytes = sizeof(row), .fields = (list)                                                                         \
    }

/* Frees an array of `count` rows, and the texts that they own. */
void mt_rows_release(const struct mt_row_type *type, void *rows, size_t count);

/* Returns the field with this name, in the row or in a part at its beginning; it must exist. */
const struct mt_field *mt_row_field(const struct mt_row_type *type, const char *name);

/* Returns the row as a JSON object, its fields in their order; the caller releases it. */
json_t *mt_row_json(const struct mt_row_type *type, const void *row);

/* Adds the row's fields to an object. */
void mt_row_add_json(const struct mt_row_type *type, const void *row, json_t *object);

/* Returns an array of `count` rows as a JSON list; the caller releases it. */
json_t *mt_rows_json(const struct mt_row_type *type, const void *rows, size_t count);

/* Returns the field as JSON; the caller releases it. */
json_t *mt_field_json(const struct mt_field *field, const void *row);

/* Adds the field in readable form: "1.00 MiB", "step 2", "-". */
void mt_field_add_shown(const struct mt_field *field, const void *row, struct mt_text *out);

/* Adds the field as in JSON, for CSV: all digits, text unquoted, nothing for null. Not for fields that are rows. */
void mt_field_add_exact(const struct mt_field *field, const void *row, struct mt_text *out);

/* True if columns of the field are right-aligned, as for numbers. */
bool mt_field_is_number(const struct mt_field *field);

/* Returns the name of the field's JSON type: "integer?". */
const char *mt_field_json_type(const struct mt_field *field);

/* Returns a JSON string of text in any encoding: bytes that are not UTF-8 become U+FFFD. NULL becomes null. */
json_t *mt_json_text(const char *text);

/* Returns a number, or null if it is NAN or infinite. */
json_t *mt_json_number(double value);

/* Writes "step 2", or "init" before the first step, into `text` of MT_BYTES_TEXT bytes, and returns it. */
char *mt_format_step(int64_t step, char *text);

/* Writes "41.7 %" into `text` of MT_BYTES_TEXT bytes and returns it. Writes "<0.1 %" or ">-0.1 %" for small shares that
 * would round to 0.0 %, and "-" if the whole is not above 0. */
char *mt_format_share(double part, double whole, char *text);
