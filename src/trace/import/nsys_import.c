#include "trace/import/nsys_import.h"

#include "base/interner.h"
#include "base/text.h"
#include "trace/import/frugal_names.h"
#include "trace/import/import_run.h"
#include "trace/import/import_sizes.h"
#include "trace/import/nsys_ranges.h"
#include "trace/import/nsys_strings.h"
#include "trace/import/nsys_tables.h"
#include "trace/store/database.h"

#include <inttypes.h>

/* What a row of the story is. */
enum { STORY_RANGE_BEGINS, STORY_RANGE_ENDS, STORY_ALLOCATION, STORY_FREE };

#define MEMORY_TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"
#define RANGE_TABLE "NVTX_EVENTS"
#define KERNEL_TABLE "CUPTI_ACTIVITY_KIND_KERNEL"
#define STRING_TABLE "StringIds"

/* Numbers of processes are multiples of it; those of their threads lie between. */
#define PROCESS_UNIT INT64_C(0x1000000)

struct nsys {
    struct mt_database *database;
    int64_t device, process, start_ns;
    bool knows_device, knows_process; /* whether memory tells of them */
    struct mt_foreign *foreign;
    struct mt_plain_labels *labels;
    struct mt_nsys_ranges *ranges;
    struct mt_nsys_strings strings;
    uint64_t allocations, frees, range_count, kernels;
    struct mt_import_sizes sizes; /* of allocations */
};

/* Adds the column's name, or what stands for it where there is none. */
static mt_status add_column(struct nsys *nsys, struct mt_text *sql, const char *table, const char *column,
                            const char *otherwise)
{
    bool is_there;
    mt_status status = mt_nsys_has_column(nsys->database, table, column, &is_there);
    mt_text_add(sql, "%s", is_there ? column : otherwise);
    return status;
}

/* Adds what makes a row of the table with memory one about memory of a device. */
static mt_status add_about_device(struct nsys *nsys, struct mt_text *sql)
{
    mt_text_add(sql, " memoryOperationType IN (0, 1) AND ");
    mt_status status = add_column(nsys, sql, MEMORY_TABLE, "memKind", "2");
    mt_text_add(sql, " NOT IN (0, 1)");
    return status;
}

/* Adds what makes a row one of the process and of the device, as far as the table and that with memory tell of them. A
 * thread's number lies within its process's. */
static mt_status add_owner(struct nsys *nsys, struct mt_text *sql, const char *table)
{
    const struct {
        const char *column;
        int64_t unit, value;
        bool is_known;
    } owners[] = {{"deviceId", 1, nsys->device, nsys->knows_device},
                  {"globalPid", PROCESS_UNIT, nsys->process, nsys->knows_process},
                  {"globalTid", PROCESS_UNIT, nsys->process, nsys->knows_process}};
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof owners / sizeof owners[0] && status == MT_OK; i++) {
        bool is_there;
        status = mt_nsys_has_column(nsys->database, table, owners[i].column, &is_there);
        if (status == MT_OK && is_there && owners[i].is_known)
            mt_text_add(sql, " AND %s / %" PRId64 " = %" PRId64, owners[i].column, owners[i].unit,
                        owners[i].value / owners[i].unit);
    }
    return status;
}

/* The process and the device with most allocations, or of the device that is asked for. */
static mt_status choose_process(struct nsys *nsys, int64_t device)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool row = false;
    mt_text_add(&sql, "SELECT ");
    mt_status status = add_column(nsys, &sql, MEMORY_TABLE, "deviceId", "0");
    mt_text_add(&sql, " AS device, ");
    if (status == MT_OK)
        status = add_column(nsys, &sql, MEMORY_TABLE, "globalPid", "0");
    mt_text_add(&sql,
                " AS process, min(start) FROM " MEMORY_TABLE " WHERE memoryOperationType = 0 AND (%" PRId64
                " < 0 OR device = %" PRId64 ") AND",
                device, device);
    if (status == MT_OK)
        status = add_about_device(nsys, &sql);
    mt_text_add(&sql, " GROUP BY 1, 2 ORDER BY count(*) DESC LIMIT 1");
    if (status == MT_OK)
        status = mt_database_prepare(nsys->database, mt_text_get(&sql), &statement);
    if (status == MT_OK)
        status = mt_statement_step(statement, &row);
    if (status == MT_OK && !row)
        status = mt_fail(MT_BAD_TRACE,
                         "it has no allocations of device memory%s: nsys profile records them with "
                         "--cuda-memory-usage=true",
                         device >= 0 ? " on that device" : "");
    if (status == MT_OK) {
        nsys->device = mt_statement_integer(statement, 0);
        nsys->process = mt_statement_integer(statement, 1);
        nsys->start_ns = mt_statement_integer(statement, 2);
    }
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

