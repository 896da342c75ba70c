/* The catalogue of a folder's ranks (ranks.h); for this folder only.
 *
 * Failures: those of connection.h. MT_BAD_TRACE: the file is damaged. Threads: one at a time. */
#pragma once

#include "trace/query/rank_rows.h"

struct mt_rank_catalogue;

/* Opens the catalogue at `path`, which is made if it is not there; NULL: one in memory. The caller closes it, also
 * after a failure. */
mt_status mt_rank_catalogue_open(const char *path, struct mt_rank_catalogue **out);
void mt_rank_catalogue_close(struct mt_rank_catalogue *catalogue); /* may be NULL */

/* True if a catalogue may be written at `path`: there is nothing, or a regular file. A link could lead anywhere. */
bool mt_rank_catalogue_may_be_at(const char *path);

/* True if the file at `path` is a catalogue, be it a damaged one: its header says so. */
bool mt_rank_catalogue_is_at(const char *path);

/* Makes the catalogue tell of these traces and no other, which lie in `folder`; "": names are paths. */
mt_status mt_rank_catalogue_update(struct mt_rank_catalogue *catalogue, const char *folder, char *const *names,
                                   size_t count);

/* Adds what the catalogue tells to *out. */
mt_status mt_rank_catalogue_load(struct mt_rank_catalogue *catalogue, const char *folder, struct mt_ranks *out);
