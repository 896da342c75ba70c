/* Throughput of the recorder: events a second that it stores in SQLite for as long as it is asked to. SQLite alone
 * stores the same columns through prepared inserts in the same run. Durability: the count of traces that hold all
 * emitted events after their processes were killed with SIGKILL.
 *
 *   bench_trace                      both, 30 seconds and 100 kills
 *   bench_trace sustained [seconds]
 *   bench_trace crash [kills]
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "bench/report.h"
#include "trace/store/database.h"
#include "trace/store/recorder.h"
#include "trace/store/store.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 30, KILLS = 100, LABELS = 900, LIVE_BLOCKS = 3000, STEP_MOVES = 10000, BARE_SHARE = 3 };
enum { BARE_TRANSACTION = 100000, CLOCK_EVERY = 1 << 16, MOST_DELAY_US = 60000 };

static const char path[] = "bench_trace.db";
static const char bare_path[] = "bench_trace_bare.db";

static void remove_trace(const char *trace)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal", "-ring"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", trace, endings[i]);
        unlink(name);
    }
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_trace: %s: %s\n", what, mt_last_error());
    return 1;
}

/* Events without end that look like a training run's: a block is freed, then another takes its slot; steps now and
 * then. Costs next to nothing to make. */
struct stream {
    uint64_t sequence, move;
    mt_label_id labels[LABELS];
    struct mt_event slots[LIVE_BLOCKS]; /* the alloc that is live in each; kind 0: none */
    uint64_t alloc_sequence[LIVE_BLOCKS];
    uint64_t freed_alloc; /* of the last event, if a free: the sequence of its alloc */
    bool slot_is_free;    /* whether the next move allocates */
};

static struct mt_event next_event(struct stream *stream)
{
    uint64_t slot = stream->move / 2 * 7 % LIVE_BLOCKS, random = mt_splitmix64(stream->move);
    struct mt_event *live = &stream->slots[slot], event = {0};
    if (stream->sequence % STEP_MOVES == 0) {
        event.kind = stream->sequence / STEP_MOVES % 2 == 0 ? MT_EVENT_STEP_BEGIN : MT_EVENT_STEP_END;
        event.value = stream->sequence / STEP_MOVES / 2;
    } else if (stream->move++ % 2 == 0 && live->kind == MT_EVENT_ALLOC) {
        event = *live;
        event.kind = MT_EVENT_FREE;
        stream->freed_alloc = stream->alloc_sequence[slot];
        live->kind = 0;
    } else if (live->kind == 0) {
        event.kind = MT_EVENT_ALLOC;
        event.label = stream->labels[random % LABELS];
        event.requested_bytes = 4096 * (1 + (random >> 32) % 4096);
        event.block_bytes = event.requested_bytes;
        event.segment = (uint32_t)(slot / 100);
        event.offset = slot % 100 << 24;
        *live = event;
        stream->alloc_sequence[slot] = stream->sequence;
    } else {
        event.kind = MT_EVENT_PHASE;
    }
    event.time_ns = stream->sequence * 900;
    event.sequence = stream->sequence++;
    return event;
}

static void make_labels(struct stream *stream, const struct mt_sink *sink)
{
    for (int i = 0; i < LABELS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", i / 30);
        const struct mt_label label = {.category = (mt_category)(i % MT_CATEGORY_COUNT),
                                       .phase = (mt_phase)(i % MT_PHASE_COUNT),
                                       .op = "einsum",
                                       .span = sink->intern_span(sink->context, 0, name),
                                       .layer = i / 30,
                                       .dims = 2,
                                       .shape = {4, i}};
        stream->labels[i] = sink->intern_label(sink->context, &label);
    }
}

static mt_status open_recorder(struct mt_recorder **out, struct stream **out_stream)
{
    const struct mt_run_info info = {.name = "bench", .device = "sim", .capacity_bytes = 1ull << 40};
    mt_status status = mt_recorder_open(path, &info, out);
    if (status != MT_OK)
        return status;
    *out_stream = mt_host_alloc(sizeof **out_stream);
    make_labels(*out_stream, mt_recorder_sink(*out));
    return MT_OK;
}

/* The result of one way of storing events. */
struct throughput {
    uint64_t events;
    double seconds;
};

static double rate(const struct throughput *throughput)
{
    return (double)throughput->events / throughput->seconds;
}

