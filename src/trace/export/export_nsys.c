/* A run as the tables that Nsight Systems exports, for scripts that read these tables:
 *
 *   CUDA_GPU_MEMORY_USAGE_EVENTS   a row for each allocation and free; a block's segment is its pool
 *   CUPTI_ACTIVITY_KIND_KERNEL     a row for each kernel
 *   NVTX_EVENTS                    push and pop ranges: spans, steps and phases, each kind on its own thread
 *   StringIds                      the names of kernels
 *   TARGET_INFO_GPU, ENUM_CUDA_*   the device, and the names of numbers in the first table
 *
 * A table exists if it has rows. SQLite does not write a database sequentially, so it is made in a
 * temporary file and copied. */
#include "base/interner.h"
#include "base/job_folder.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/export/export.h"
#include "trace/query/walk.h"
#include "trace/store/database.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Our process: globalPid / 0x1000000 % 0x1000000 is its number. Numbers of its threads follow globalPid. */
#define THE_PROCESS INT64_C(0x1000000)

enum { THE_CONTEXT = 1, KIND_DEVICE = 2, OPERATION_ALLOCATION = 0, OPERATION_FREE = 1, PUSH_POP_RANGE = 59 };

/* Ranges of a thread nest, so each kind has its own thread. */
typedef enum range_thread { THREAD_SPANS = 1, THREAD_STEPS, THREAD_PHASES, THREAD_COUNT } range_thread;

typedef enum export_table {
    TABLE_MEMORY,
    TABLE_KERNELS,
    TABLE_RANGES,
    TABLE_STRINGS,
    TABLE_DEVICE,
    TABLE_COUNT
} export_table;

/* Names for the numbers in the memory table, as scripts join them. */
#define MEMORY_WORDS                                                                                                   \
    "; CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"                      \
    " INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),"                      \
    " (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),"               \
    " (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'), (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),"               \
    " (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),"                                                  \
    " (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),"                                                \
    " (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');"                                                              \
    " CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"             \
    " INSERT INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES (0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),"         \
    " (1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation')"

static const struct {
    const char *create, *insert;
} tables[] = {
    [TABLE_MEMORY] = {"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,"
                      " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL,"
                      " pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,"
                      " memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER,"
                      " localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER,"
                      " localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER,"
                      " importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER)" MEMORY_WORDS,
                      "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc,"
                      " bytes, memKind, memoryOperationType, streamId, localMemoryPoolAddress,"
                      " localMemoryPoolSize, localMemoryPoolUtilizedSize, name)"
                      " VALUES (?1, ?2, 0, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"},
    [TABLE_KERNELS] = {"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,"
                       " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,"
                       " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,"
                       " shortName INTEGER NOT NULL, mangledName INTEGER, registersPerThread INTEGER, gridX INTEGER,"
                       " gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,"
                       " staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER,"
                       " graphNodeId INTEGER)",
                       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, globalPid,"
                       " demangledName, shortName) VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7)"},
    [TABLE_RANGES] = {"CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,"
                      " rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,"
                      " endGlobalTid INTEGER, textId INTEGER, domainId INTEGER)",
                      "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId)"
                      " VALUES (?1, ?2, ?3, ?4, ?5, 0)"},
    [TABLE_STRINGS] = {"CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
                       "INSERT INTO StringIds (id, value) VALUES (?1, ?2)"},
    [TABLE_DEVICE] = {"CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, busLocation TEXT,"
                      " totalMemory INTEGER, memoryBandwidth INTEGER, smCount INTEGER, uuid TEXT, chipName TEXT,"
                      " computeMajor INTEGER, computeMinor INTEGER)",
                      "INSERT INTO TARGET_INFO_GPU (id, name, totalMemory) VALUES (0, ?1, ?2)"},
};

/* A range that has begun and not ended. `number` identifies spans and steps. */
struct open_range {
    uint64_t start_ns, number;
};

struct open_ranges {
    struct open_range *ranges;
    size_t count;
};

/* A database under construction. Invariants: inserts[t] is prepared once table t exists; ranges[] has the open ranges
 * of each thread, the innermost last. */
