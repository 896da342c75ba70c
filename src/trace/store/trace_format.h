/* The tables of a trace, and what traces of older formats lack of them.
 *
 * The format is the file's user_version. It grows when an older program could no longer read the file, or its ring. An older
 * trace is read as one of the newest format: a reader gets temporary views that hide the tables that differ, with NULL
 * where nothing is stored. A writer brings the file itself up to date before it adds a run.
 *
 *   1   lacks table block_use
 *   2   and 1: lack table segment_part, since segments were mapped and unmapped as a whole
 *   3   and before: lack call stacks, checksums and other tables and columns, and give roles other names
 *   4   and before: lack caveats, program phases, pools, holders and findings
 *   5   and before: lack the peaks of program phases, and the loops in which holders grow
 *
 * trace_format.c lists the tables and columns that each format added. */
#pragma once

#include "trace/store/connection.h"

enum {
    MT_TRACE_FORMAT = 6,
    MT_TRACE_FORMAT_WITHOUT_USES = 1,
    MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS = 2,
    MT_TRACE_FORMAT_OF_OLD_ROLES = 3, /* the last */
    MT_TRACE_FORMAT_WITHOUT_CHECKSUMS = 3,
    MT_TRACE_FORMAT_WITHOUT_CAVEATS = 4,
    MT_TRACE_FORMAT_WITHOUT_LOOPS = 5,
};

/* Fails with MT_BAD_TRACE unless the file has the tables of a trace of that format (schema_check.h). */
mt_status mt_trace_format_check(struct mt_database *database, int64_t format);

/* Makes the views that a reader of a trace of that format needs. */
mt_status mt_trace_format_view(struct mt_database *database, int64_t format);

/* Adds what a trace of that format lacks, or an empty database (format 0). All or nothing: if the process dies in here the
 * file stays as it was, and the next writer does this. `application_id` is that of traces. */
mt_status mt_trace_format_upgrade(struct mt_database *database, int64_t format, int application_id);
