#include "trace/store/recorder.h"

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/interner.h"
#include "base/memory.h"
#include "trace/store/database.h"
#include "trace/store/intake.h"
#include "trace/store/record.h"
#include "trace/store/store.h"
#include "trace/store/trace_file.h"
#include "trace/store/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { HOST_NAME_BYTES = 256 };

/* Invariants: `losing` is set once an event was lost, and nothing is stored in the ring after that, so that the stored
 * events have no gap. From a run's beginning to its end there are a writer, an intake, an interner and names, all for
 * that run. */
struct mt_recorder {
    struct mt_sink sink;
    struct mt_ring *ring;
    struct mt_interner *interner;
    struct mt_name_set *kernel_names;
    struct mt_database *database;
    struct mt_intake *intake;
    struct mt_writer *writer; /* NULL: no run */
    int64_t run;              /* the newest: run.id */
    bool losing;
    char *path;
    struct mt_payload payload; /* of the item that is being written to the ring */
};

static bool writer_failed(const struct mt_recorder *recorder)
{
    return atomic_load(&recorder->ring->header->writer_failed) != 0;
}

/* Waits until half of the full ring is free, or `count` records if that is more. False if the writer has failed. */
static __attribute__((noinline)) bool wait_for_room(struct mt_recorder *recorder, uint64_t count)
{
    struct mt_ring *ring = recorder->ring;
    uint64_t begin_ns = mt_clock_ns(), half = mt_ring_capacity(ring) / 2;
    assert(recorder->writer != NULL && count <= mt_ring_capacity(ring));
    if (recorder->losing || writer_failed(recorder))
        return false;
    mt_writer_wait(recorder->writer, ring->head - (count > half ? mt_ring_capacity(ring) - count : half));
    atomic_fetch_add(&ring->header->stall_count, 1);
    atomic_fetch_add(&ring->header->stall_ns, mt_clock_ns() - begin_ns);
    return mt_ring_has_room(ring, count);
}

/* Reserves room for `count` records. False: they are lost. */
static bool reserve(struct mt_recorder *recorder, uint64_t count)
{
    if (mt_ring_has_room(recorder->ring, count) && !recorder->losing)
        return true;
    if (wait_for_room(recorder, count))
        return true;
    recorder->losing = true;
    return false;
}

/* The distance at which slots are prefetched. The writer's core used a slot's cache line last, and on some processors a
 * store that waits for the line takes longer than the rest of an event. */
enum { SLOTS_AHEAD = 8 };

/* Stores one record with its checksum in the ring, which must have room. */
static inline __attribute__((always_inline)) void store_record(struct mt_ring *ring, union mt_record record,
                                                               bool is_quick)
{
    union mt_record *slot = mt_ring_record(ring, ring->head);
    assert(record.event.kind < MT_EVENT_KIND_COUNT || record.event.kind >= MT_RECORD_LABEL);
    *slot = record; /* before the checksum is computed, so that its words need not be kept in registers */
    slot->words[7] = mt_record_word((uint32_t)record.words[7],
                                    is_quick ? mt_sum_quick_at(&record, ring->head) : mt_sum_at(&record, ring->head));
    __builtin_prefetch(mt_ring_record(ring, ring->head + SLOTS_AHEAD), 1);
    mt_ring_publish(ring, 1);
}

/* Emits on any processor, including events that have to wait or are lost. */
static __attribute__((noinline)) void emit_slowly(void *context, const struct mt_event *event)
{
    struct mt_recorder *recorder = context;
    if (reserve(recorder, 1))
        store_record(recorder->ring, mt_record_of_event(event), false);
    else
        atomic_fetch_add(&recorder->ring->header->lost_events, 1);
}

/* The same on a processor with a CRC instruction. It calls no function, so it saves no registers for a call. */
static void emit_quickly(void *context, const struct mt_event *event)
{
    struct mt_recorder *recorder = context;
    if (mt_ring_has_room(recorder->ring, 1) && !recorder->losing)
        store_record(recorder->ring, mt_record_of_event(event), true);
    else
        emit_slowly(context, event);
}