struct nsys_export {
    struct mt_database *database;
    struct mt_statement *inserts[TABLE_COUNT];
    struct mt_walk *walk;
    const struct mt_span_row *spans;
    const struct mt_label_row *labels;
    char **names; /* of blocks, by label; NULL: not made yet */
    size_t span_count, label_count;
    struct mt_name_set *strings;
    struct open_ranges ranges[THREAD_COUNT];
    uint64_t reserved_bytes, allocated_bytes, last_ns;
};

/* Sets *out to the statement that adds a row. The first use creates the table. */
static mt_status insert_into(struct nsys_export *export, export_table table, struct mt_statement **out)
{
    assert(table < TABLE_COUNT);
    mt_status status = MT_OK;
    if (export->inserts[table] == NULL) {
        status = mt_database_execute(export->database, tables[table].create);
        MT_THEN(status, mt_database_prepare(export->database, tables[table].insert, &export->inserts[table]));
    }
    *out = export->inserts[table];
    return status;
}

/* Returns a block's name: its category, op and span. */
static const char *block_name(struct nsys_export *export, uint32_t number)
{
    assert(number < export->label_count);
    const struct mt_label_row *label = &export->labels[number];
    if (export->names[number] == NULL) {
        struct mt_text name = {0};
        mt_text_add(&name, "%s %s %s", label->category, label->op, label->span);
        export->names[number] = name.data;
    }
    return export->names[number];
}

/* Binds the first parameters of a statement. */
static void bind_integers(struct mt_statement *statement, const int64_t *values, int count)
{
    for (int i = 0; i < count; i++)
        mt_statement_bind_integer(statement, i + 1, values[i]);
}

static mt_status write_block(struct nsys_export *export, const struct mt_walk_event *event, int operation)
{
    struct mt_statement *insert;
    MT_TRY(insert_into(export, TABLE_MEMORY, &insert));
    bind_integers(insert,
                  (int64_t[]){(int64_t)event->time_ns, THE_PROCESS, THE_CONTEXT, (int64_t)event->address,
                              (int64_t)event->block_bytes, KIND_DEVICE, operation, event->stream,
                              (int64_t)(event->address - event->offset), (int64_t) export->reserved_bytes,
                              (int64_t) export->allocated_bytes},
                  11);
    mt_statement_bind_text(insert, 12, block_name(export, event->label));
    return mt_statement_run(insert);
}

static void begin_range(struct nsys_export *export, range_thread thread, uint64_t number, uint64_t time_ns)
{
    struct open_ranges *open = &export->ranges[thread];
    open->ranges = mt_host_room(open->ranges, open->count, sizeof *open->ranges);
    open->ranges[open->count++] = (struct open_range){time_ns, number};
}

static void bind_range_name(const struct nsys_export *export, struct mt_statement *insert, range_thread thread,
                            uint64_t number)
{
    struct mt_text name = {0};
    if (thread == THREAD_STEPS)
        mt_text_add(&name, "step %" PRIu64, number);
    else
        mt_text_add(&name, "%s",
                    thread == THREAD_PHASES ? mt_phase_name((mt_phase)number) : export->spans[number].path);
    mt_statement_bind_text(insert, 5, mt_text_get(&name));
    mt_text_release(&name);
}

static mt_status end_innermost(struct nsys_export *export, range_thread thread, uint64_t time_ns)
{
    assert(thread<THREAD_COUNT &&export->ranges[thread].count> 0);
    struct mt_statement *insert;
    struct open_ranges *open = &export->ranges[thread];
    struct open_range range = open->ranges[--open->count];
    MT_TRY(insert_into(export, TABLE_RANGES, &insert));
    bind_integers(insert, (int64_t[]){(int64_t)range.start_ns, (int64_t)time_ns, PUSH_POP_RANGE, THE_PROCESS + thread},
                  4);
    bind_range_name(export, insert, thread, range.number);
    return mt_statement_run(insert);
}

/* Ends the range and those inside it. Ignores a range that has not begun. */
static mt_status end_range(struct nsys_export *export, range_thread thread, uint64_t number, uint64_t time_ns)
{
    struct open_ranges *open = &export->ranges[thread];
    size_t depth = open->count;
    mt_status status = MT_OK;
    while (depth > 0 && open->ranges[depth - 1].number != number)
        depth--;
    while (depth > 0 && open->count >= depth && status == MT_OK)
        status = end_innermost(export, thread, time_ns);
    return status;
}

