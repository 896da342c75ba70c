/* A run as the tables that Nsight Systems exports, for people with scripts that read those:
 *
 *   CUDA_GPU_MEMORY_USAGE_EVENTS   a row an allocation and a free, of blocks of a pool whose memory is their segment
 *   CUPTI_ACTIVITY_KIND_KERNEL     a row a kernel
 *   NVTX_EVENTS                    push and pop ranges: spans, steps and phases, on a thread each
 *   StringIds                      the names of kernels
 *   TARGET_INFO_GPU, ENUM_CUDA_*   the device, and what numbers of the first table are called
 *
 * A table is there if it has rows. */
#ifndef MT_TRACE_EXPORT_NSYS_H
#define MT_TRACE_EXPORT_NSYS_H

#include "trace/query/trace.h"

/* Writes a database into the empty file at `path`. What it leaves there is of no use if it fails. */
mt_status mt_nsys_write(struct mt_trace *trace, const struct mt_run *run, const char *path);

#endif
