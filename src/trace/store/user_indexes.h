/* Indexes that users added to a trace. SQLite reads through an index as it likes, and believes what it says. So an
 * index is compared with its table before the first of our statements reads through it, which takes half a second for a million
 * rows. Events and uses of blocks, of which there may be millions, are read through none (NOT INDEXED), but for the relabels
 * of a block: if a user has an index by allocation, too, SQLite takes either. */
#ifndef MT_TRACE_USER_INDEXES_H
#define MT_TRACE_USER_INDEXES_H

#include "base/status.h"

struct mt_database;
struct mt_user_indexes;

/* Finds the indexes of an open trace that are none of ours. *out is NULL if there are none, as a rule. */
mt_status mt_user_indexes_find(struct mt_database *database, struct mt_user_indexes **out);
void mt_user_indexes_destroy(struct mt_user_indexes *indexes); /* may be NULL */

/* Compares all of them, for who changes the trace. Fails as below. */
mt_status mt_user_indexes_check_all(struct mt_user_indexes *indexes, struct mt_database *database);

/* Compares the indexes through which the statement reads, unless they were compared before. Fails with MT_BAD_TRACE and the
 * name of one that is not what its table says. `indexes` may be NULL. */
mt_status mt_user_indexes_check(struct mt_user_indexes *indexes, struct mt_database *database, const char *sql);

#endif