static mt_status end_all(struct nsys_export *export, range_thread thread, uint64_t time_ns)
{
    mt_status status = MT_OK;
    while (status == MT_OK && export->ranges[thread].count > 0)
        status = end_innermost(export, thread, time_ns);
    return status;
}

/* Begins a step or a phase, which ends the one before it. */
static mt_status begin_only_range(struct nsys_export *export, range_thread thread, const struct mt_walk_event *event)
{
    mt_status status = end_all(export, thread, event->time_ns);
    if (thread == THREAD_PHASES && event->value >= MT_PHASE_COUNT)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: it begins phase %" PRIu64 ", of %d", event->value,
                       MT_PHASE_COUNT);
    begin_range(export, thread, event->value, event->time_ns);
    return status;
}

static mt_status write_event(struct nsys_export *export, const struct mt_walk_event *event)
{
    export->last_ns = event->time_ns > export->last_ns ? event->time_ns : export->last_ns;
    switch (event->kind) {
    case MT_EVENT_SEGMENT_MAP:
        export->reserved_bytes += event->block_bytes;
        return MT_OK;
    case MT_EVENT_SEGMENT_UNMAP:
        export->reserved_bytes -= event->block_bytes;
        return MT_OK;
    case MT_EVENT_ALLOC:
        export->allocated_bytes += event->block_bytes;
        return write_block(export, event, OPERATION_ALLOCATION);
    case MT_EVENT_FREE:
        export->allocated_bytes -= event->block_bytes;
        return write_block(export, event, OPERATION_FREE);
    case MT_EVENT_SPAN_BEGIN:
        begin_range(export, THREAD_SPANS, event->span, event->time_ns);
        return MT_OK;
    case MT_EVENT_SPAN_END:
        return end_range(export, THREAD_SPANS, event->span, event->time_ns);
    case MT_EVENT_STEP_BEGIN:
        return begin_only_range(export, THREAD_STEPS, event);
    case MT_EVENT_STEP_END:
        return end_range(export, THREAD_STEPS, event->value, event->time_ns);
    case MT_EVENT_PHASE:
        return begin_only_range(export, THREAD_PHASES, event);
    default:
        return MT_OK;
    }
}

/* Sets *out to the number of a string. Its first use adds its row. */
static mt_status string_number(struct nsys_export *export, const char *text, int64_t *out)
{
    bool is_new;
    struct mt_statement *insert;
    *out = mt_name_set_number(export->strings, text, &is_new);
    if (!is_new)
        return MT_OK;
    MT_TRY(insert_into(export, TABLE_STRINGS, &insert));
    mt_statement_bind_integer(insert, 1, *out);
    mt_statement_bind_text(insert, 2, text);
    return mt_statement_run(insert);
}

/* Returns the name of a function without its type, namespaces, template arguments and parameters. The caller frees
 * it. */
static char *short_name(const char *name)
{
    size_t length = strcspn(name, "<(");
    const char *begin = name;
    for (const char *at = name; at < name + length; at++)
        if (*at == ' ' || *at == ':')
            begin = at + 1;
    length -= (size_t)(begin - name);
    struct mt_text text = {0};
    mt_text_add(&text, "%.*s", (int)length, begin);
    if (length > 0)
        return text.data;
    mt_text_release(&text);
    return mt_host_strdup(name);
}

static mt_status write_kernel(void *context, const struct mt_launch_row *launch)
{
    struct nsys_export *export = context;
    struct mt_statement *insert;
    int64_t full, brief;
    char *shortened = short_name(launch->name);
    mt_status status = string_number(export, launch->name, &full);
    MT_THEN(status, string_number(export, shortened, &brief));
    free(shortened);
    MT_THEN(status, insert_into(export, TABLE_KERNELS, &insert));
    if (status != MT_OK)
        return status;
    bind_integers(insert,
                  (int64_t[]){(int64_t)launch->start_ns, (int64_t)(launch->start_ns + launch->duration_ns), THE_CONTEXT,
                              launch->stream, THE_PROCESS, full, brief},
                  7);
    return mt_statement_run(insert);
}