/* True if the host has no more memory for labels and other names. Then nothing more is stored. */
static bool is_out_of_memory(struct mt_recorder *recorder)
{
    recorder->losing |= mt_host_is_exhausted();
    return mt_host_is_exhausted();
}

/* Stores recorder->payload. If it is lost, so are all later events, which are counted. */
static void store_payload(struct mt_recorder *recorder, uint16_t kind, uint32_t id)
{
    uint64_t records = mt_payload_records(recorder->payload.length);
    if (!reserve(recorder, records))
        return;
    mt_payload_write(&recorder->payload, kind, id, recorder->ring);
    mt_ring_publish(recorder->ring, records);
}

static void store_item(struct mt_recorder *recorder, uint16_t kind, uint32_t id, const void *item)
{
    mt_payload_set(&recorder->payload, kind, item);
    store_payload(recorder, kind, id);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    if (is_out_of_memory(recorder))
        return 0;
    mt_label_id id = mt_interner_label(recorder->interner, label, &is_new);
    if (is_new) {
        mt_payload_set_label(&recorder->payload, label, mt_interner_category_name(recorder->interner, label->category));
        store_payload(recorder, MT_RECORD_LABEL, id);
    }
    return id;
}

/* A category is stored with its first label. */
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
    if (is_out_of_memory(recorder))
        return 0;
    mt_span_id id = mt_interner_span(recorder->interner, parent, name, &is_new);
    if (is_new)
        store_item(recorder, MT_RECORD_SPAN, id, mt_interner_find_span(recorder->interner, id));
    return id;
}

static mt_frame_id intern_frame(void *context, const struct mt_frame *frame)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    if (is_out_of_memory(recorder))
        return 0;
    mt_frame_id id = mt_interner_frame(recorder->interner, frame, &is_new);
    if (is_new)
        store_item(recorder, MT_RECORD_FRAME, id, frame);
    return id;
}

static mt_stack_id intern_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    if (is_out_of_memory(recorder))
        return 0;
    mt_stack_id id = mt_interner_stack(recorder->interner, parent, frame, &is_new);
    if (is_new)
        store_item(recorder, MT_RECORD_STACK, id, mt_interner_find_stack(recorder->interner, id));
    return id;
}

static void store_outside(void *context, const struct mt_outside *outside)
{
    store_item(context, MT_RECORD_OUTSIDE, 0, outside);
}

static void store_kernel(void *context, const struct mt_kernel *kernel)
{
    struct mt_recorder *recorder = context;
    bool is_new;
    if (is_out_of_memory(recorder))
        return;
    uint32_t name = mt_name_set_number(recorder->kernel_names, kernel->name, &is_new);
    if (is_new)
        store_item(recorder, MT_RECORD_KERNEL_NAME, name, &kernel->name);
    if (reserve(recorder, 1))
        store_record(recorder->ring, mt_record_of_kernel(kernel, name), false);
}

static void store_use(void *context, const struct mt_use *use)
{
    struct mt_recorder *recorder = context;
    if (reserve(recorder, 1))
        store_record(recorder->ring, mt_record_of_use(use), false);
}

/* Returns MT_NOT_WRITTEN for MT_FAILED, and any other status unchanged. */
static mt_status outcome(mt_status status)
{
    return status == MT_FAILED ? MT_NOT_WRITTEN : status;
}

mt_status mt_recorder_flush(struct mt_recorder *recorder)
{
    return outcome(mt_writer_wait(recorder->writer, recorder->ring->head));
}

void mt_recorder_measure(struct mt_recorder *recorder, const char *name, int64_t step, double value)
{
    const struct mt_measurement measurement = {.name = name, .step = step, .value = value};
    store_item(recorder, MT_RECORD_MEASUREMENT, 0, &measurement);
}

void mt_recorder_caveat(struct mt_recorder *recorder, const struct mt_caveat *caveat)
{
    store_item(recorder, MT_RECORD_CAVEAT, 0, caveat);
}

