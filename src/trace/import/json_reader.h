/* JSON (RFC 8259), as the same values as a pickle.
 *
 * Objects become dicts, and what was written out many times is kept once: a snapshot in JSON repeats each call chain
 * wherever it occurs, and takes hardly more memory than one that refers to it.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_JSON_READER_H
#define MT_TRACE_IMPORT_JSON_READER_H

#include "trace/import/value.h"

/* Whether data begins as a JSON object or array does. */
bool mt_json_is_one(const unsigned char *data, size_t length);

/* Reads the value into the store. MT_BAD_TRACE, with the byte's position, for what is no JSON, ends too early, is followed
 * by something else, or passes the store's limits. Half of a surrogate pair becomes U+FFFD. Takes time in proportion to
 * `length`. */
mt_status mt_json_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out);

#endif
