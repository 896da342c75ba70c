/* Reads TOML files of settings. This is a subset of TOML 1.0: tables [name] with bare names; bare keys; values that are
 * strings in one line ("…" or '…'), whole decimal numbers, true, false, or lists of such strings, which may span lines;
 * comments. Anything else is an error that names its line, so that no file is read in another way than by other readers
 * of TOML.
 *
 * The subset has its own reader because the distributions that memtrace is built on have no library for TOML in C.
 *
 * Threads: any. */
#pragma once

#include "base/text.h"

typedef enum mt_toml_kind { MT_TOML_STRING, MT_TOML_INTEGER, MT_TOML_BOOLEAN, MT_TOML_STRINGS } mt_toml_kind;

/* A value. Borrowed by whoever takes it, for the time of the call. */
struct mt_toml_value {
    mt_toml_kind kind;
    char **texts; /* of a string, 1; of strings, `count` */
    size_t count;
    int64_t number; /* of an integer; of a boolean, 0 or 1 */
    int line;       /* where it begins, from 1 */
};

/* Receives the contents in their order. A table is begun before its keys. Keys above the first table have the table "".
 * A failure of either ends the reading; its text gets the line in front. */
struct mt_toml_taker {
    void *context;
    mt_status (*begin_table)(void *context, const char *name);
    mt_status (*take)(void *context, const char *key, const struct mt_toml_value *value);
};

/* Reads a file, or text that `name` names in errors. Fails with MT_USAGE if it can't be read or has an error, and with
 * what the taker fails. */
mt_status mt_toml_read(const char *path, const struct mt_toml_taker *taker);
mt_status mt_toml_parse(const char *name, const char *text, const struct mt_toml_taker *taker);
