/* The tables of an export of Nsight Systems to SQLite: opened, checked, and queried for the rows of one process and
 * device.
 *
 *   CUDA_GPU_MEMORY_USAGE_EVENTS, NVTX_EVENTS ──▶ events in order of time
 *   CUPTI_ACTIVITY_KIND_KERNEL ─────────────────▶ kernels
 *   StringIds ──────────────────────────────────▶ strings by number
 *
 * Tables and columns exist only if something was recorded. The file is opened read-only and may be hostile: views,
 * virtual tables, triggers and computed columns are never used.
 *
 * Threads: one at a time. */
#pragma once

#include "base/number_map.h"
#include "trace/store/database.h"

#define MT_NSYS_MEMORY_TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"

/* The texts of StringIds, read once: a lookup in the file takes an index, which a damaged file may lack. Invariant:
 * `places` has the offset in `texts` of each number's text. */
struct mt_nsys_strings {
    char *texts; /* each ends with a NUL */
    size_t length, capacity;
    struct mt_number_map places;
};

struct mt_nsys_tables {
    struct mt_database *database;
    int64_t device, process;
    int64_t start_ns;                 /* of the first allocation */
    bool knows_device, knows_process; /* the memory table has these columns */
    struct mt_nsys_strings strings;
};

/* Opens the export at `path` and chooses the process and the device with most allocations; `device` narrows the choice
 * unless it is negative. Fails with MT_BAD_TRACE for a database without allocations of device memory, or a damaged one.
 * Close it in any case. */
mt_status mt_nsys_tables_open(const char *path, int64_t device, struct mt_nsys_tables *out);
void mt_nsys_tables_close(struct mt_nsys_tables *tables);

/* Returns the text of a number, the last of equal numbers; NULL if there is none. Valid until the tables are closed. */
const char *mt_nsys_tables_string(const struct mt_nsys_tables *tables, int64_t id);

/* Columns of the events. A range has its thread in A; an allocation or a free has address, bytes and stream in A, B and
 * C. */
enum {
    MT_NSYS_TIME,
    MT_NSYS_KIND,   /* below */
    MT_NSYS_NUMBER, /* of the row in its table: it identifies a range */
    MT_NSYS_A,
    MT_NSYS_B,
    MT_NSYS_C,
    MT_NSYS_TEXT,
    MT_NSYS_TEXT_ID /* of a text in StringIds, if TEXT is NULL */
};
enum { MT_NSYS_RANGE_BEGINS, MT_NSYS_RANGE_ENDS, MT_NSYS_ALLOCATION, MT_NSYS_FREE };

/* Prepares a statement whose rows are the events in order of time. At equal times, ends come first, then beginnings,
 * the longest range first, then memory in the order of the file. Finalize it in any case. */
mt_status mt_nsys_tables_events(const struct mt_nsys_tables *tables, struct mt_statement **out);

/* Prepares a statement whose rows are kernels (start, end, stream, number of the name) in order of time; NULL if none
 * were recorded. */
mt_status mt_nsys_tables_kernels(const struct mt_nsys_tables *tables, struct mt_statement **out);

/* Counts the allocations and frees of device memory of all processes and devices. */
mt_status mt_nsys_tables_count(const struct mt_nsys_tables *tables, uint64_t *out);
