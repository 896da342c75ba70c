#include "trace/store/writer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STORE_RECORDS = 1 << 14, /* between looks at the clock */
    PREFAULT_RECORDS = 1 << 14,
    AHEAD_RECORDS = 1 << 16, /* at least this many, from the head on, are prefaulted */
    COMMIT_NS = 100 * 1000 * 1000,
    POLL_NS = 2 * 1000 * 1000,
    SECOND_NS = 1000 * 1000 * 1000,
};

/* The producer writes `wanted` and `stopping`, the thread writes `failure`. The lock belongs to the conditions.
 * Invariants: records below the ring's tail are committed; tail <= the intake's position <= head. */
struct mt_writer {
    struct mt_ring *ring;
    struct mt_intake *intake;
    pthread_t thread;
    struct mt_mutex lock;
    pthread_cond_t wake;     /* the thread has something to do */
    pthread_cond_t done;     /* the tail moved, or the thread failed */
    _Atomic uint64_t wanted; /* the producer waits until everything below is committed */
    _Atomic bool stopping;
    uint64_t opened_ns;      /* when the open transaction began */
    uint64_t prefaulted;     /* the position up to which pages were faulted in */
    struct mt_error failure; /* the first */
};

static uint64_t tail(const struct mt_writer *writer)
{
    return atomic_load_explicit(&writer->ring->header->tail, memory_order_relaxed);
}

static void announce(struct mt_writer *writer)
{
    mt_mutex_take(&writer->lock);
    pthread_cond_broadcast(&writer->done);
    mt_mutex_give(&writer->lock);
}

static void fail(struct mt_writer *writer, mt_status status)
{
    assert(status != MT_OK && writer->failure.status == MT_OK);
    mt_mutex_take(&writer->lock);
    writer->failure = mt_error_save(status);
    atomic_store(&writer->ring->header->writer_failed, 1);
    pthread_cond_broadcast(&writer->done);
    mt_mutex_give(&writer->lock);
}

static mt_status commit(struct mt_writer *writer)
{
    MT_TRY(mt_intake_commit(writer->intake));
    mt_ring_free_up_to(writer->ring, mt_intake_position(writer->intake));
    announce(writer);
    return MT_OK;
}

/* True if the open transaction should end: it is old, or large, or awaited, or the last. */
static bool commit_is_due(const struct mt_writer *writer, uint64_t head)
{
    uint64_t position = mt_intake_position(writer->intake), committed = tail(writer);
    uint64_t wanted = atomic_load(&writer->wanted);
    assert(committed <= position && position <= head);
    if (!mt_intake_is_open(writer->intake))
        return false;
    if (wanted > committed && position >= wanted)
        return true;
    if (position - committed >= mt_ring_capacity(writer->ring) / 2)
        return true;
    if (atomic_load(&writer->stopping) && position == head)
        return true;
    return mt_clock_ns() - writer->opened_ns >= COMMIT_NS;
}

static mt_status store(struct mt_writer *writer, uint64_t head)
{
    if (!mt_intake_is_open(writer->intake))
        writer->opened_ns = mt_clock_ns();
    MT_TRY(mt_intake_store(writer->intake, writer->ring, head, STORE_RECORDS));
    if (mt_intake_is_at_damage(writer->intake))
        return mt_fail(MT_FAILED,
                       "record %" PRIu64 " of the trace's ring was overwritten by another part of the program",
                       mt_intake_position(writer->intake));
    return MT_OK;
}

static void sleep_a_little(struct mt_writer *writer)
{
    uint64_t until_ns = mt_clock_ns() + POLL_NS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS), .tv_nsec = (long)(until_ns % SECOND_NS)};
    mt_mutex_take(&writer->lock);
    if (atomic_load(&writer->wanted) <= tail(writer) && !atomic_load(&writer->stopping))
        pthread_cond_timedwait(&writer->wake, &writer->lock.mutex, &until);
    mt_mutex_give(&writer->lock);
}