/* Emits for so long; the clock stops when everything is stored and the trace closed. */
static mt_status record(double seconds, struct throughput *out)
{
    struct mt_recorder *recorder;
    struct stream *stream;
    uint64_t begin_ns = mt_clock_ns();
    mt_status status = open_recorder(&recorder, &stream);
    if (status != MT_OK)
        return status;
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    while ((double)(mt_clock_ns() - begin_ns) < seconds * 1e9)
        for (int i = 0; i < CLOCK_EVERY; i++) {
            struct mt_event event = next_event(stream);
            sink->emit(sink->context, &event);
        }
    *out = (struct throughput){.events = stream->sequence};
    status = mt_recorder_close(recorder, MT_RUN_DONE);
    out->seconds = (double)(mt_clock_ns() - begin_ns) * 1e-9;
    free(stream);
    return status;
}

static void bind_or_null(struct mt_statement *statement, int index, bool there, uint64_t value)
{
    if (there)
        mt_statement_bind_integer(statement, index, (int64_t)value);
    else
        mt_statement_bind(statement, index, MT_BIND_NULL);
}

/* The columns that the recorder writes of this event. */
static mt_status insert_bare(struct mt_statement *insert, const struct mt_event *event, uint64_t freed_alloc)
{
    bool alloc = event->kind == MT_EVENT_ALLOC, release = event->kind == MT_EVENT_FREE;
    mt_statement_bind_integer(insert, 1, (int64_t)event->time_ns);
    mt_statement_bind_integer(insert, 2, event->kind);
    mt_statement_bind_integer(insert, 3, event->stream);
    bind_or_null(insert, 4, alloc || release, mt_label_number(event->label));
    mt_statement_bind(insert, 5, MT_BIND_NULL);
    mt_statement_bind_integer(insert, 6, (int64_t)event->requested_bytes);
    bind_or_null(insert, 7, alloc || release, event->block_bytes);
    bind_or_null(insert, 8, alloc, event->segment);
    bind_or_null(insert, 9, alloc, event->offset);
    bind_or_null(insert, 10, release, freed_alloc + 1);
    return mt_statement_run(insert);
}

static mt_status insert_for(struct mt_database *database, struct mt_statement *insert, double seconds,
                            struct throughput *out)
{
    struct stream *stream = mt_host_alloc(sizeof *stream);
    for (int i = 0; i < LABELS; i++)
        stream->labels[i] = (mt_label_id)i + 1;
    uint64_t begin_ns = mt_clock_ns();
    mt_status status = MT_OK;
    while ((double)(mt_clock_ns() - begin_ns) < seconds * 1e9 && status == MT_OK) {
        status = mt_database_begin(database);
        for (int i = 0; i < BARE_TRANSACTION && status == MT_OK; i++) {
            struct mt_event event = next_event(stream);
            status = insert_bare(insert, &event, stream->freed_alloc);
        }
        if (status == MT_OK)
            status = mt_database_commit(database);
    }
    *out = (struct throughput){stream->sequence, (double)(mt_clock_ns() - begin_ns) * 1e-9};
    free(stream);
    return status;
}