/* (what, time, number, a, b, text): allocations and frees with address, bytes, stream and name. */
static mt_status add_memory(struct nsys *nsys, struct mt_text *sql)
{
    mt_text_add(
        sql,
        "SELECT * FROM (SELECT start AS time, 2 + (memoryOperationType <> 0) AS what, rowid AS number, address AS a,"
        " bytes AS b, ");
    mt_status status = add_column(nsys, sql, MEMORY_TABLE, "streamId", "0");
    mt_text_add(sql, " AS c, ");
    if (status == MT_OK)
        status = add_column(nsys, sql, MEMORY_TABLE, "name", "NULL");
    mt_text_add(sql, " AS text, NULL AS string FROM " MEMORY_TABLE " WHERE");
    if (status == MT_OK)
        status = add_about_device(nsys, sql);
    return status == MT_OK ? add_owner(nsys, sql, MEMORY_TABLE) : status;
}

/* What a range is called: its own text, or the number of one that it shares. */
static mt_status add_range_text(struct nsys *nsys, struct mt_text *sql)
{
    mt_status status = add_column(nsys, sql, RANGE_TABLE, "text", "NULL");
    mt_text_add(sql, ", ");
    return status == MT_OK ? add_column(nsys, sql, RANGE_TABLE, "textId", "NULL") : status;
}

static mt_status add_ranges(struct nsys *nsys, struct mt_text *sql)
{
    bool is_there;
    struct mt_text thread = {0}, text = {0}, source = {0};
    mt_status status = mt_nsys_has_column(nsys->database, RANGE_TABLE, "eventType", &is_there);
    mt_text_add(&source, " FROM " RANGE_TABLE " WHERE eventType = 59 AND end >= start");
    if (status == MT_OK && is_there)
        status = add_owner(nsys, &source, RANGE_TABLE);
    if (status == MT_OK && is_there)
        status = add_column(nsys, &thread, RANGE_TABLE, "globalTid", "0");
    if (status == MT_OK && is_there)
        status = add_range_text(nsys, &text);
    if (status == MT_OK && is_there) {
        mt_text_add(sql, " UNION ALL SELECT start, 0, rowid, %s, 0, -end, %s%s", mt_text_get(&thread),
                    mt_text_get(&text), mt_text_get(&source));
        mt_text_add(sql, " UNION ALL SELECT end, 1, rowid, 0, 0, -start, NULL, NULL%s", mt_text_get(&source));
    }
    mt_text_release(&source);
    mt_text_release(&thread);
    mt_text_release(&text);
    return status;
}

/* Of two columns: the text itself, and the number of one. */
static const char *text_of(const struct nsys *nsys, const struct mt_statement *row, int column)
{
    const char *text = mt_statement_text(row, column);
    if (text == NULL && !mt_statement_is_null(row, column + 1))
        text = mt_nsys_strings_find(&nsys->strings, mt_statement_integer(row, column + 1));
    return text != NULL ? text : "";
}

/* From the first allocation on. */
static uint64_t run_time(const struct nsys *nsys, int64_t time_ns)
{
    int64_t since;
    return __builtin_sub_overflow(time_ns, nsys->start_ns, &since) || since < 0 ? 0 : (uint64_t)since;
}

static mt_status tell_allocation(struct nsys *nsys, uint64_t now, int64_t row, const char *name,
                                 struct mt_foreign_block *block)
{
    mt_status status = mt_import_sizes_add(&nsys->sizes, block->requested_bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "row %" PRId64 " of " MEMORY_TABLE, row);
    nsys->allocations++;
    mt_plain_labels_give(nsys->labels, name, mt_nsys_ranges_path(nsys->ranges), block);
    mt_plain_labels_count(nsys->labels, block);
    mt_foreign_take(nsys->foreign, now, block);
    return MT_OK;
}