void mt_recorder_set(struct mt_recorder *recorder, const struct mt_run_setting *setting)
{
    store_item(recorder, MT_RECORD_SETTING, 0, setting);
}

void mt_recorder_program_phase(struct mt_recorder *recorder, mt_program_phase phase)
{
    store_item(recorder, MT_RECORD_PROGRAM_PHASE, 0, &phase);
}

void mt_recorder_holder(struct mt_recorder *recorder, const struct mt_holder *holder)
{
    store_item(recorder, MT_RECORD_HOLDER, 0, holder);
}

void mt_recorder_ended_by(struct mt_recorder *recorder, mt_ended_by reason)
{
    store_item(recorder, MT_RECORD_ENDED_BY, 0, &reason);
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

/* Claims the ring. Waits for another writer for `wait_seconds`; 0: one short attempt. */
static mt_status claim_ring(struct mt_recorder *recorder, int wait_seconds)
{
    const uint64_t begin_ns = mt_clock_ns(), wait_ns = (uint64_t)wait_seconds * 1000000000;
    mt_ring_outcome outcome;
    int64_t pid;
    mt_status status;
    do
        status = mt_ring_open(recorder->path, MT_RING_CREATE, &outcome, &pid, &recorder->ring);
    while (status == MT_OK && outcome == MT_RING_BUSY && mt_clock_ns() - begin_ns < wait_ns);
    if (status != MT_OK || outcome == MT_RING_CLAIMED)
        return status;
    if (pid == 0)
        return mt_fail(MT_FAILED, "%s is being written by another process", recorder->path);
    return mt_fail(MT_FAILED, "%s is being written by process %lld", recorder->path, (long long)pid);
}

/* Years are written with four digits. */
#define FIRST_US_OF_YEAR_10000 (UINT64_C(253402300800) * 1000000)

static uint64_t now_us(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_usec;
}

/* Writes a time since 1970; the current time for 0 and for impossible times. */
static void format_time(uint64_t us, char *text)
{
    struct tm utc;
    if (us == 0 || us >= FIRST_US_OF_YEAR_10000)
        us = now_us();
    time_t seconds = (time_t)(us / 1000000);
    gmtime_r(&seconds, &utc);
    size_t length = strftime(text, MT_RING_STARTED_AT_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, MT_RING_STARTED_AT_BYTES - length, ".%06" PRIu64 "Z", us % 1000000);
}

/* Returns the name of this host, "" if it has none. */
static const char *host_name(char *text, size_t bytes)
{
    text[0] = '\0';
    if (gethostname(text, bytes) != 0)
        text[0] = '\0';
    text[bytes - 1] = '\0';
    return text;
}

/* Adds the run's row, with its place in a job, its host and its process. */
static mt_status add_run_row(struct mt_recorder *recorder, const struct mt_run_info *info, const char *started_at)
{
    char host[HOST_NAME_BYTES];
    const struct mt_run_rank none = {-1, -1, -1}, *rank = info->rank != NULL ? info->rank : &none;
    bool is_live = info->origin == MT_RUN_LIVE;
    struct mt_statement *statement;
    MT_TRY(mt_database_prepare(
        recorder->database,
        "INSERT INTO run (id, name, started_at, device, capacity_bytes, rank, local_rank, world_size, host, job, pid,"
        " state, first_event, event_count, ring_position, lost_events, stall_count, stall_ns, complete_from_bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " 'running', (SELECT coalesce(max(id), 0) + 1 FROM event NOT INDEXED), 0, 0, 0, 0, 0, 0)",
        &statement));
    mt_status status = MT_RUN_WITH(
        statement, 1, MT_BIND_INTEGER(recorder->run), MT_BIND_TEXT(info->name), MT_BIND_TEXT(started_at),
        MT_BIND_TEXT(info->device), MT_BIND_INTEGER(info->capacity_bytes), MT_BIND_INTEGER_UNLESS(-1, rank->rank),
        MT_BIND_INTEGER_UNLESS(-1, rank->local_rank), MT_BIND_INTEGER_UNLESS(-1, rank->world_size),
        MT_BIND_TEXT(is_live ? host_name(host, sizeof host) : NULL), MT_BIND_TEXT(info->job),
        is_live ? MT_BIND_INTEGER(getpid()) : MT_BIND_NULL);
    mt_statement_finalize(statement);
    return status;
}