/* Uses a moment without records: faults in the ring's next pages, or sleeps. This is repeated on each lap, because the
 * kernel write-protects a page that it has written to the disk, and the next store to it takes 2 µs. */
static void idle(struct mt_writer *writer, uint64_t head)
{
    if (writer->prefaulted < head) /* the producer was faster */
        writer->prefaulted = head - head % PREFAULT_RECORDS;
    if (writer->prefaulted < mt_ring_capacity(writer->ring) || writer->prefaulted < head + AHEAD_RECORDS) {
        mt_ring_prefault(writer->ring, writer->prefaulted, PREFAULT_RECORDS);
        writer->prefaulted += PREFAULT_RECORDS;
        return;
    }
    sleep_a_little(writer);
}

/* Stores and commits once. Returns false if everything is committed and no more will come, or after a failure. */
static bool work(struct mt_writer *writer, mt_status *status)
{
    bool stopping = atomic_load(&writer->stopping);
    uint64_t head = mt_ring_head(writer->ring);
    bool new_records = head != mt_intake_position(writer->intake);
    *status = new_records ? store(writer, head) : MT_OK;
    if (mt_host_is_exhausted())
        *status = mt_fail(MT_NO_HOST_MEMORY, "the host has no more memory");
    if (*status == MT_OK && commit_is_due(writer, head))
        *status = commit(writer);
    if (*status != MT_OK)
        return false;
    if (new_records)
        return true;
    if (stopping && !mt_intake_is_open(writer->intake))
        return false;
    idle(writer, head);
    return true;
}

static void *run_thread(void *argument)
{
    struct mt_writer *writer = argument;
    mt_status status;
    while (work(writer, &status))
        continue;
    if (status != MT_OK)
        fail(writer, status);
    return NULL;
}

static void create_conditions(struct mt_writer *writer)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    mt_mutex_create(&writer->lock, MT_RANK_WRITER);
    pthread_cond_init(&writer->wake, &monotonic);
    pthread_cond_init(&writer->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void destroy(struct mt_writer *writer)
{
    pthread_cond_destroy(&writer->done);
    pthread_cond_destroy(&writer->wake);
    mt_mutex_destroy(&writer->lock);
    free(writer);
}

/* Starts the thread with all signals blocked, so that the program's threads handle the process's signals. */
static int start_thread(struct mt_writer *writer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&writer->thread, NULL, run_thread, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

mt_status mt_writer_start(struct mt_ring *ring, struct mt_intake *intake, struct mt_writer **out)
{
    struct mt_writer *writer = mt_host_alloc(sizeof *writer);
    assert(mt_ring_head(ring) == 0 && mt_intake_position(intake) == 0);
    writer->ring = ring;
    writer->intake = intake;
    create_conditions(writer);
    int error = start_thread(writer);
    if (error != 0) {
        destroy(writer);
        return mt_fail(MT_FAILED, "can't start the trace's writer thread: %s", strerror(error));
    }
    *out = writer;
    return MT_OK;
}

static mt_status outcome(const struct mt_writer *writer)
{
    return mt_error_restore(&writer->failure, MT_OK);
}

mt_status mt_writer_wait(struct mt_writer *writer, uint64_t position)
{
    assert(position <= writer->ring->head);
    mt_mutex_take(&writer->lock);
    atomic_store(&writer->wanted, position);
    pthread_cond_signal(&writer->wake);
    while (tail(writer) < position && writer->failure.status == MT_OK)
        pthread_cond_wait(&writer->done, &writer->lock.mutex);
    mt_status status = outcome(writer);
    mt_mutex_give(&writer->lock);
    return status;
}

mt_status mt_writer_stop(struct mt_writer *writer)
{
    if (writer == NULL)
        return MT_OK;
    mt_mutex_take(&writer->lock);
    atomic_store(&writer->stopping, true);
    pthread_cond_signal(&writer->wake);
    mt_mutex_give(&writer->lock);
    pthread_join(writer->thread, NULL);
    mt_status status = outcome(writer);
    destroy(writer);
    return status;
}
