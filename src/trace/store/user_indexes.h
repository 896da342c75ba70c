/* Indexes that users added to a trace. SQLite may read through any index, and trusts its content. So an index is
 * compared with its table before the first of our statements reads through it, which takes half a second for a million
 * rows. Events and uses of blocks, of which there may be millions, are read without indexes (NOT INDEXED), except for
 * the relabels of a block: if a user has an index by allocation, too, SQLite may use either. */
#pragma once

#include "base/status.h"

struct mt_database;

/* Finds the indexes of an open trace that are not ours, and has them compared from now on (mt_database_set_guard). A
 * statement that reads through an index that differs from its table then fails with MT_BAD_TRACE and the index's
 * name. */
mt_status mt_user_indexes_distrust(struct mt_database *database);