static mt_status tell_row(struct nsys *nsys, const struct mt_statement *row)
{
    uint64_t now = run_time(nsys, mt_statement_integer(row, 0));
    int64_t number = mt_statement_integer(row, 2);
    const char *text = text_of(nsys, row, 6);
    struct mt_foreign_block block = {.address = (uint64_t)mt_statement_integer(row, 3),
                                     .requested_bytes = (uint64_t)mt_statement_integer(row, 4),
                                     .stream = (uint64_t)mt_statement_integer(row, 5)};
    switch (mt_statement_integer(row, 1)) {
    case STORY_RANGE_BEGINS:
        nsys->range_count++;
        mt_nsys_ranges_begin(nsys->ranges, now, number, mt_statement_integer(row, 3), text);
        break;
    case STORY_RANGE_ENDS:
        mt_nsys_ranges_end(nsys->ranges, now, number);
        break;
    case STORY_ALLOCATION:
        return tell_allocation(nsys, now, number, text, &block);
    default:
        nsys->frees++;
        mt_foreign_give(nsys->foreign, now, block.address);
    }
    return MT_OK;
}

/* Of equal times what ends comes first, then what begins, the longest first, then memory in its order. */
static mt_status tell_story(struct nsys *nsys)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool row = true;
    mt_status status = add_memory(nsys, &sql);
    if (status == MT_OK)
        status = add_ranges(nsys, &sql);
    mt_text_add(&sql, ") ORDER BY time, what = 1 DESC, what > 1, CASE WHEN what < 2 THEN c END, number");
    if (status == MT_OK)
        status = mt_database_prepare(nsys->database, mt_text_get(&sql), &statement);
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = tell_row(nsys, statement);
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

static void tell_kernel(struct nsys *nsys, const struct mt_statement *row)
{
    const char *name = mt_nsys_strings_find(&nsys->strings, mt_statement_integer(row, 3));
    const struct mt_kernel kernel = {.start_ns = run_time(nsys, mt_statement_integer(row, 0)),
                                     .end_ns = run_time(nsys, mt_statement_integer(row, 1)),
                                     .name = name != NULL ? name : "(unknown)",
                                     .step = MT_NO_STEP,
                                     .stream = (uint32_t)mt_statement_integer(row, 2)};
    nsys->kernels++;
    if (kernel.end_ns >= kernel.start_ns)
        mt_foreign_kernel(nsys->foreign, &kernel);
}

static mt_status tell_kernels(struct nsys *nsys)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool has_kernels = false, row = true;
    mt_status status = mt_nsys_has_column(nsys->database, KERNEL_TABLE, "demangledName", &has_kernels);
    if (status != MT_OK || !has_kernels)
        return status;
    mt_text_add(&sql, "SELECT start, end, ");
    status = add_column(nsys, &sql, KERNEL_TABLE, "streamId", "0");
    mt_text_add(&sql, ", demangledName FROM " KERNEL_TABLE " WHERE TRUE");
    if (status == MT_OK)
        status = add_owner(nsys, &sql, KERNEL_TABLE);
    mt_text_add(&sql, " ORDER BY start, rowid");
    if (status == MT_OK)
        status = mt_database_prepare(nsys->database, mt_text_get(&sql), &statement);
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        tell_kernel(nsys, statement);
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

/* Without these an event says nothing. */
static mt_status check_columns(struct nsys *nsys)
{
    static const char *const needed[] = {"start", "address", "bytes"};
    bool is_there = true;
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && status == MT_OK; i++) {
        status = mt_nsys_has_column(nsys->database, MEMORY_TABLE, needed[i], &is_there);
        if (status == MT_OK && !is_there)
            status = mt_fail(MT_BAD_TRACE,
                             "its table " MEMORY_TABLE " has no column %s, which every version of nsys "
                             "export writes",
                             needed[i]);
    }
    if (status == MT_OK)
        status = mt_nsys_has_column(nsys->database, MEMORY_TABLE, "deviceId", &nsys->knows_device);
    if (status == MT_OK)
        status = mt_nsys_has_column(nsys->database, MEMORY_TABLE, "globalPid", &nsys->knows_process);
    return status;
}

static mt_status check_tables(struct nsys *nsys)
{
    static const char *const tables[] = {MEMORY_TABLE, RANGE_TABLE, KERNEL_TABLE, STRING_TABLE};
    bool is_there;
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && status == MT_OK; i++)
        status = mt_nsys_check_table(nsys->database, tables[i]);
    if (status == MT_OK)
        status = mt_nsys_has_column(nsys->database, MEMORY_TABLE, "memoryOperationType", &is_there);
    if (status != MT_OK)
        return status;
    if (is_there)
        return check_columns(nsys);
    int64_t application = 0;
    if (mt_database_integer(nsys->database, "PRAGMA application_id", &application) == MT_OK &&
        application == MT_TRACE_APPLICATION_ID)
        return mt_fail(MT_BAD_TRACE, "it is a trace already: memtrace runs lists what it holds");
    return mt_fail(MT_BAD_TRACE, "it is a database without the table " MEMORY_TABLE
                                 ": nsys profile --cuda-memory-usage=true records it, nsys export --type sqlite "
                                 "writes it");
}

