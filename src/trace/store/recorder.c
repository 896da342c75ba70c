#include "trace/store/recorder.h"

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/interner.h"
#include "base/memory.h"
#include "base/name_set.h"
#include "trace/store/intake.h"
#include "trace/store/record.h"
#include "trace/store/recovery.h"
#include "trace/store/trace_file.h"
#include "trace/store/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

/* Invariants: `losing` is set once an event was lost, and nothing is recorded after that, so that what is recorded has
 * no gap; there is a writer from a run's beginning to its end, and an intake, the interner and the names are of that run. */
struct mt_recorder {
    struct mt_sink sink;
    struct mt_ring *ring;
    struct mt_interner *interner;
    struct mt_name_set *kernel_names;
    struct mt_database *database;
    struct mt_intake *intake;
    struct mt_writer *writer; /* NULL: no run */
    int64_t run;              /* the newest */
    bool losing;
    char *path;
    struct mt_payload payload; /* of the item that is being written */
};

static bool writer_failed(const struct mt_recorder *recorder)
{
    return atomic_load(&recorder->ring->header->writer_failed) != 0;
}

/* The ring is full: waits until half of it is free, or as much as is needed. False if it will never be. */
static __attribute__((noinline)) bool wait_for_room(struct mt_recorder *recorder, uint64_t count)
{
    struct mt_ring *ring = recorder->ring;
    uint64_t begin_ns = mt_clock_ns(), half = mt_ring_capacity(ring) / 2;
    if (recorder->losing || writer_failed(recorder))
        return false;
    mt_writer_wait(recorder->writer, ring->head - (count > half ? mt_ring_capacity(ring) - count : half));
    atomic_fetch_add(&ring->header->stall_count, 1);
    atomic_fetch_add(&ring->header->stall_ns, mt_clock_ns() - begin_ns);
    return mt_ring_has_room(ring, count);
}

static bool reserve(struct mt_recorder *recorder, uint64_t count)
{
    if (mt_ring_has_room(recorder->ring, count) && !recorder->losing)
        return true;
    if (wait_for_room(recorder, count))
        return true;
    recorder->losing = true;
    return false;
}

/* Slots ahead that are asked for. A slot is a cache line that the writer's core had last: who stores to it without having
 * asked waits for it, on some processors longer than an event takes otherwise. */
enum { SLOTS_AHEAD = 8 };

/* False: lost. */
static inline bool send_record(struct mt_recorder *recorder, const struct mt_event *record)
{
    struct mt_ring *ring = recorder->ring;
    if (!reserve(recorder, 1))
        return false;
    *mt_ring_record(ring, ring->head) = *record;
    __builtin_prefetch(mt_ring_record(ring, ring->head + SLOTS_AHEAD), 1);
    mt_ring_publish(ring, 1);
    return true;
}

static void emit(void *context, const struct mt_event *event)
{
    struct mt_recorder *recorder = context;
    if (!send_record(recorder, event))
        atomic_fetch_add(&recorder->ring->header->lost_events, 1);
}

/* Sends recorder->payload behind its head. What is lost of these shows as the events that follow being lost. */
static void send_payload(struct mt_recorder *recorder, struct mt_event head)
{
    uint64_t records = mt_payload_records(recorder->payload.length);
    if (!reserve(recorder, records))
        return;
    mt_payload_write(&recorder->payload, head, recorder->ring);
    mt_ring_publish(recorder->ring, records);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    mt_label_id id = mt_interner_label(recorder->interner, label, &is_new);
    if (is_new) {
        mt_payload_set_label(&recorder->payload, label, mt_interner_category_name(recorder->interner, label->category));
        send_payload(recorder, (struct mt_event){.kind = MT_RECORD_LABEL, .label = id});
    }
    return id;
}

/* A category reaches the trace with its first label. */
static mt_category intern_category(void *context, const char *name)
{
    return mt_interner_category(((struct mt_recorder *)context)->interner, name);
}

static const char *category_name(void *context, mt_category category)
{
    return mt_interner_category_name(((struct mt_recorder *)context)->interner, category);
}

static mt_span_id intern_span(void *context, mt_span_id parent, const char *name)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    mt_span_id id = mt_interner_span(recorder->interner, parent, name, &is_new);
    if (is_new) {
        mt_payload_set_span(&recorder->payload, mt_interner_find_span(recorder->interner, id));
        send_payload(recorder, (struct mt_event){.kind = MT_RECORD_SPAN, .span = id});
    }
    return id;
}

/* As above: what is lost of these shows as the events that follow being lost. */
static void record_kernel(void *context, const struct mt_kernel *kernel)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    uint32_t name = mt_name_set_number(recorder->kernel_names, kernel->name, &is_new);
    if (is_new) {
        mt_payload_set_name(&recorder->payload, kernel->name);
        send_payload(recorder, (struct mt_event){.kind = MT_RECORD_KERNEL_NAME, .segment = name});
    }
    const struct mt_event record = mt_record_of_kernel(kernel, name);
    send_record(recorder, &record);
}

