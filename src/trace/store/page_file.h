/* A checksum at the end of each page of a trace, made when the page is written and compared when it is read.
 *
 *   page:  ┌ SQLite's content ┬ change counter: 4 ┬ 0: 4 ┬ checksum: 8 ┐    the last 16 bytes are reserved by SQLite
 *
 * The checksum covers the rest of the page and its number, so that a page of zeros, or a misplaced one, is found, too.
 * The counter is only in page 1. It is a copy of SQLite's own counter, which each program increments that changes the
 * file. If the two differ, a program without checksums, such as SQLite's shell, has written to the file. Then pages are
 * no longer compared, and none gets a new checksum.
 *
 * All of this happens in a VFS, the layer through which SQLite reads and writes files. A write-ahead log has SQLite's
 * own checksums and passes unchanged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sqlite3;

/* The bytes that SQLite must leave free at the end of each page of a trace. */
enum { MT_PAGE_END_BYTES = 16 };

/* The state of a file's checksums. */
typedef enum mt_page_state {
    MT_PAGES_UNKNOWN, /* no page was read yet */
    MT_PAGES_PLAIN,   /* no checksums: written by another program, or an older memtrace */
    MT_PAGES_CHECKED, /* each page has one */
    MT_PAGES_CHANGED, /* another program has written since; pages are not compared */
} mt_page_state;

/* Registers the VFS and returns its name for sqlite3_open_v2. NULL if SQLite has no VFS at all. May be called
 * from any thread. */
const char *mt_page_vfs(void);

/* Reserves room for a checksum at the end of each page of the connection's empty main file. Returns SQLite's code. */
int mt_page_file_reserve(struct sqlite3 *handle);

/* Returns the state of the connection's main file, once SQLite has read its first page. */
mt_page_state mt_page_file_state(struct sqlite3 *handle);

/* Returns the number, from 1, of the last damaged page that was read; 0 if there was none. SQLite's code was
 * SQLITE_CORRUPT. */
int64_t mt_page_file_damage(struct sqlite3 *handle);

/* Returns the bytes of the connection's main file and of its journal or log; 0 if the database is only in memory. */
int64_t mt_page_file_bytes(struct sqlite3 *handle);

/* From now on reads pages with wrong checksums, too, to salvage the rest. */
void mt_page_file_tolerate(struct sqlite3 *handle);

/* From now on replaces page 1 by page 1 of `model`, a trace of this format without rows. It contains where the tables
 * of any such trace begin. For a trace whose own page 1 is lost, before anything was read of it. Returns SQLite's
 * code. */
int mt_page_file_take_first(struct sqlite3 *handle, const char *model);

/* Compares every page of the main file with its checksum, and counts those that differ; *out_first is the first of
 * them. Skips pages of zeros: SQLite finds wrong ones when it traverses its trees. Returns SQLite's code. Without
 * checksums nothing is compared, and all counts are 0. */
int mt_page_file_compare(struct sqlite3 *handle, int64_t *out_pages, int64_t *out_damaged, int64_t *out_first);
