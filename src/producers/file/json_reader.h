/* JSON (RFC 8259), as the same values as a pickle.
 *
 * Objects become dicts. Equal lists and objects are kept once: a snapshot in JSON repeats a call stack wherever it
 * occurs, and still takes hardly more memory than a pickle, which refers to it.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/value.h"

/* True if the data begin as a JSON object or array. */
bool mt_json_is_one(const unsigned char *data, size_t length);

/* Reads the value into the store. Fails with MT_BAD_TRACE and the byte's position for wrong JSON, an early end,
 * bytes after the value, or a limit of the store. Half of a surrogate pair becomes U+FFFD. Takes time in proportion
 * to `length`. */
mt_status mt_json_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out);
