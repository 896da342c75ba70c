/* Plain values, as pickles and JSON hold them, and the store that keeps them.
 *
 *   dict ─▶ "segments" ─▶ list ─▶ dict ─▶ "address" ─▶ 140 …
 *        └▶ "device_traces" ─▶ …
 *
 * Invariants: no list or dict contains itself, however deep, and none is deeper than the store allows. Equal texts of a
 * store are stored once. So are lists that a file shares, or that JSON repeats: data can be associated with a list
 * by the list's address. Texts end with a NUL that their length does not count. They may contain others,
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

/* The values of a list, or alternating keys and values of a dict. Most dicts of a file have the same few keys, which
 * they share: then `values` has only values. Invariants: count <= capacity, and counts shared keys, too; depth is 1
 * more than the depth of the deepest value in it; items that another value contains are closed and do not change. */
struct mt_items {
    const struct mt_value *keys; /* shared, count / 2 of them; NULL: none are */
    struct mt_value *values;
    uint32_t count, capacity;
    uint32_t depth;
    bool closed;
};

/* Returns the number of elements of a list, or of pairs of a dict; 0 for other values. */
uint32_t mt_value_count(const struct mt_value *value);

/* Returns an element of a list; a value of kind NONE for an index beyond its end, or if it is not a list. */
const struct mt_value *mt_value_at(const struct mt_value *list, uint32_t index);

/* Return a key of a dict, and its value; a value of kind NONE for an index beyond its end, or if it is not a dict. */
const struct mt_value *mt_value_key_at(const struct mt_value *dict, uint32_t index);
const struct mt_value *mt_value_value_at(const struct mt_value *dict, uint32_t index);

/* A key for lookups in many dicts, and the place of its last match, since dicts of a file mostly have the same keys. */
struct mt_value_key {
    const char *name;
    uint32_t length, hint;
};
#define MT_VALUE_KEY(text)                                                                                             \
    {                                                                                                                  \
        .name = (text), .length = sizeof(text) - 1                                                                     \
    }

/* Bounds of comparisons and reads, since a file can refer to one large dict, or one long text, a million times in
 * two bytes each. */
enum { MT_VALUE_MOST_KEYS = 64, MT_VALUE_MOST_TEXT_BYTES = 2048 };

/* Returns the value of a key among a dict's first MT_VALUE_MOST_KEYS; a value of kind NONE if there is none, or it is
 * not a dict. Of equal keys, which no writer produces, any may be found. */
const struct mt_value *mt_value_get(const struct mt_value *dict, struct mt_value_key *key);

/* The same for a key that is looked up once. */
const struct mt_value *mt_value_find(const struct mt_value *dict, const char *name);

/* True if it is this text. */
bool mt_value_is(const struct mt_value *value, const char *text);

/* Returns the text of a value; "" for other kinds. For a text of over MT_VALUE_MOST_TEXT_BYTES, which can't be a name,
 * returns a note instead. */
const char *mt_value_text(const struct mt_value *value);

/* Sets *out to an integer's number. Returns false, and leaves *out unchanged, for other kinds. */
bool mt_value_integer(const struct mt_value *value, int64_t *out);

struct mt_value_store;

/* Limits for a file. The store fails with MT_BAD_TRACE if one would be exceeded; readers add the position
 * in the file. */
struct mt_value_limits {
    uint64_t bytes; /* of the store, and of the reader's own lists */
    uint32_t depth; /* of lists in lists */
};

/* Returns limits for a file of `file_bytes`: several times the memory of a usual file, but no more than `most_bytes`,
 * and a depth that no usual file has. */
struct mt_value_limits mt_value_limits_of(uint64_t file_bytes, uint64_t most_bytes);

/* The end of the failure's text. A program that finds it knows that the user may raise the limit. */
#define MT_VALUE_OVER "the most that an import may take"

/* Fails with MT_BAD_TRACE, since reading a file needs more than `bytes` of memory. */
mt_status mt_value_fail_over(uint64_t bytes);

/* Copies `limits`. */
struct mt_value_store *mt_value_store_create(const struct mt_value_limits *limits);
void mt_value_store_destroy(struct mt_value_store *store); /* may be NULL */

const struct mt_value_limits *mt_value_store_limits(const struct mt_value_store *store);

/* Returns the bytes allocated so far. */
uint64_t mt_value_store_bytes(const struct mt_value_store *store);

/* Counts `bytes` that a reader is about to allocate outside the store. */
mt_status mt_value_store_count(struct mt_value_store *store, uint64_t bytes);

/* Make a value of kind TEXT or BYTES from a copy of these bytes. Equal texts are stored once. */
mt_status mt_value_store_text(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);
mt_status mt_value_store_blob(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);

/* Makes an empty, open list or dict, for formats that fill it later. */
mt_status mt_value_store_open(struct mt_value_store *store, mt_value_kind kind, struct mt_value *out);

/* Adds values (for a dict, keys and values in turns), and closes those that are lists or dicts. Also fails with
 * MT_BAD_TRACE if `to` is closed, so that nothing ever contains itself. */
mt_status mt_value_store_add(struct mt_value_store *store, const struct mt_value *to, const struct mt_value *values,
                             uint32_t count);

/* Makes a closed list or dict of these values. Equal ones are stored once. */
mt_status mt_value_store_share(struct mt_value_store *store, mt_value_kind kind, const struct mt_value *values,
                               uint32_t count, struct mt_value *out);