static void record_use(void *context, const struct mt_use *use)
{
    const struct mt_event record = mt_record_of_use(use);
    send_record(context, &record);
}

static mt_status flush(void *context)
{
    struct mt_recorder *recorder = context;
    return mt_writer_wait(recorder->writer, recorder->ring->head);
}

void mt_recorder_measure(struct mt_recorder *recorder, const char *name, int64_t step, double value)
{
    const struct mt_measurement measurement = {.name = name, .step = step, .value = value};
    mt_payload_set_measurement(&recorder->payload, &measurement);
    send_payload(recorder, (struct mt_event){.kind = MT_RECORD_MEASUREMENT});
}

const struct mt_sink *mt_recorder_sink(struct mt_recorder *recorder)
{
    return &recorder->sink;
}

const struct mt_interner *mt_recorder_interner(const struct mt_recorder *recorder)
{
    return recorder->interner;
}

int64_t mt_recorder_run(const struct mt_recorder *recorder)
{
    return recorder->run;
}

static mt_status claim_ring(struct mt_recorder *recorder)
{
    mt_ring_outcome outcome;
    int64_t pid;
    mt_status status = mt_ring_open(recorder->path, MT_RING_CREATE, &outcome, &pid, &recorder->ring);
    if (status != MT_OK || outcome == MT_RING_CLAIMED)
        return status;
    if (pid == 0)
        return mt_fail(MT_FAILED, "%s is being written by another process", recorder->path);
    return mt_fail(MT_FAILED, "%s is being written by process %lld", recorder->path, (long long)pid);
}

static void format_now(char *text)
{
    struct timeval now;
    struct tm utc;
    gettimeofday(&now, NULL);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(text, MT_RING_STARTED_AT_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, MT_RING_STARTED_AT_BYTES - length, ".%06ldZ", (long)now.tv_usec);
}

static mt_status add_run_row(struct mt_recorder *recorder, const struct mt_run_info *info, const char *started_at)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare(recorder->database,
                                           "INSERT INTO run VALUES (?, ?, 'running', ?, ?, ?,"
                                           " (SELECT coalesce(max(id), 0) + 1 FROM event), 0, 0, 0, 0, 0, 0)",
                                           &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 1, recorder->run);
    mt_statement_bind_text(statement, 2, info->name);
    mt_statement_bind_text(statement, 3, started_at);
    mt_statement_bind_text(statement, 4, info->device);
    mt_statement_bind_integer(statement, 5, (int64_t)info->capacity_bytes);
    status = mt_statement_run(statement);
    mt_statement_finalize(statement);
    return status;
}