/* SQLite alone: the same table with the same pragmas, one prepared insert a row, large transactions. */
static mt_status record_bare(double seconds, struct throughput *out)
{
    struct mt_database *database;
    struct mt_statement *insert = NULL;
    mt_status status = mt_database_open_writing(bare_path, &database);
    if (status != MT_OK)
        return status;
    status = mt_database_prepare(database,
                                 "INSERT INTO event (time_ns, kind, stream, label, span, requested_bytes, block_bytes,"
                                 " segment, offset, allocation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                 &insert);
    if (status == MT_OK)
        status = insert_for(database, insert, seconds, out);
    mt_statement_finalize(insert);
    mt_database_close(database);
    return status;
}

/* The newest run's number in a column of table run. */
static int64_t of_run(const char *column)
{
    struct mt_database *database;
    char sql[128];
    int64_t value = -1;
    if (mt_store_open_reading(path, &database) != MT_OK)
        return -1;
    snprintf(sql, sizeof sql, "SELECT %s FROM run ORDER BY id DESC LIMIT 1", column);
    if (mt_database_integer(database, sql, &value) != MT_OK)
        value = -1;
    mt_database_close(database);
    return value;
}

static int bench_sustained(double seconds)
{
    struct throughput ours, bare;
    struct stat file;
    remove_trace(path);
    remove_trace(bare_path);
    if (record(seconds, &ours) != MT_OK || record_bare(seconds / (int)BARE_SHARE, &bare) != MT_OK)
        return fail("sustained");
    if (stat(path, &file) != 0 || of_run("event_count") != (int64_t)ours.events)
        return fail("the trace does not hold what was emitted");
    bench_report("events into SQLite, sustained", "1/s", rate(&ours), NAN, BENCH_AT_LEAST, 1e6);
    bench_report("against bare SQLite", "1/s", rate(&ours), rate(&bare), BENCH_AT_LEAST, 0.8 * rate(&bare));
    bench_report("trace per event", "B", (double)file.st_size / (double)ours.events, NAN, BENCH_AT_MOST, 45);
    bench_report("events lost", "", (double)of_run("lost_events"), NAN, BENCH_AT_MOST, 0);
    bench_report("waits for the ring, at full speed", "", (double)of_run("stall_count"), NAN, "", 0);
    remove_trace(path);
    remove_trace(bare_path);
    return 0;
}

/* The child: emits until it is killed, telling how many after each. */
static void emit_forever(_Atomic uint64_t *emitted)
{
    struct mt_recorder *recorder;
    struct stream *stream;
    if (open_recorder(&recorder, &stream) != MT_OK)
        _exit(1);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    for (;;) {
        struct mt_event event = next_event(stream);
        sink->emit(sink->context, &event);
        atomic_store_explicit(emitted, stream->sequence, memory_order_release);
    }
}

/* True if the trace is sound and its newest run has at least `count` events, each with its label and span. */
static bool holds(uint64_t count)
{
    static const char sound[] =
        "SELECT (SELECT integrity_check = 'ok' FROM pragma_integrity_check)"
        " AND NOT EXISTS (SELECT 1 FROM event LEFT JOIN label ON label.run = 1 AND label.id = event.label"
        " LEFT JOIN span ON span.run = 1 AND span.id = label.span"
        " WHERE event.kind IN (2, 3) AND (event.label IS NULL OR span.path IS NULL))"
        " AND NOT EXISTS (SELECT 1 FROM run WHERE state <> 'interrupted')"
        " AND (SELECT event_count = count(*) AND event_count = max(event.id) FROM run, event)";
    struct mt_database *database;
    int64_t is_sound = 0, events = 0;
    if (mt_store_open_reading(path, &database) != MT_OK)
        return false;
    mt_status status = mt_database_integer(database, sound, &is_sound);
    status = mt_status_keep(status, mt_database_integer(database, "SELECT count(*) FROM event", &events));
    mt_database_close(database);
    return status == MT_OK && is_sound == 1 && events >= (int64_t)count;
}

static void sleep_us(uint64_t us)
{
    const struct timespec pause = {.tv_nsec = (long)us * 1000};
    nanosleep(&pause, NULL);
}

/* One process, killed `delay_us` after its first event. */
static bool survives(_Atomic uint64_t *emitted, uint64_t delay_us)
{
    remove_trace(path);
    atomic_store(emitted, 0);
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0)
        emit_forever(emitted);
    while (atomic_load(emitted) == 0 && waitpid(child, NULL, WNOHANG) == 0)
        sleep_us(100);
    sleep_us(delay_us);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    uint64_t count = atomic_load(emitted);
    return count > 0 && holds(count);
}

static int bench_crash(uint64_t kills)
{
    _Atomic uint64_t *emitted = mmap(NULL, sizeof *emitted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t whole = 0, seed = mt_clock_ns();
    if (emitted == MAP_FAILED)
        return fail("crash");
    fprintf(stderr, "bench_trace: seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < kills; i++)
        whole += survives(emitted, mt_splitmix64(seed + i) % MOST_DELAY_US);
    munmap(emitted, sizeof *emitted);
    remove_trace(path);
    bench_report("whole traces after SIGKILL", "", (double)whole, NAN, BENCH_AT_LEAST, (double)kills);
    return 0;
}

int main(int argument_count, char **arguments)
{
    double number = argument_count > 2 ? strtod(arguments[2], NULL) : 0;
    if (argument_count == 1)
        return bench_sustained(SECONDS) | bench_crash(KILLS);
    if (strcmp(arguments[1], "sustained") == 0)
        return bench_sustained(number > 0 ? number : (double)SECONDS);
    if (strcmp(arguments[1], "crash") == 0)
        return bench_crash(number > 0 ? (uint64_t)number : KILLS);
    fprintf(stderr, "usage: bench_trace [sustained [seconds] | crash [kills]]\n");
    return 2;
}
