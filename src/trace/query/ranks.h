/* The ranks of jobs, as the traces of a folder tell them: one trace a rank, as recorders name them.
 *
 *   FOLDER/  memtrace.db  memtrace-rank1.db  …     traces
 *            memtrace.ranks                        the catalogue: what was read of each, so that it is read once
 *
 * A trace is read anew if its size or its time of change is not the catalogue's, or if a run in it goes on. The
 * catalogue may be deleted at any time. Where it can't be written nothing is kept, and the answer is the same.
 *
 * Ownership: texts and arrays belong to the ranks, see mt_ranks_close. Threads: one at a time. */
#pragma once

#include "trace/query/rank_rows.h"

#define MT_RANK_CATALOGUE "memtrace.ranks"

/* Reads the ranks of `count` places: traces, and folders with files *.db. A file that can't be read
 * is a problem, and no failure. Fails with MT_USAGE if a place is not there. Close in any case. */
mt_status mt_ranks_open(const char *const *places, size_t count, struct mt_ranks *out);
void mt_ranks_close(struct mt_ranks *ranks);
