/* Whether the tables of a file are those of a trace: a file may be anybody's, and queries take its columns for what they are
 * called.
 *
 * Users' own tables, views and indexes (user_indexes.h), and columns that were added behind ours, are left alone. Threads: any. */
#pragma once

#include "trace/store/connection.h"

/* A column of the newest format. Texts are static. */
struct mt_schema_column {
    const char *table, *name, *type;
    bool is_not_null;
    int key; /* the position in the primary key, from 1; 0: not in it */
};

typedef enum mt_schema_need {
    MT_SCHEMA_ABSENT, /* from this format */
    MT_SCHEMA_NAMED,  /* of any type, as in a file that was brought up to date */
    MT_SCHEMA_SAME    /* of the same type and key */
} mt_schema_need;

/* Says how a column must be in a trace of that format. */
typedef mt_schema_need (*mt_schema_needs)(const struct mt_schema_column *column, int64_t format);

/* Fails with MT_BAD_TRACE unless the file has the columns that are needed, in ordinary tables, none of them generated, and no
 * trigger. */
mt_status mt_schema_check(struct mt_database *database, int64_t format, mt_schema_needs needs);

/* True if the newest format has an index of that name and text. */
bool mt_schema_has_index(const char *name, const char *sql);