static mt_status add_settings(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare_insert(recorder->database, "setting", "run, name, value", &statement);
    for (size_t i = 0; i < info->setting_count && status == MT_OK; i++)
        status = MT_RUN_WITH(statement, 1, MT_BIND_INTEGER(recorder->run), MT_BIND_TEXT(info->settings[i].name),
                             MT_BIND_TEXT(info->settings[i].value));
    mt_statement_finalize(statement);
    return status;
}

/* Returns the kernel's estimate of this host's maximum clock error, in microseconds; NAN if the clock is not
 * synchronized. */
static double clock_error_us(void)
{
    struct timex now = {.modes = 0};
    const int state = adjtimex(&now);
    return state == -1 || state == TIME_ERROR || (now.status & STA_UNSYNC) != 0 ? (double)NAN : (double)now.maxerror;
}

/* Adds the accuracy of the start of a rank's run, which is used to compare times of several hosts. */
static mt_status add_clock(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    struct mt_statement *statement;
    if (info->rank == NULL || info->origin != MT_RUN_LIVE)
        return MT_OK;
    MT_TRY(mt_database_prepare_insert(recorder->database, "measurement", "run, name, step, value", &statement));
    mt_status status = MT_RUN_WITH(statement, 1, MT_BIND_INTEGER(recorder->run), MT_BIND_TEXT("clock:error_us"),
                                   MT_BIND_INTEGER(-1), MT_BIND_REAL(clock_error_us()));
    mt_statement_finalize(statement);
    return status;
}

/* Adds the run. The ring is ready before the run's row exists, and the row before the first event. */
static mt_status add_run(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    char started_at[MT_RING_STARTED_AT_BYTES];
    format_time(info->start_us, started_at);
    MT_TRY(mt_database_integer(recorder->database, "SELECT coalesce(max(id), 0) + 1 FROM run", &recorder->run));
    MT_TRY(mt_ring_format(recorder->ring, info->ring_records, recorder->run, started_at));
    MT_TRY(mt_database_begin(recorder->database));
    mt_status status = add_run_row(recorder, info, started_at);
    MT_THEN(status, add_settings(recorder, info));
    MT_THEN(status, add_clock(recorder, info));
    MT_THEN(status, mt_database_commit(recorder->database));
    if (status != MT_OK)
        mt_database_rollback(recorder->database);
    return status;
}

static mt_status begin_run(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    assert(recorder->writer == NULL && recorder->intake == NULL && recorder->interner == NULL);
    recorder->interner = mt_interner_create();
    recorder->kernel_names = mt_name_set_create();
    MT_TRY(add_run(recorder, info));
    MT_TRY(mt_intake_create(recorder->database, recorder->run, &recorder->intake));
    return mt_writer_start(recorder->ring, recorder->intake, &recorder->writer);
}

mt_status mt_recorder_begin(struct mt_recorder *recorder, const struct mt_run_info *info)
{
    return outcome(begin_run(recorder, info));
}

/* Destroys everything that belongs only to the run. */
static void release_run(struct mt_recorder *recorder)
{
    mt_interner_destroy(recorder->interner);
    mt_name_set_destroy(recorder->kernel_names);
    mt_intake_destroy(recorder->intake);
    recorder->interner = NULL;
    recorder->kernel_names = NULL;
    recorder->intake = NULL;
}

/* Checks the file at the path, before other files are created next to it. */
static mt_status check_file(struct mt_recorder *recorder, const char *path)
{
    MT_TRY(mt_trace_file_resolve(path, &recorder->path));
    MT_TRY(mt_trace_file_check_writing(recorder->path));
    return mt_database_check_writing(recorder->path);
}

