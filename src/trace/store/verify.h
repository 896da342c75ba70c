/* Checks a trace from end to end: its pages, SQLite's trees, the events of each run, and all derived tables.
 *
 *   pages     ──▶ their checksums                      (page_file.h)
 *   database  ──▶ SQLite's integrity check
 *   events    ──▶ gaps, the checksums of batches, the labels, spans and stacks that they name
 *   end       ──▶ records that were lost before they were stored
 *   summaries ──▶ derived from the events again, and compared row by row */
#pragma once

#include "trace/store/connection.h"
#include "trace/store/verify_rows.h"

/* Makes every check of an open trace and reports each. Reads all of the file, some tables more than once. Fails only if
 * the list of runs can't be read, or the system fails; damage is reported in a row. */
mt_status mt_verify_trace(struct mt_database *database, const struct mt_verify_visitor *visitor);