static mt_status write_events(struct nsys_export *export)
{
    struct mt_walk_event event;
    bool more = true;
    mt_status status = MT_OK;
    while (status == MT_OK && (status = mt_walk_next(export->walk, &event, &more)) == MT_OK && more)
        status = write_event(export, &event);
    for (int thread = THREAD_SPANS; thread < THREAD_COUNT && status == MT_OK; thread++)
        status = end_all(export, (range_thread)thread, export->last_ns);
    return status;
}

/* Writes the device, if tables refer to it. */
static mt_status write_device(struct nsys_export *export, const struct mt_run *run)
{
    struct mt_statement *insert;
    if (export->inserts[TABLE_MEMORY] == NULL && export->inserts[TABLE_KERNELS] == NULL)
        return MT_OK;
    MT_TRY(insert_into(export, TABLE_DEVICE, &insert));
    mt_statement_bind_text(insert, 1, run->device);
    if (run->capacity_bytes > 0)
        mt_statement_bind_integer(insert, 2, (int64_t)run->capacity_bytes);
    return mt_statement_run(insert);
}

static void release(struct nsys_export *export)
{
    for (int i = 0; i < TABLE_COUNT; i++)
        mt_statement_finalize(export->inserts[i]);
    for (int i = 0; i < THREAD_COUNT; i++)
        free(export->ranges[i].ranges);
    for (size_t i = 0; i < export->label_count; i++)
        free(export->names[i]);
    free(export->names);
    mt_name_set_destroy(export->strings);
    mt_walk_end(export->walk);
    mt_database_close(export->database);
}

static mt_status write_tables(struct mt_trace *trace, const struct mt_run *run, const char *path)
{
    struct nsys_export export = {.strings = mt_name_set_create()};
    mt_status status = mt_walk_begin(trace, run, &export.walk);
    if (status == MT_OK) {
        export.labels = mt_walk_labels(export.walk, &export.label_count);
        export.spans = mt_walk_spans(export.walk, &export.span_count);
        export.names = mt_host_alloc(export.label_count * sizeof *export.names);
        status = mt_database_create_export(path, &export.database);
    }
    MT_THEN(status, write_events(&export));
    MT_THEN(status, mt_trace_launches_visit(trace, run, write_kernel, &export));
    MT_THEN(status, write_device(&export, run));
    MT_THEN(status, mt_database_execute(export.database, "COMMIT"));
    release(&export);
    return status;
}

enum { COPY_BYTES = 1 << 16 };

static mt_status fail_on(const char *path, const char *what)
{
    return mt_fail(MT_NOT_WRITTEN, "can't %s %s: %s", what, path, strerror(errno));
}

static mt_status copy(int from, const char *path, struct mt_output_file *file)
{
    char buffer[COPY_BYTES];
    ssize_t bytes;
    mt_status status = MT_OK;
    while (status == MT_OK && (bytes = read(from, buffer, sizeof buffer)) != 0) {
        if (bytes < 0 && errno != EINTR)
            return fail_on(path, "read");
        if (bytes > 0)
            mt_output_file_write(file, buffer, (size_t)bytes);
        status = mt_output_file_go_on(file);
    }
    return status;
}

static mt_status write_through(const struct mt_export_run *from, int descriptor, const char *path,
                               struct mt_output_file *file)
{
    mt_status status = write_tables(from->trace, from->run, path);
    if (status == MT_FAILED) /* the error is about the database at `path`, which is being written */
        return mt_fail_context(MT_NOT_WRITTEN, "the tables");
    return status == MT_OK ? copy(descriptor, path, file) : status;
}

mt_status mt_export_nsys(const struct mt_export_request *request, struct mt_output_file *file)
{
    struct mt_job_folder folder;
    struct mt_text path = {0};
    if (mt_job_folder_make(&folder) != MT_OK)
        return mt_fail_context(MT_NOT_WRITTEN, "the tables");
    mt_text_add(&path, "%s/tables.sqlite", folder.path);
    const int descriptor = open(path.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    mt_status status = descriptor < 0 ? fail_on(path.data, "make") : MT_OK;
    MT_THEN(status, write_through(&request->from, descriptor, path.data, file));
    if (descriptor >= 0)
        close(descriptor);
    mt_job_folder_remove(&folder);
    mt_text_release(&path);
    return status;
}
