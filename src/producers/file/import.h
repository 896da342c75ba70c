/* Files of other programs as runs of a trace.
 *
 *   file ──▶ table of readers ──▶ the one that recognizes it ──▶ struct mt_foreign ──▶ recorder ──▶ a run of the trace
 *
 * The first bytes of a file decide its format, not its name. A file is data: nothing in it is executed, and damaged or
 * hostile files take bounded memory and time. A file that can't be read to its end adds no run.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/import_reader.h"

/* Reads the file and adds a run to the trace. Fails with MT_FAILED if a file can't be read or written, with
 * MT_BAD_TRACE if the file is damaged or of no known format, and with MT_USAGE for wrong rules or a device that the
 * file lacks. Release the report in any case. */
mt_status mt_import(const struct mt_import_plan *plan, struct mt_import_report *out);
void mt_import_report_release(struct mt_import_report *report);
