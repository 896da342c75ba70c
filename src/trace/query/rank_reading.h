/* What a catalogue of ranks has of a trace; for this folder only. */
#ifndef MT_TRACE_RANK_READING_H
#define MT_TRACE_RANK_READING_H

#include "trace/query/rank_rows.h"

/* Visits the newest run of each rank in a trace; texts are valid during the call. Fails with MT_USAGE if it has none. */
mt_status mt_rank_visit(const char *path, void *context, mt_status (*visit)(void *context, const struct mt_rank *rank));

#endif
