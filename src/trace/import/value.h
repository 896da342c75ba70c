/* Plain values, as files of other programs hold them: what the readers of pickle and JSON deliver, and all that those who
 * make something of such a file look at.
 *
 *   dict ─▶ "segments" ─▶ list ─▶ dict ─▶ "address" ─▶ 140 …
 *        └▶ "device_traces" ─▶ …
 *
 * Invariants: no list or dict holds itself, however deep, and none is deeper than the reader allows; equal texts of one
 * store are one, and lists that a file shares, or that JSON repeats, are one too: who keeps what they made of a list finds
 * it again by the list's address. Texts end with a NUL that their length does not count, may hold others, and need not be
 * UTF-8.
 *
 * Everything belongs to the store, and is there until that is destroyed. Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_VALUE_H
#define MT_TRACE_IMPORT_VALUE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_value_kind {
    MT_VALUE_NONE, /* first, so that zeros are a value */
    MT_VALUE_BOOL,
    MT_VALUE_INTEGER,
    MT_VALUE_REAL, /* also integers that 64 bits with a sign do not hold, rounded */
    MT_VALUE_TEXT,
    MT_VALUE_BYTES,
    MT_VALUE_LIST, /* a tuple too */
    MT_VALUE_DICT
} mt_value_kind;

/* "text", "list", … */
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

/* The values of a list, or by turns the keys and the values of a dict. Invariants: count <= capacity; depth is 1 more than
 * that of the deepest in it; what is in another one is closed, and does not change any more. */
struct mt_items {
    struct mt_value *values;
    uint32_t count, capacity;
    uint32_t depth;
    bool closed;
};

/* How many elements a list has, and pairs a dict; 0 of other values. */
uint32_t mt_value_count(const struct mt_value *value);

/* A list's element; of an index that there is not, or of what is no list, none. */
const struct mt_value *mt_value_at(const struct mt_value *list, uint32_t index);

/* A key that is looked for in many dicts, and where it was found last: in most files they are all made alike. */
struct mt_value_key {
    const char *name;
    uint32_t length, hint;
};
#define MT_VALUE_KEY(text)                                                                                             \
    {                                                                                                                  \
        .name = (text), .length = sizeof(text) - 1                                                                     \
    }

/* What is looked for and at: a file refers to one dict, or one text, a million times in two bytes each. */
enum { MT_VALUE_MOST_KEYS = 64, MT_VALUE_MOST_TEXT_BYTES = 2048 };

/* The value of a key among a dict's first MT_VALUE_MOST_KEYS; none where there is no such key, or no dict. Of equal keys,
 * which nobody writes, any counts. */
const struct mt_value *mt_value_get(const struct mt_value *dict, struct mt_value_key *key);

/* Whether it is this text. */
bool mt_value_is(const struct mt_value *value, const char *text);

/* Its text; "" of what is none, and words that say so of one with over MT_VALUE_MOST_TEXT_BYTES, which is no name. */
const char *mt_value_text(const struct mt_value *value);

/* The value of a key that is looked for once. */
const struct mt_value *mt_value_find(const struct mt_value *dict, const char *name);

/* Its number, if it is an integer; otherwise false, and *out is left. */
bool mt_value_integer(const struct mt_value *value, int64_t *out);

struct mt_value_store;

/* What a file may make a reader take. */
struct mt_value_limits {
    uint64_t bytes; /* of the store, and of the reader's own lists beside it */
    uint32_t depth; /* of lists in lists */
};

/* Several times what a file of so many bytes takes that is meant well, and a depth that none of those has. */
struct mt_value_limits mt_value_limits_of(uint64_t file_bytes);

/* `limits` are copied. */
struct mt_value_store *mt_value_store_create(const struct mt_value_limits *limits);
void mt_value_store_destroy(struct mt_value_store *store); /* may be NULL */

const struct mt_value_limits *mt_value_store_limits(const struct mt_value_store *store);

/* How much was taken so far. */
uint64_t mt_value_store_bytes(const struct mt_value_store *store);

/* Counts `bytes` that a reader is about to take beside the store. */
mt_status mt_value_store_count(struct mt_value_store *store, uint64_t bytes);

/* MT_VALUE_TEXT or MT_VALUE_BYTES of these bytes, copied; equal texts are one. */
mt_status mt_value_store_text(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);
mt_status mt_value_store_blob(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out);

/* An empty list or dict, open: for formats that fill it later. */
mt_status mt_value_store_open(struct mt_value_store *store, mt_value_kind kind, struct mt_value *out);

/* Adds values, of a dict by turns keys and values, and closes those that are lists or dicts. MT_BAD_TRACE also where
 * `to` is closed, so that nothing ever comes to hold itself. */
mt_status mt_value_store_add(struct mt_value_store *store, const struct mt_value *to, const struct mt_value *values,
                             uint32_t count);

/* A closed list or dict of these values; equal ones are one. */
mt_status mt_value_store_share(struct mt_value_store *store, mt_value_kind kind, const struct mt_value *values,
                               uint32_t count, struct mt_value *out);

#endif
