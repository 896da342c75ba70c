/* The ring: events are safe in it as soon as emit returns, before they are processed further.
 *
 *   TRACE-ring:  ┌────────┬──────────────────────────────────────┐
 *                │ header │ capacity records of 64 bytes         │   a shared mapping of a file: its records survive
 *                └────────┴──────────────────────────────────────┘   the process, whatever kills it
 *
 *   position p is in record p % capacity;   tail <= head <= tail + capacity
 *   [tail, head)  written by the producer, not yet committed to the database
 *
 * One producer thread, one consumer thread. The producer writes records and then publishes them by moving the head
 * (release), so that at every moment the records below the head are complete. The consumer moves the tail once the
 * records below it are committed.
 *
 * The file is allocated in full when it is created: a full disk is then an error, and not a signal later. The writer of
 * the trace holds the file's lock (flock), so the lock of a dead process is free. */
#pragma once

#include "base/status.h"
#include "trace/store/ring_sum.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    MT_RING_DEFAULT_RECORDS = 1 << 20,
    MT_RING_FEWEST_RECORDS = 1 << 10, /* room for the longest record and more */
    MT_RING_STARTED_AT_BYTES = 40,
    MT_RING_APART_BYTES = 128, /* two cache lines: processors fetch some in pairs */
};

/* The beginning of the file. Each side writes its own cache lines. */
struct mt_ring_header {
    _Atomic uint64_t magic; /* first set to "unfinished", and last to "ring" */
    uint64_t capacity;      /* records, a power of two */
    int64_t run;            /* run.id and run.started_at of the run of these events */
    char started_at[MT_RING_STARTED_AT_BYTES];
    _Atomic int64_t pid; /* of the process that holds the lock */

    _Alignas(64) _Atomic uint64_t head; /* the producer's */
    _Atomic uint64_t stall_count;
    _Atomic uint64_t stall_ns;
    _Atomic uint64_t lost_events; /* emitted after the writer had failed and the ring was full */

    _Alignas(64) _Atomic uint64_t tail; /* the consumer's */
    _Atomic uint32_t writer_failed;     /* the producer no longer waits for room */
};

/* The locked file and, once formatted or mapped, its content. Invariant of the producer: tail_seen <= head <= tail_seen
 * + capacity.
 *
 * Both sides read the first fields for each record. The fields that the producer writes for each record are separated
 * from them and from the next structure in memory. Otherwise the cache line would bounce between two cores, which took
 * 2 to 4 ns an event. */
struct mt_ring {
    struct mt_ring_header *header; /* NULL: not mapped */
    union mt_record *records;
    uint64_t mask; /* capacity - 1 */
    size_t mapped_bytes;
    char *path;
    int file;
    char apart[MT_RING_APART_BYTES];
    uint64_t head;      /* the producer's copy of header->head */
    uint64_t tail_seen; /* the producer's copy of header->tail, which may have moved on since */
    char apart_too[MT_RING_APART_BYTES];
};

/* The purpose of a claim. */
typedef enum mt_ring_claim {
    MT_RING_CREATE,  /* creates the file if there is none; the caller will write or remove it. Retries a busy one for a
                     * short while, because recovery holds the lock only briefly */
    MT_RING_INSPECT, /* creates no file, needs no permission to write */
} mt_ring_claim;

typedef enum mt_ring_outcome {
    MT_RING_CLAIMED, /* the lock is ours, until release or remove */
    MT_RING_ABSENT,
    MT_RING_BUSY, /* another process holds it */
} mt_ring_outcome;

/* Tries to lock the ring of the trace at `trace_path`. *out is NULL unless claimed; *out_pid is the process that holds
 * a busy one, 0 if unknown. Fails with MT_FAILED if the file can't be opened or created, or is not a ring; then it is
 * not changed. */
mt_status mt_ring_open(const char *trace_path, mt_ring_claim claim, mt_ring_outcome *out_outcome, int64_t *out_pid,
                       struct mt_ring **out);

/* Formats a claimed ring as empty with `capacity` records, rounded up to a power of two, all allocated on disk. */
mt_status mt_ring_format(struct mt_ring *ring, uint64_t capacity, int64_t run, const char *started_at);

/* Maps the records that an earlier process left in a claimed ring, for reading. ring->header stays NULL if there are no
 * usable ones, because the process died while it created the ring. Fails with MT_FAILED if the file can't be mapped. */
mt_status mt_ring_map_leftover(struct mt_ring *ring);

/* Faults in the pages of `count` records from position `from` on, so that the producer does not have to. They may be in
 * use. */
void mt_ring_prefault(struct mt_ring *ring, uint64_t from, uint64_t count);

/* True if the ring's first page is all zeros, like a page that was never written to the file system. Then its records
 * are unknown. `ring` may be NULL. */
bool mt_ring_has_lost_header(const struct mt_ring *ring);

void mt_ring_release(struct mt_ring *ring); /* gives up the lock and leaves the file; may be NULL */
void mt_ring_remove(struct mt_ring *ring);  /* removes the file, then releases; may be NULL */

/* Renames the file to TRACE-ring-damaged or, if that exists, TRACE-ring-damaged-2 and so on; then releases. May be
 * NULL. */
void mt_ring_put_aside(struct mt_ring *ring);

/* Releases a forked child's copy of the ring, which would keep the lock as long as the child lives. Afterwards the copy
 * can't be used. Calls only functions that are safe in the child of a program with threads. */
void mt_ring_disown(struct mt_ring *ring);

/* Gives up a claimed ring that was not used: removes it, or only releases it if it has or may have records of an
 * earlier process. May be NULL. */
void mt_ring_abandon(struct mt_ring *ring);

static inline uint64_t mt_ring_capacity(const struct mt_ring *ring)
{
    return ring->mask + 1;
}

static inline union mt_record *mt_ring_record(const struct mt_ring *ring, uint64_t position)
{
    return &ring->records[position & ring->mask];
}

/* Producer: true if `count` more records fit. Reads the consumer's cache line only if the copy of the tail is too
 * old. */
static inline bool mt_ring_has_room(struct mt_ring *ring, uint64_t count)
{
    if (ring->head + count - ring->tail_seen <= ring->mask + 1)
        return true;
    ring->tail_seen = atomic_load_explicit(&ring->header->tail, memory_order_acquire);
    assert(ring->tail_seen <= ring->head);
    return ring->head + count - ring->tail_seen <= ring->mask + 1;
}

/* Producer: publishes the `count` records that were written from ring->head on, all at once. There was room for
 * them. */
static inline void mt_ring_publish(struct mt_ring *ring, uint64_t count)
{
    ring->head += count;
    assert(ring->head - ring->tail_seen <= mt_ring_capacity(ring));
    atomic_store_explicit(&ring->header->head, ring->head, memory_order_release);
}

/* Consumer: returns the position up to which records are published. */
static inline uint64_t mt_ring_head(const struct mt_ring *ring)
{
    return atomic_load_explicit(&ring->header->head, memory_order_acquire);
}

/* Consumer: moves the tail to `position`. */
static inline void mt_ring_free_up_to(struct mt_ring *ring, uint64_t position)
{
    assert(position >= atomic_load_explicit(&ring->header->tail, memory_order_relaxed) &&
           position <= mt_ring_head(ring));
    atomic_store_explicit(&ring->header->tail, position, memory_order_release);
}