static mt_status add_settings(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    struct mt_statement *statement;
    mt_status status =
        mt_database_prepare(recorder->database, "INSERT OR REPLACE INTO setting VALUES (?, ?, ?)", &statement);
    for (size_t i = 0; i < info->setting_count && status == MT_OK; i++) {
        mt_statement_bind_integer(statement, 1, recorder->run);
        mt_statement_bind_text(statement, 2, info->settings[i].name);
        mt_statement_bind_text(statement, 3, info->settings[i].value);
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* The ring is ready before the run's row says that there is a run, and the row before the first event. */
static mt_status add_run(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    char started_at[MT_RING_STARTED_AT_BYTES];
    format_now(started_at);
    mt_status status =
        mt_database_integer(recorder->database, "SELECT coalesce(max(id), 0) + 1 FROM run", &recorder->run);
    if (status == MT_OK)
        status = mt_ring_format(recorder->ring, info->ring_records, recorder->run, started_at);
    if (status == MT_OK)
        status = mt_database_begin(recorder->database);
    if (status == MT_OK)
        status = add_run_row(recorder, info, started_at);
    if (status == MT_OK)
        status = add_settings(recorder, info);
    if (status == MT_OK)
        status = mt_database_commit(recorder->database);
    if (status != MT_OK)
        mt_database_rollback(recorder->database);
    return status;
}

mt_status mt_recorder_begin(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    recorder->interner = mt_interner_create();
    recorder->kernel_names = mt_name_set_create();
    mt_status status = add_run(recorder, info);
    if (status == MT_OK)
        status = mt_intake_create(recorder->database, recorder->run, &recorder->intake);
    if (status == MT_OK)
        status = mt_writer_start(recorder->ring, recorder->intake, &recorder->writer);
    return status;
}

/* What the run had to itself. */
static void forget_run(struct mt_recorder *recorder)
{
    mt_interner_destroy(recorder->interner);
    mt_name_set_destroy(recorder->kernel_names);
    mt_intake_destroy(recorder->intake);
    recorder->interner = NULL;
    recorder->kernel_names = NULL;
    recorder->intake = NULL;
}

/* What the path leads to, before anything is made beside it. */
static mt_status check_file(struct mt_recorder *recorder, const char *path)
{
    mt_status status = mt_trace_file_resolve(path, &recorder->path);
    if (status == MT_OK)
        status = mt_trace_file_check_writing(recorder->path);
    return status == MT_OK ? mt_database_check_writing(recorder->path) : status;
}

static mt_status start(struct mt_recorder *recorder, const char *path, const struct mt_run_info *info)
{
    mt_status status = check_file(recorder, path);
    if (status == MT_OK)
        status = claim_ring(recorder);
    if (status == MT_OK)
        status = mt_database_open_writing(recorder->path, &recorder->database);
    if (status == MT_OK)
        status = mt_recovery_run(recorder->database, recorder->ring);
    return status == MT_OK ? mt_recorder_begin(recorder, info) : status;
}

/* Frees it; its ring is gone. */
static void destroy(struct mt_recorder *recorder)
{
    free(recorder->path);
    free(recorder);
}

static mt_status close_database(struct mt_recorder *recorder)
{
    forget_run(recorder);
    return recorder->database == NULL ? MT_OK : mt_database_close_as_one_file(recorder->database);
}

static mt_status open_recorder(const char *path, const struct mt_run_info *info, struct mt_recorder **out)
{
    struct mt_recorder *recorder = mt_host_alloc(sizeof *recorder);
    recorder->sink = (struct mt_sink){.context = recorder,
                                      .emit = emit,
                                      .intern_label = intern_label,
                                      .intern_category = intern_category,
                                      .category_name = category_name,
                                      .intern_span = intern_span,
                                      .kernel = record_kernel,
                                      .use = record_use,
                                      .flush = flush};
    *out = NULL;
    mt_status status = start(recorder, path, info);
    if (status == MT_OK) {
        *out = recorder;
        return MT_OK;
    }
    const struct mt_error error = mt_error_save(status);
    close_database(recorder);
    mt_ring_abandon(recorder->ring);
    destroy(recorder);
    return mt_error_restore(&error, MT_OK);
}

mt_status mt_recorder_open(const char *path, const struct mt_run_info *info, struct mt_recorder **out)
{
    sigset_t before;
    mt_file_limit_hold(&before);
    mt_status status = open_recorder(path, info, out);
    mt_file_limit_let_go(&before);
    return status;
}

/* Says what became of the events, after the writer's failure `status`. The ring stays: the next opening stores it. */
static mt_status explain_failure(const struct mt_recorder *recorder, mt_status status)
{
    uint64_t lost = atomic_load(&recorder->ring->header->lost_events);
    return mt_fail(status, "%s; %llu events were lost, %llu records wait in %s-ring until the trace is opened next",
                   mt_last_error(), (unsigned long long)lost,
                   (unsigned long long)(recorder->ring->head - atomic_load(&recorder->ring->header->tail)),
                   recorder->path);
}

static mt_status store_end(struct mt_recorder *recorder, mt_run_state state)
{
    const struct mt_ring_header *header = recorder->ring->header;
    const struct mt_run_end end = {.state = state,
                                   .lost_events = atomic_load(&header->lost_events),
                                   .stall_count = atomic_load(&header->stall_count),
                                   .stall_ns = atomic_load(&header->stall_ns)};
    return mt_intake_end(recorder->intake, &end);
}

static mt_status end_run(struct mt_recorder *recorder, mt_run_state state)
{
    mt_status status = mt_writer_stop(recorder->writer);
    recorder->writer = NULL;
    if (status == MT_OK)
        status = store_end(recorder, state);
    if (status != MT_OK) {
        atomic_store(&recorder->ring->header->writer_failed, 1);
        explain_failure(recorder, status);
    }
    forget_run(recorder);
    return status;
}

mt_status mt_recorder_end(struct mt_recorder *recorder, mt_run_state state)
{
    sigset_t before;
    mt_file_limit_hold(&before);
    mt_status status = end_run(recorder, state);
    mt_file_limit_let_go(&before);
    return status;
}

static mt_status close_recorder(struct mt_recorder *recorder, mt_run_state state)
{
    mt_status status = recorder->writer != NULL ? end_run(recorder, state) : MT_OK;
    const struct mt_error error = mt_error_save(status);
    bool is_stored = recorder->ring->header == NULL || !writer_failed(recorder);
    mt_status closed = close_database(recorder);
    if (is_stored)
        mt_ring_remove(recorder->ring);
    else
        mt_ring_release(recorder->ring);
    destroy(recorder);
    return mt_error_restore(&error, closed);
}

mt_status mt_recorder_close(struct mt_recorder *recorder, mt_run_state state)
{
    sigset_t before;
    if (recorder == NULL)
        return MT_OK;
    mt_file_limit_hold(&before);
    mt_status status = close_recorder(recorder, state);
    mt_file_limit_let_go(&before);
    return status;
}

void mt_recorder_disown(struct mt_recorder *recorder)
{
    mt_ring_disown(recorder->ring);
}
