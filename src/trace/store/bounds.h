/* Bounds on the resources of one statement. A file may be untrusted, and a page of a tree may name the same child again
 * and again: a few pages then have a practically unlimited number of rows. Our own statements read each page of a file
 * a few times, so its size, including its log, determines how much is enough.
 *
 *   time     5 s, and 1 s for each MiB; only SQLite's, without the work between two rows
 *   rows     1 million, and one for each 4 bytes
 *   memory   256 MiB, and 4 times the size; in a program whose SQLite is ours
 *
 * Threads: as the connection. */
#pragma once

#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

/* The time, rows and memory that a statement has used since its first step. */
struct mt_taken {
    int64_t time_ms, rows;
    int64_t seen_ms;      /* the clock when time_ms was counted */
    int64_t memory_bytes; /* SQLite's at the first check; 0: not checked yet */
};

enum { MT_BOUNDS_TEXT = 256 };

/* The bounds of a connection. */
struct mt_bounds {
    struct sqlite3 *handle;
    struct mt_taken *work;     /* of the current statement; NULL: it has no bounds */
    char text[MT_BOUNDS_TEXT]; /* what the last interrupted statement used */
};

/* Bounds memory, too, from now on. All of SQLite's memory must belong to our connections. */
void mt_bounds_count_memory(void);

/* Sets bounds for a connection, to which they belong until it is closed. */
void mt_bounds_set(struct mt_bounds *bounds, struct sqlite3 *handle);

/* Begin and end work; `work` NULL: without bounds. Inside another statement's step, `begin` returns that statement's
 * work, for `end`. If a bound is exceeded, SQLite's code is SQLITE_INTERRUPT. */
struct mt_taken *mt_bounds_begin(struct mt_bounds *bounds, struct mt_taken *work);
void mt_bounds_end(struct mt_bounds *bounds, struct mt_taken *outer);
