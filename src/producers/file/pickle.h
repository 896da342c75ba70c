/* Pickles of plain data, protocols 2 to 5: None, booleans, numbers, texts, bytes, lists, tuples and dicts.
 *
 * A pickle is a program for a stack machine. This machine has the instructions that build such values, and none that
 * looks up a name, calls, imports, or refers to anything outside of the file: it executes nothing.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/value.h"

/* True if the data begin as a pickle of these protocols. */
bool mt_pickle_is_one(const unsigned char *data, size_t length);

/* Reads the value into the store. Fails with MT_BAD_TRACE and the byte's position for an instruction that it does
 * not have, damage, an early end, or a limit of the store. Ignores bytes after the pickle. Takes time and memory in
 * proportion to `length`, whatever the data are. */
mt_status mt_pickle_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out);