/* What of the memory's events is about other devices and other processes. */
static mt_status count_elsewhere(struct nsys *nsys, uint64_t *out)
{
    struct mt_text sql = {0};
    int64_t all = 0;
    mt_text_add(&sql, "SELECT count(*) FROM " MEMORY_TABLE " WHERE");
    mt_status status = add_about_device(nsys, &sql);
    if (status == MT_OK)
        status = mt_database_integer(nsys->database, mt_text_get(&sql), &all);
    mt_text_release(&sql);
    *out = (uint64_t)all - nsys->allocations - nsys->frees;
    return status;
}

static mt_status read_strings(struct nsys *nsys)
{
    bool has_ids = false, has_values = false;
    mt_status status = mt_nsys_has_column(nsys->database, STRING_TABLE, "id", &has_ids);
    if (status == MT_OK)
        status = mt_nsys_has_column(nsys->database, STRING_TABLE, "value", &has_values);
    return status == MT_OK && has_ids && has_values ? mt_nsys_strings_read(nsys->database, STRING_TABLE, &nsys->strings)
                                                    : status;
}

static void report(const struct nsys *nsys, struct mt_import_report *out)
{
    mt_import_count(out, "allocations", nsys->allocations);
    mt_import_count(out, "frees", nsys->frees);
    mt_import_count(out, "ranges", nsys->range_count);
    mt_import_count(out, "kernels", nsys->kernels);
    out->entries = nsys->allocations + nsys->frees + nsys->range_count + nsys->kernels;
    out->device = nsys->knows_device ? nsys->device : MT_TORCH_ANY_DEVICE;
    out->foreign = mt_foreign_counts(nsys->foreign);
    out->coverage = mt_plain_labels_coverage(nsys->labels);
}

mt_status mt_nsys_tell(const char *path, int64_t device, const struct mt_rules *rules, const struct mt_sink *sink,
                       struct mt_import_report *out)
{
    struct nsys nsys = {0};
    struct mt_frugal_names frugal;
    mt_status status = mt_database_open_foreign(path, &nsys.database);
    mt_frugal_names_create(&frugal, sink);
    const struct mt_sink names = mt_frugal_names_sink(&frugal);
    nsys.foreign = mt_foreign_create(sink);
    nsys.labels = mt_plain_labels_create(rules, &names);
    nsys.ranges = mt_nsys_ranges_create(&names, nsys.foreign, nsys.labels);
    if (status == MT_OK)
        status = check_tables(&nsys);
    if (status == MT_OK)
        status = read_strings(&nsys);
    if (status == MT_OK)
        status = choose_process(&nsys, device);
    if (status == MT_OK)
        status = tell_story(&nsys);
    if (status == MT_OK)
        status = tell_kernels(&nsys);
    if (status == MT_OK)
        status = count_elsewhere(&nsys, &out->elsewhere);
    report(&nsys, out);
    mt_nsys_ranges_destroy(nsys.ranges);
    mt_plain_labels_destroy(nsys.labels);
    mt_foreign_destroy(nsys.foreign);
    mt_nsys_strings_release(&nsys.strings);
    mt_frugal_names_release(&frugal);
    mt_database_close(nsys.database);
    return status;
}

mt_status mt_nsys_import(const struct mt_import_plan *plan, const struct mt_rules *rules, struct mt_import_report *out)
{
    const struct mt_import_source source = {.device = "Nsight Systems", .format = "Nsight Systems (SQLite)"};
    struct mt_import_report unused = {0};
    struct mt_recorder *recorder;
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink nobody = mt_sink_discarding(interner);
    out->kind = MT_IMPORT_NSYS;
    out->format = "Nsight Systems export (SQLite)";
    mt_status status = mt_nsys_tell(plan->file, plan->device, rules, &nobody, &unused);
    mt_interner_destroy(interner);
    if (status != MT_OK)
        return mt_fail_context(status, "%s can't be imported", plan->file);
    status = mt_import_run_open(plan, &source, &recorder);
    if (status != MT_OK)
        return status;
    out->run = mt_recorder_run(recorder);
    status = mt_nsys_tell(plan->file, plan->device, rules, mt_recorder_sink(recorder), out);
    return mt_status_keep(status, mt_recorder_close(recorder, status == MT_OK ? MT_RUN_DONE : MT_RUN_FAILED));
}
