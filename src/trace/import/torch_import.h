/* A PyTorch memory snapshot as a run. */
#ifndef MT_TRACE_IMPORT_TORCH_IMPORT_H
#define MT_TRACE_IMPORT_TORCH_IMPORT_H

#include "trace/import/document.h"
#include "trace/import/import.h"

/* Adds the run and fills in the report. MT_BAD_TRACE for a damaged snapshot, MT_USAGE for a device that it is not about. */
mt_status mt_torch_import(const struct mt_import_plan *plan, const struct mt_document *document,
                          const struct mt_rules *rules, struct mt_import_report *out);

#endif
