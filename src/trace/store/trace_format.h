/* The tables of a trace, and the tables and columns that traces of older formats lack.
 *
 * The format is the file's user_version. It is incremented when an older program could no longer read the file, or its
 * ring. An older trace is read like one of the newest format: a reader gets temporary views that hide the tables that
 * differ, with NULL for values that are not stored. A writer upgrades the file itself before it adds a run.
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
    MT_TRACE_FORMAT_OF_OLD_ROLES = 3, /* the last one */
    MT_TRACE_FORMAT_WITHOUT_CHECKSUMS = 3,
    MT_TRACE_FORMAT_WITHOUT_CAVEATS = 4,
    MT_TRACE_FORMAT_WITHOUT_LOOPS = 5,
};

/* Fails with MT_BAD_TRACE unless the file has the tables of a trace of a format (schema_check.h). */
mt_status mt_trace_format_check(struct mt_database *database, int64_t format);

/* Creates the views that a reader of a trace of a format needs. */
mt_status mt_trace_format_view(struct mt_database *database, int64_t format);

/* Adds the tables and columns that a trace of a format, or an empty database (format 0), lacks. All or nothing: if the
 * process dies meanwhile, the file does not change, and the next writer upgrades it. `application_id` marks the file as
 * a trace. */
mt_status mt_trace_format_upgrade(struct mt_database *database, int64_t format, int application_id);
