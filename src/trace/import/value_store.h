/* Where the values of a file are kept: one arena that is freed at once, bounded, with equal texts kept once.
 *
 * A file may ask for anything, so what takes room fails with MT_BAD_TRACE where a limit would be passed; readers put the
 * place in the file before the text. Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_VALUE_STORE_H
#define MT_TRACE_IMPORT_VALUE_STORE_H

#include "base/status.h"
#include "trace/import/value.h"

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
