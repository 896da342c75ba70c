/* Pickles of plain data, protocols 2 to 5: None, booleans, numbers, texts, bytes, lists, tuples and dicts.
 *
 * A pickle is a program for a machine with a stack. This one has the instructions that build those values, and none that
 * would look up a name, call or import anything, or refer to what is outside of the file: the reader executes nothing.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_PICKLE_H
#define MT_TRACE_IMPORT_PICKLE_H

#include "trace/import/value.h"

/* Whether data begins as a pickle of these protocols does. */
bool mt_pickle_is_one(const unsigned char *data, size_t length);

/* Reads the value into the store. MT_BAD_TRACE, with the byte's position, for an instruction that it does not have, damage,
 * what ends too early, or what passes the store's limits. What follows the end of the pickle is not looked at. Takes time
 * and memory in proportion to `length`, whatever the data says. */
mt_status mt_pickle_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out);

#endif
