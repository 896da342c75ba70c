/* Bounds of what one statement may take. A file may be anybody's, and a page of a tree may name the same child again and
 * again: a few pages then have more rows than anybody waits for. Our own statements read each page of a file a few times, so
 * that its size, with that of its log, says how much is enough.
 *
 *   time     5 s, and 1 s a MiB; that of SQLite alone, without what is done between two rows
 *   rows     1 million, and one for each 4 bytes
 *   memory   256 MiB, and 4 times the size; in a program whose SQLite is ours
 *
 * Threads: as the connection. */
#pragma once

#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

/* The time, rows and memory that a statement has taken since its first step. */
struct mt_taken {
    int64_t time_ms, rows;
    int64_t seen_ms;      /* the clock when time_ms was counted */
    int64_t memory_bytes; /* of SQLite when it was first looked at; 0: it was not yet */
};

enum { MT_BOUNDS_TEXT = 256 };

/* The bounds of a connection. */
struct mt_bounds {
    struct sqlite3 *handle;
    struct mt_taken *work;     /* of the statement under way; NULL: it may take what it likes */
    char text[MT_BOUNDS_TEXT]; /* says what the last one took that was ended */
};

/* Bounds memory, too, from now on: all of SQLite's memory is taken by our connections. */
void mt_bounds_count_memory(void);

/* Sets bounds for a connection, to which they belong until it is closed. */
void mt_bounds_set(struct mt_bounds *bounds, struct sqlite3 *handle);

/* Begin and end work; `work` NULL: without bounds. Within another statement's step, `begin` returns that one's work, which
 * `end` is given. If it took too much, SQLite's code is SQLITE_INTERRUPT. */
struct mt_taken *mt_bounds_begin(struct mt_bounds *bounds, struct mt_taken *work);
void mt_bounds_end(struct mt_bounds *bounds, struct mt_taken *outer);
