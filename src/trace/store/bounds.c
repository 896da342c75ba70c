#include "trace/store/bounds.h"

#include "base/text.h"
#include "trace/store/page_file.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

/* SQLite calls back after this many of its instructions, which take some milliseconds. At most STILL_MS count between
 * two calls, since a process may be stopped, and a disk slow. */
enum { INSTRUCTIONS = 1 << 17, STILL_MS = 100 };

enum { LEAST_MS = 5000, LEAST_ROWS = 1000000, LEAST_BYTES = 256 << 20 };
enum { BYTES_A_SECOND = 1 << 20, BYTES_A_ROW = 4, MEMORY_A_BYTE = 4 };

static bool counts_memory;

void mt_bounds_count_memory(void)
{
    counts_memory = true;
}

/* Returns a clock that is read in a few nanoseconds and advances every few milliseconds. Sums of its differences are
 * accurate. */
static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void count_time(struct mt_taken *work)
{
    const int64_t now = clock_ms(), time = now - work->seen_ms;
    work->time_ms += time < STILL_MS ? time : STILL_MS;
    work->seen_ms = now;
}

/* Returns the memory that SQLite has allocated since the first call for this statement; 0 if memory is not counted. */
static int64_t count_memory(struct mt_taken *work)
{
    const int64_t bytes = counts_memory ? sqlite3_memory_used() : 0;
    if (work->memory_bytes == 0)
        work->memory_bytes = bytes;
    return bytes - work->memory_bytes;
}

/* Records the exceeded bound, for the failure that follows. */
static void note_excess(struct mt_bounds *bounds, const char *taken, int64_t file_bytes)
{
    char size[MT_BYTES_TEXT];
    snprintf(bounds->text, sizeof bounds->text,
             "is damaged, or made to be slow: one question took %s, more than a file of %s needs; memtrace verify "
             "says more",
             taken, mt_format_bytes((uint64_t)file_bytes, size));
}

/* True if the current statement has exceeded a bound. SQLite then ends it. */
static int took_too_much(void *context)
{
    struct mt_bounds *bounds = context;
    struct mt_taken *work = bounds->work;
    char taken[64], size[MT_BYTES_TEXT];
    if (work == NULL)
        return 0;
    count_time(work);
    const int64_t file = mt_page_file_bytes(bounds->handle), memory = count_memory(work);
    if (work->time_ms > LEAST_MS + file / (BYTES_A_SECOND / 1000))
        mt_print(taken, sizeof taken, "%.1f s", (double)work->time_ms / 1e3);
    else if (work->rows > LEAST_ROWS + file / BYTES_A_ROW)
        snprintf(taken, sizeof taken, "%lld rows", (long long)work->rows);
    else if (memory > LEAST_BYTES + file * MEMORY_A_BYTE)
        snprintf(taken, sizeof taken, "%s of memory", mt_format_bytes((uint64_t)memory, size));
    else
        return 0;
    note_excess(bounds, taken, file);
    return 1;
}

void mt_bounds_set(struct mt_bounds *bounds, struct sqlite3 *handle)
{
    bounds->handle = handle;
    sqlite3_progress_handler(handle, INSTRUCTIONS, took_too_much, bounds);
}

struct mt_taken *mt_bounds_begin(struct mt_bounds *bounds, struct mt_taken *work)
{
    struct mt_taken *outer = bounds->work;
    bounds->work = work;
    if (work != NULL)
        work->seen_ms = clock_ms();
    return outer;
}

void mt_bounds_end(struct mt_bounds *bounds, struct mt_taken *outer)
{
    if (bounds->work != NULL)
        count_time(bounds->work);
    bounds->work = outer;
}