/* Completes an earlier process's runs. A damaged ring is kept, and this run gets a new one. */
static mt_status recover(struct mt_recorder *recorder)
{
    bool damaged;
    MT_TRY(mt_recovery_run(recorder->database, recorder->ring, &damaged));
    if (!damaged)
        return MT_OK;
    mt_ring_put_aside(recorder->ring);
    recorder->ring = NULL;
    return claim_ring(recorder, 0);
}

static mt_status start(struct mt_recorder *recorder, const char *path, const struct mt_run_info *info)
{
    MT_TRY(check_file(recorder, path));
    MT_TRY(claim_ring(recorder, info->wait_seconds));
    MT_TRY(mt_database_open_writing(recorder->path, &recorder->database));
    MT_TRY(recover(recorder));
    return begin_run(recorder, info);
}

/* Frees the recorder, whose ring is released. */
static void destroy(struct mt_recorder *recorder)
{
    free(recorder->path);
    free(recorder);
}

static mt_status close_database(struct mt_recorder *recorder)
{
    release_run(recorder);
    return recorder->database == NULL ? MT_OK : mt_database_close_as_one_file(recorder->database);
}

static mt_status open_recorder(const char *path, const struct mt_run_info *info, struct mt_recorder **out)
{
    struct mt_recorder *recorder = mt_host_alloc(sizeof *recorder);
    recorder->sink = (struct mt_sink){.context = recorder,
                                      .emit = mt_sum_is_quick() ? emit_quickly : emit_slowly,
                                      .intern_label = intern_label,
                                      .intern_category = intern_category,
                                      .category_name = category_name,
                                      .intern_span = intern_span,
                                      .intern_frame = intern_frame,
                                      .intern_stack = intern_stack,
                                      .outside = store_outside,
                                      .kernel = store_kernel,
                                      .use = store_use};
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
    return outcome(status);
}

/* Adds the number of lost and waiting events to the text of the writer's failure `status`. */
static mt_status explain_failure(const struct mt_recorder *recorder, mt_status status)
{
    uint64_t lost = atomic_load(&recorder->ring->header->lost_events);
    assert(status != MT_OK);
    return mt_fail(status, "%s; %llu events were lost, %llu records wait in %s-ring until the trace is opened next",
                   mt_last_error(), (unsigned long long)lost,
                   (unsigned long long)(recorder->ring->head - atomic_load(&recorder->ring->header->tail)),
                   recorder->path);
}

static mt_status store_end(struct mt_recorder *recorder, mt_run_state state)
{
    const struct mt_ring_header *header = recorder->ring->header;
    assert(mt_intake_position(recorder->intake) == recorder->ring->head);
    const struct mt_run_end end = {.state = state,
                                   .lost_events = atomic_load(&header->lost_events),
                                   .stall_count = atomic_load(&header->stall_count),
                                   .stall_ns = atomic_load(&header->stall_ns)};
    return mt_intake_end(recorder->intake, &end);
}

static mt_status end_run(struct mt_recorder *recorder, mt_run_state state)
{
    assert(recorder->writer != NULL && state != MT_RUN_RUNNING);
    mt_status status = mt_writer_stop(recorder->writer);
    recorder->writer = NULL;
    MT_THEN(status, store_end(recorder, state));
    if (status != MT_OK) {
        atomic_store(&recorder->ring->header->writer_failed, 1);
        explain_failure(recorder, status);
    }
    release_run(recorder);
    return status;
}

mt_status mt_recorder_end(struct mt_recorder *recorder, mt_run_state state)
{
    sigset_t before;
    mt_file_limit_hold(&before);
    mt_status status = end_run(recorder, state);
    mt_file_limit_let_go(&before);
    return outcome(status);
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
    return outcome(status);
}

void mt_recorder_disown(struct mt_recorder *recorder)
{
    mt_ring_disown(recorder->ring);
}
