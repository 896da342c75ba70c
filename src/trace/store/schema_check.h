/* Checks whether a file has the tables of a trace. A file may be untrusted, and queries rely on the names of its
 * columns.
 *
 * Ignores users' own tables, views and indexes (user_indexes.h), and columns that were added after ours. Threads:
 * any. */
#pragma once

#include "trace/store/connection.h"

/* A column of the newest format. Texts are static. */
struct mt_schema_column {
    const char *table, *name, *type;
    bool is_not_null;
    int key; /* the position in the primary key, from 1; 0: not in it */
};

typedef enum mt_schema_need {
    MT_SCHEMA_ABSENT, /* not in this format */
    MT_SCHEMA_NAMED,  /* with any type, as in a file that was upgraded */
    MT_SCHEMA_SAME    /* with the same type and key */
} mt_schema_need;

/* Returns what a trace of a format needs of a column. */
typedef mt_schema_need (*mt_schema_needs)(const struct mt_schema_column *column, int64_t format);

/* Fails with MT_BAD_TRACE unless the file has the needed columns, in ordinary tables, none of them generated, and no
 * trigger. */
mt_status mt_schema_check(struct mt_database *database, int64_t format, mt_schema_needs needs);

/* True if the newest format has an index with this name and text. */
bool mt_schema_has_index(const char *name, const char *sql);
