#include "trace/store/ring.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_BYTES = 4096, CLAIM_TRIES = 20 };

/* "\0mtring4", or "\0mtring5" if checksums are not CRCs. */
static const uint64_t MAGIC = MT_SUM_IS_CRC ? 0x34676E6972746D00u : 0x35676E6972746D00u;
static const uint64_t UNFINISHED = 0x30676E6972746D00u; /* "\0mtring0": not finished */
static const struct timespec CLAIM_PAUSE = {.tv_nsec = 10 * 1000 * 1000};

_Static_assert(sizeof(struct mt_ring_header) <= HEADER_BYTES, "the header fits its page");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "positions are shared with other processes");

static char *ring_path(const char *trace_path)
{
    size_t bytes = strlen(trace_path) + sizeof "-ring";
    char *path = mt_host_alloc(bytes);
    snprintf(path, bytes, "%s-ring", trace_path);
    return path;
}

/* True if the open file is still the one at its path: its last holder may have removed it before we got the lock. */
static bool is_current(const struct mt_ring *ring)
{
    struct stat opened, named;
    return fstat(ring->file, &opened) == 0 && stat(ring->path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

static int64_t read_pid(int file)
{
    struct mt_ring_header header;
    if (pread(file, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return 0;
    return atomic_load(&header.pid);
}

/* Writes our pid for others to read, even if the content is an earlier process's. If it fails, they only lack the
 * pid. */
static void note_holder(const struct mt_ring *ring)
{
    int64_t pid = getpid();
    struct stat file;
    if (fstat(ring->file, &file) != 0 || file.st_size < HEADER_BYTES)
        return;
    if (pwrite(ring->file, &pid, sizeof pid, offsetof(struct mt_ring_header, pid)) < 0)
        return;
}

static bool is_power_of_two(uint64_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

bool mt_ring_has_lost_header(const struct mt_ring *ring)
{
    static const struct mt_ring_header zeros;
    struct mt_ring_header header;
    struct stat file;
    if (ring == NULL || fstat(ring->file, &file) != 0 || file.st_size <= HEADER_BYTES)
        return false;
    /* Ignores the pid, which the lock's holder may have written since. */
    return is_power_of_two(((uint64_t)file.st_size - HEADER_BYTES) / sizeof(union mt_record)) &&
           pread(ring->file, &header, sizeof header, 0) == (ssize_t)sizeof header &&
           memcmp(&header, &zeros, offsetof(struct mt_ring_header, pid)) == 0;
}

/* Fails unless the file is a ring, or will be one. Any file may have this name, and files that are not ours are not
 * touched. */
static mt_status check_file(const struct mt_ring *ring)
{
    const uint64_t family = UINT64_MAX >> 8; /* all but the digit at the end */
    uint64_t magic = 0;
    struct stat file;
    bool is_file = fstat(ring->file, &file) == 0 && S_ISREG(file.st_mode);
    if (is_file && file.st_size == 0)
        return MT_OK;
    if (is_file && pread(ring->file, &magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
        (magic == MAGIC || magic == UNFINISHED || mt_ring_has_lost_header(ring)))
        return MT_OK;
    if ((magic & family) == (MAGIC & family))
        return mt_fail(MT_FAILED, "%s belongs to another version of memtrace: open the trace with that one first",
                       ring->path);
    return mt_fail(MT_FAILED, "%s is in the way: not a ring of memtrace; move it", ring->path);
}

/* Opens the file without following a link or waiting for a pipe. */
static int open_file(const char *path, mt_ring_claim claim)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    if (claim == MT_RING_CREATE)
        return open(path, O_RDWR | O_CREAT | flags, 0666);
    int file = open(path, O_RDWR | flags);
    return file < 0 && errno != ENOENT ? open(path, O_RDONLY | flags) : file;
}

static mt_status fail_to_open(const struct mt_ring *ring, mt_ring_claim claim)
{
    if (errno == ELOOP || errno == EISDIR)
        return mt_fail(MT_FAILED, "%s is in the way: not a ring of memtrace; move it", ring->path);
    if (claim == MT_RING_INSPECT)
        return mt_fail(MT_FAILED, "can't open %s: %s", ring->path, strerror(errno));
    return mt_fail(MT_FAILED, "can't write to the folder of the trace (its ring, %s): %s", ring->path, strerror(errno));
}

/* Tries once, and sets *outcome. It is also MT_RING_BUSY if another file replaced this one meanwhile. */
static mt_status try_claim(struct mt_ring *ring, mt_ring_claim claim, mt_ring_outcome *outcome, int64_t *out_pid)
{
    ring->file = open_file(ring->path, claim);
    *outcome = MT_RING_ABSENT;
    if (ring->file < 0 && errno == ENOENT && claim == MT_RING_INSPECT)
        return MT_OK;
    if (ring->file < 0)
        return fail_to_open(ring, claim);
    MT_TRY(check_file(ring));
    *outcome = MT_RING_CLAIMED;
    if (flock(ring->file, LOCK_EX | LOCK_NB) == 0 && is_current(ring)) {
        note_holder(ring);
        return MT_OK;
    }
    *outcome = MT_RING_BUSY;
    *out_pid = read_pid(ring->file);
    close(ring->file);
    ring->file = -1;
    return MT_OK;
}

mt_status mt_ring_open(const char *trace_path, mt_ring_claim claim, mt_ring_outcome *out_outcome, int64_t *out_pid,
                       struct mt_ring **out)
{
    struct mt_ring *ring = mt_host_alloc(sizeof *ring);
    ring->path = ring_path(trace_path);
    ring->file = -1;
    *out = NULL;
    *out_pid = 0;
    mt_status status = try_claim(ring, claim, out_outcome, out_pid);
    int tries = claim == MT_RING_CREATE ? CLAIM_TRIES : 1;
    for (int i = 1; i < tries && status == MT_OK && *out_outcome == MT_RING_BUSY; i++) {
        nanosleep(&CLAIM_PAUSE, NULL);
        status = try_claim(ring, claim, out_outcome, out_pid);
    }
    if (status == MT_OK && *out_outcome == MT_RING_CLAIMED)
        *out = ring;
    else
        mt_ring_release(ring);
    assert(status != MT_OK || (*out != NULL) == (*out_outcome == MT_RING_CLAIMED));
    return status;
}

static uint64_t round_up_capacity(uint64_t records)
{
    uint64_t capacity = MT_RING_FEWEST_RECORDS;
    while (capacity < records && capacity < UINT64_MAX / 2 / sizeof(union mt_record))
        capacity *= 2;
    return capacity;
}

static void unmap(struct mt_ring *ring)
{
    if (ring->header != NULL)
        munmap(ring->header, ring->mapped_bytes);
    ring->header = NULL;
}

static mt_status map(struct mt_ring *ring, int protection, uint64_t capacity)
{
    assert(ring->header == NULL && ring->file >= 0);
    size_t bytes = HEADER_BYTES + capacity * sizeof(union mt_record);
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED, ring->file, 0);
    if (memory == MAP_FAILED)
        return mt_fail(MT_FAILED, "can't map %s (%zu bytes): %s", ring->path, bytes, strerror(errno));
    ring->header = memory;
    ring->records = (union mt_record *)((char *)memory + HEADER_BYTES);
    ring->mask = capacity - 1;
    ring->mapped_bytes = bytes;
    return MT_OK;
}

/* Empties the file and marks it as an unfinished ring, so that it is recognized if this process is killed. Returns an
 * errno, or 0. */
static int begin_file(int file)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, &UNFINISHED, sizeof UNFINISHED, 0) < 0)
        return errno;
    return 0;
}

/* Allocates the file. After a failure it is empty again, and not a partial ring. */
static mt_status allocate(struct mt_ring *ring, uint64_t capacity)
{
    off_t bytes = (off_t)(HEADER_BYTES + capacity * sizeof(union mt_record));
    int error = begin_file(ring->file);
    if (error == 0)
        error = posix_fallocate(ring->file, 0, bytes);
    if (error == 0)
        return MT_OK;
    if (ftruncate(ring->file, 0) != 0)
        error = errno;
    return mt_fail(MT_FAILED, "can't allocate the %lld bytes of %s: %s", (long long)bytes, ring->path, strerror(error));
}

mt_status mt_ring_format(struct mt_ring *ring, uint64_t capacity, int64_t run, const char *started_at)
{
    unmap(ring);
    assert(strlen(started_at) < MT_RING_STARTED_AT_BYTES);
    capacity = round_up_capacity(capacity == 0 ? MT_RING_DEFAULT_RECORDS : capacity);
    MT_TRY(allocate(ring, capacity));
    MT_TRY(map(ring, PROT_READ | PROT_WRITE, capacity));
    struct mt_ring_header *header = ring->header;
    assert(is_power_of_two(capacity) && mt_ring_head(ring) == 0);
    header->capacity = capacity;
    header->run = run;
    snprintf(header->started_at, sizeof header->started_at, "%s", started_at);
    atomic_store(&header->pid, getpid());
    ring->head = ring->tail_seen = 0;
    atomic_store_explicit(&header->magic, MAGIC, memory_order_release);
    return MT_OK;
}

/* True if the header is possible and the file has the size it implies. */
static bool header_is_sound(const struct mt_ring_header *header, uint64_t file_bytes)
{
    uint64_t capacity = header->capacity;
    return atomic_load(&header->magic) == MAGIC && capacity >= MT_RING_FEWEST_RECORDS && is_power_of_two(capacity) &&
           capacity == (file_bytes - HEADER_BYTES) / sizeof(union mt_record) &&
           memchr(header->started_at, '\0', sizeof header->started_at) != NULL;
}

mt_status mt_ring_map_leftover(struct mt_ring *ring)
{
    struct stat file;
    if (fstat(ring->file, &file) != 0 || file.st_size < HEADER_BYTES)
        return MT_OK;
    uint64_t capacity = ((uint64_t)file.st_size - HEADER_BYTES) / sizeof(union mt_record);
    mt_status status = map(ring, PROT_READ, capacity);
    if (status == MT_OK && !header_is_sound(ring->header, (uint64_t)file.st_size))
        unmap(ring);
    return status;
}

void mt_ring_prefault(struct mt_ring *ring, uint64_t from, uint64_t count)
{
    const uint64_t page = HEADER_BYTES / sizeof(union mt_record); /* records in one */
    uint64_t first = (from & ring->mask) / page * page;
    uint64_t room = mt_ring_capacity(ring) - first;
    /* If the kernel does not know the request, the producer faults the pages in: slower, but correct. */
    madvise(&ring->records[first], (count < room ? count : room) * sizeof(union mt_record), MADV_POPULATE_WRITE);
}

/* The mapping keeps the file open, so it is removed, too. */
void mt_ring_disown(struct mt_ring *ring)
{
    unmap(ring);
    if (ring->file >= 0)
        close(ring->file);
    ring->file = -1;
}

void mt_ring_release(struct mt_ring *ring)
{
    if (ring == NULL)
        return;
    mt_ring_disown(ring);
    free(ring->path);
    free(ring);
}

void mt_ring_remove(struct mt_ring *ring)
{
    if (ring == NULL)
        return;
    unlink(ring->path);
    mt_ring_release(ring);
}

void mt_ring_put_aside(struct mt_ring *ring)
{
    if (ring == NULL)
        return;
    struct mt_text path = {0};
    mt_text_add(&path, "%s-damaged", ring->path);
    for (int number = 2; access(mt_text_get(&path), F_OK) == 0; number++) {
        path.length = 0;
        mt_text_add(&path, "%s-damaged-%d", ring->path, number);
    }
    if (rename(ring->path, mt_text_get(&path)) != 0)
        unlink(ring->path);
    mt_text_release(&path);
    mt_ring_release(ring);
}

void mt_ring_abandon(struct mt_ring *ring)
{
    if (ring == NULL)
        return;
    mt_status status = ring->header == NULL ? mt_ring_map_leftover(ring) : MT_OK;
    bool is_empty =
        status == MT_OK && (ring->header == NULL ? !mt_ring_has_lost_header(ring) : mt_ring_head(ring) == 0);
    (is_empty ? mt_ring_remove : mt_ring_release)(ring);
}
