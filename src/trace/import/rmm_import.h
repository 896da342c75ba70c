/* A log of RMM, the RAPIDS Memory Manager, as a run: CSV with the columns Thread, Time, Action, Pointer, Size, Stream, in any
 * order, and a line an event. A log has no segments, so each block is one of its own, and nothing of who asked. */
#ifndef MT_TRACE_IMPORT_RMM_IMPORT_H
#define MT_TRACE_IMPORT_RMM_IMPORT_H

#include "trace/import/import.h"

/* Whether the text begins as such a log does. */
bool mt_rmm_is_one(const unsigned char *data, size_t length);

/* Adds the run and fills in the report. MT_BAD_TRACE, with the line, for what is no log. */
mt_status mt_rmm_import(const struct mt_import_plan *plan, const unsigned char *data, size_t length,
                        const struct mt_rules *rules, struct mt_import_report *out);

/* The same, told to anybody: an import first tells all to nobody, so that what is damaged adds no run. */
mt_status mt_rmm_tell(const unsigned char *data, size_t length, const struct mt_rules *rules,
                      const struct mt_sink *sink, struct mt_import_report *out);

#endif
