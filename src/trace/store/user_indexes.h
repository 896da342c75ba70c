/* Indexes that users added to a trace. SQLite reads through an index as it likes, and believes what it says. So an
 * index is compared with its table before the first of our statements reads through it, which takes half a second for a million
 * rows. Events and uses of blocks, of which there may be millions, are read through none (NOT INDEXED), but for the relabels
 * of a block: if a user has an index by allocation, too, SQLite takes either. */
#pragma once

#include "base/status.h"

struct mt_database;

/* Finds the indexes of an open trace that are none of ours, and has them compared from now on (mt_database_set_guard). A
 * statement that reads through one that is not what its table says then fails with MT_BAD_TRACE and its name. */
mt_status mt_user_indexes_distrust(struct mt_database *database);
