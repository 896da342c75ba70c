/* Plain values, as pickles and JSON hold them, and the store that keeps them.
 *
 *   dict ─▶ "segments" ─▶ list ─▶ dict ─▶ "address" ─▶ 140 …
 *        └▶ "device_traces" ─▶ …
 *
 * Invariants: no list or dict holds itself, however deep, and none is deeper than the store allows. Equal texts of a
 * store are one. Lists that a file shares, or that JSON repeats, are one, too: a user who keeps something for a list
 * finds it again by the list's address. Texts end with a NUL that their length does not count. They may hold others,
 * and need not be UTF-8.
 *
 * Everything belongs to the store and lives as long. Threads: one at a time. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_value_kind {
    MT_VALUE_NONE, /* first, so that zeros are a value */
    MT_VALUE_BOOL,
    MT_VALUE_INTEGER,
    MT_VALUE_REAL, /* also integers that do not fit in an int64_t, rounded */
    MT_VALUE_TEXT,
    MT_VALUE_BYTES,
    MT_VALUE_LIST, /* also a tuple */
    MT_VALUE_DICT
} mt_value_kind;

/* Returns "text", "list", … */
const char *mt_value_kind_name(mt_value_kind kind);

struct mt_items;

struct mt_value {
    uint32_t kind;   /* mt_value_kind */
    uint32_t length; /* of text and bytes */
    union {
        int64_t integer; /* of a bool: 0 or 1 */
        double real;
        const char *text;
        struct mt_items *items;
    };
};

/* The values of a list, or the keys and values of a dict in turns. Most dicts of a file have the same few keys, which they
 * share: then `values` has the values alone. Invariants: count <= capacity, and counts shared keys, too; depth is 1 more than
 * that of the deepest value in it; items that another value holds are closed and do not change. */
struct mt_items {
    const struct mt_value *keys; /* shared, count / 2 of them; NULL: none are */
    struct mt_value *values;
    uint32_t count, capacity;
    uint32_t depth;
    bool closed;
};

/* Returns the number of elements of a list, or of pairs of a dict; 0 for other values. */
uint32_t mt_value_count(const struct mt_value *value);

/* Returns an element of a list; a value of kind NONE for an index beyond its end, or if it is no list. */
const struct mt_value *mt_value_at(const struct mt_value *list, uint32_t index);

/* Return a key of a dict, and its value; a value of kind NONE for an index beyond its end, or if it is no dict. */
const struct mt_value *mt_value_key_at(const struct mt_value *dict, uint32_t index);
const struct mt_value *mt_value_value_at(const struct mt_value *dict, uint32_t index);

/* A key that is looked up in many dicts, and the place where it was last: most files have all dicts alike. */
struct mt_value_key {
    const char *name;
    uint32_t length, hint;
};
#define MT_VALUE_KEY(text)                                                                                             \
    {                                                                                                                  \
        .name = (text), .length = sizeof(text) - 1                                                                     \
    }

/* Bounds of what is compared and read: a file can refer to one large dict, or one long text, a million times in two
 * bytes each. */
enum { MT_VALUE_MOST_KEYS = 64, MT_VALUE_MOST_TEXT_BYTES = 2048 };

/* Returns the value of a key among a dict's first MT_VALUE_MOST_KEYS; a value of kind NONE if there is none, or no
 * dict. Of equal keys, which nobody writes, any may be found. */
const struct mt_value *mt_value_get(const struct mt_value *dict, struct mt_value_key *key);

/* The same for a key that is looked up once. */
const struct mt_value *mt_value_find(const struct mt_value *dict, const char *name);

/* True if it is this text. */
bool mt_value_is(const struct mt_value *value, const char *text);

/* Returns its text; "" for other kinds, and a note in its place for a text of over MT_VALUE_MOST_TEXT_BYTES, which
 * is no name. */
const char *mt_value_text(const struct mt_value *value);

/* Sets *out to an integer's number. False, and *out untouched, for other kinds. */
bool mt_value_integer(const struct mt_value *value, int64_t *out);

struct mt_value_store;

/* Bounds of what a file may take. The store fails with MT_BAD_TRACE where one would be passed; readers add the place
 * in the file. */
struct mt_value_limits {
    uint64_t bytes; /* of the store, and of the reader's own lists beside it */
    uint32_t depth; /* of lists in lists */
};

/* Returns limits for a file of so many bytes: several times what a benign file takes, but no more than `most_bytes`, and a
 * depth that none has. */
struct mt_value_limits mt_value_limits_of(uint64_t file_bytes, uint64_t most_bytes);

/* The end of that text, by which a program knows that it may allow more. */
#define MT_VALUE_OVER "the most that an import may take"

/* Fails with MT_BAD_TRACE, since to read a file takes more memory than that. */
mt_status mt_value_fail_over(uint64_t bytes);

/* `limits` are copied. */
struct mt_value_store *mt_value_store_create(const struct mt_value_limits *limits);
void mt_value_store_destroy(struct mt_value_store *store); /* may be NULL */

const struct mt_value_limits *mt_value_store_limits(const struct mt_value_store *store);

/* Returns the bytes taken so far. */
uint64_t mt_value_store_bytes(const struct mt_value_store *store);

/* Counts `bytes` that a reader is about to take beside the store. */
mt_status mt_value_store_count(struct mt_value_store *store, uint64_t bytes);

/* Make a value of kind TEXT or BYTES from a copy of these bytes; equal texts are one. */
mt_status mt_value_store_text(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);
mt_status mt_value_store_blob(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);

/* Makes an empty list or dict, open: for formats that fill it later. */
mt_status mt_value_store_open(struct mt_value_store *store, mt_value_kind kind, struct mt_value *out);

/* Adds values (for a dict, keys and values in turns), and closes those that are lists or dicts. Fails with
 * MT_BAD_TRACE also if `to` is closed, so that nothing ever holds itself. */
mt_status mt_value_store_add(struct mt_value_store *store, const struct mt_value *to, const struct mt_value *values,
                             uint32_t count);

/* Makes a closed list or dict of these values; equal ones are one. */
mt_status mt_value_store_share(struct mt_value_store *store, mt_value_kind kind, const struct mt_value *values,
                               uint32_t count, struct mt_value *out);
