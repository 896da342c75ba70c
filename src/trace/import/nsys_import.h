/* An export of Nsight Systems to SQLite as a run: what the process with most allocations took on one device, its NVTX ranges
 * as spans, and its kernels.
 *
 *   CUDA_GPU_MEMORY_USAGE_EVENTS ─▶ blocks: a segment each, since an export does not say what a pool reserved
 *   NVTX_EVENTS ──────────────────▶ spans; ranges called "step 3" are steps, and those called like a phase are phases
 *   CUPTI_ACTIVITY_KIND_KERNEL ───▶ kernels
 *
 * Tables and columns may be absent: they are there if something was recorded. The file is opened read-only and believed
 * nothing: views, virtual tables and triggers are not looked at. */
#ifndef MT_TRACE_IMPORT_NSYS_IMPORT_H
#define MT_TRACE_IMPORT_NSYS_IMPORT_H

#include "trace/import/import.h"

/* Adds the run and fills in the report. MT_BAD_TRACE for a database without allocations, or a damaged one. */
mt_status mt_nsys_import(const struct mt_import_plan *plan, const struct mt_rules *rules, struct mt_import_report *out);

/* The same, told to anybody: an import first tells all to nobody, so that what is damaged adds no run. */
mt_status mt_nsys_tell(const char *path, int64_t device, const struct mt_rules *rules, const struct mt_sink *sink,
                       struct mt_import_report *out);

#endif
