#include "trace/store/page_file.h"

#include "trace/store/ring_record.h"

#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Places of SQLite's header (sqlite.org/fileformat2.html, 1.3). */
enum {
    HEADER_BYTES = 100,
    PAGE_SIZE_AT = 16,
    RESERVED_AT = 20,
    COUNTER_AT = 24,
    PAGES_AT = 28,
};

enum {
    BLOCK_BYTES = sizeof(union mt_record),
    COUNTER_BYTES = 4,
    PAGES_BYTES = 4,
    CHECKSUM_BYTES = 8,
    LEAST_PAGE_BYTES = 512
};

/* The operation with which mt_page_file_* find a file. SQLite leaves numbers over 100 to programs. */
enum { CONTROL_FIND = 0x6D747066 };

/* A file of SQLite. The file of the VFS below follows it in memory. Used by one thread at a time, like its connection.
 * Invariant: page_bytes > 0 unless the state is unknown. */
struct page_file {
    sqlite3_file base;
    mt_page_state state;
    bool is_tolerant;
    int page_bytes;
    int64_t damaged_page; /* the last; 0: none */
    unsigned char *copy;  /* of a page that is written; NULL: not needed yet */
    unsigned char *first; /* the page that is read as page 1; NULL: the file's */
};

static struct page_file *page_file_of(sqlite3_file *file)
{
    return (struct page_file *)file;
}

static sqlite3_file *below(sqlite3_file *file)
{
    return (sqlite3_file *)(page_file_of(file) + 1);
}

/* ---- the end of a page ---- */

/* Returns the checksum of a page of `bytes` bytes, excluding the checksum at its end. */
static uint64_t checksum_of(const unsigned char *page, int bytes, int64_t number)
{
    union mt_record block;
    uint64_t hash = (uint64_t)number * 0x9E3779B97F4A7C15u;
    assert(bytes >= LEAST_PAGE_BYTES && bytes % BLOCK_BYTES == 0 && number > 0);
    for (int at = 0; at < bytes - BLOCK_BYTES; at += BLOCK_BYTES) {
        memcpy(&block, page + at, sizeof block);
        hash = mt_record_hash(hash, &block, block.words[7]);
    }
    memcpy(&block, page + bytes - BLOCK_BYTES, sizeof block);
    return mt_record_hash(hash, &block, 0);
}

static uint64_t stored_checksum(const unsigned char *page, int bytes)
{
    uint64_t checksum;
    memcpy(&checksum, page + bytes - CHECKSUM_BYTES, sizeof checksum);
    return checksum;
}

/* Returns the place of the copy of the counter in page 1. */
static unsigned char *counter_copy(unsigned char *page, int bytes)
{
    return page + bytes - MT_PAGE_END_BYTES;
}

static void complete(unsigned char *page, int bytes, int64_t number)
{
    memset(page + bytes - MT_PAGE_END_BYTES, 0, MT_PAGE_END_BYTES);
    if (number == 1)
        memcpy(counter_copy(page, bytes), page + COUNTER_AT, COUNTER_BYTES);
    uint64_t checksum = checksum_of(page, bytes, number);
    memcpy(page + bytes - CHECKSUM_BYTES, &checksum, sizeof checksum);
}

/* ---- the state ---- */

/* Returns the page size in SQLite's header. */
static int page_bytes_of(const unsigned char *header)
{
    int bytes = header[PAGE_SIZE_AT] << 8 | header[PAGE_SIZE_AT + 1];
    return bytes == 1 ? 65536 : bytes;
}

static bool has_room_for_ends(const unsigned char *header)
{
    const int bytes = page_bytes_of(header);
    return memcmp(header, "SQLite format 3", 16) == 0 && header[RESERVED_AT] == MT_PAGE_END_BYTES &&
           bytes >= LEAST_PAGE_BYTES && (bytes & (bytes - 1)) == 0;
}

/* Determines the state from page 1, which has the size in its header. */
static mt_page_state state_by_first_page(const unsigned char *page, int bytes)
{
    if (!has_room_for_ends(page))
        return MT_PAGES_PLAIN;
    return memcmp(page + bytes - MT_PAGE_END_BYTES, page + COUNTER_AT, COUNTER_BYTES) == 0 ? MT_PAGES_CHECKED
                                                                                           : MT_PAGES_CHANGED;
}

/* Reads page 1 unless the state is known. An empty file stays unknown; an unreadable one fails elsewhere. */
static void learn(sqlite3_file *file)
{
    struct page_file *self = page_file_of(file);
    sqlite3_file *real = below(file);
    unsigned char header[HEADER_BYTES];
    if (self->state != MT_PAGES_UNKNOWN || real->pMethods->xRead(real, header, HEADER_BYTES, 0) != SQLITE_OK)
        return;
    const int bytes = page_bytes_of(header);
    self->page_bytes = bytes;
    self->state = MT_PAGES_PLAIN;
    unsigned char *page = has_room_for_ends(header) ? sqlite3_malloc(bytes) : NULL;
    if (page != NULL && real->pMethods->xRead(real, page, bytes, 0) == SQLITE_OK)
        self->state = state_by_first_page(page, bytes);
    sqlite3_free(page);
}

/* True if `bytes` at `offset` are a page with a checksum. */
static bool is_checked_page(const struct page_file *self, int bytes, sqlite3_int64 offset)
{
    return self->state == MT_PAGES_CHECKED && bytes == self->page_bytes && offset % bytes == 0;
}

/* ---- methods of a file ---- */

static int close_file(sqlite3_file *file)
{
    sqlite3_free(page_file_of(file)->copy);
    sqlite3_free(page_file_of(file)->first);
    return below(file)->pMethods->xClose(below(file));
}

/* Does not return SQLite's own code for this, SQLITE_IOERR_DATA, which would also end the transaction. */
static int fail_on_page(struct page_file *self, int64_t number)
{
    self->damaged_page = number;
    return self->is_tolerant ? SQLITE_OK : SQLITE_CORRUPT;
}

/* Reads like SQLite's VFS, except for page 1 if it was replaced. */
static int read_below(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset)
{
    const struct page_file *self = page_file_of(file);
    const int code = below(file)->pMethods->xRead(below(file), data, bytes, offset);
    if (self->first != NULL && offset < self->page_bytes) {
        const sqlite3_int64 rest = self->page_bytes - offset;
        memcpy(data, self->first + offset, (size_t)(bytes < rest ? bytes : rest));
    }
    return code;
}

/* Reads a page from the file, which must contain all of it. */
static int read_file(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset)
{
    struct page_file *self = page_file_of(file);
    int code = read_below(file, data, bytes, offset);
    if (bytes < LEAST_PAGE_BYTES || (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ))
        return code;
    learn(file);
    if (offset == 0 && bytes == self->page_bytes && code == SQLITE_OK)
        self->state = state_by_first_page(data, bytes);
    if (!is_checked_page(self, bytes, offset))
        return code;
    const int64_t number = offset / bytes + 1;
    const bool is_whole = code == SQLITE_OK && stored_checksum(data, bytes) == checksum_of(data, bytes, number);
    return is_whole ? SQLITE_OK : fail_on_page(self, number);
}

/* Handles the writing of an empty file's first page. */
static void begin_pages(struct page_file *self, const void *data, int bytes, sqlite3_int64 offset)
{
    if (self->state != MT_PAGES_UNKNOWN || offset != 0 || bytes < LEAST_PAGE_BYTES)
        return;
    self->page_bytes = bytes;
    self->state = has_room_for_ends(data) ? MT_PAGES_CHECKED : MT_PAGES_PLAIN;
}

static int write_file(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    struct page_file *self = page_file_of(file);
    learn(file);
    begin_pages(self, data, bytes, offset);
    if (!is_checked_page(self, bytes, offset))
        return below(file)->pMethods->xWrite(below(file), data, bytes, offset);
    if (self->copy == NULL)
        self->copy = sqlite3_malloc(bytes);
    if (self->copy == NULL)
        return SQLITE_IOERR_NOMEM;
    memcpy(self->copy, data, (size_t)bytes);
    complete(self->copy, bytes, offset / bytes + 1);
    return below(file)->pMethods->xWrite(below(file), self->copy, bytes, offset);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 bytes)
{
    return below(file)->pMethods->xTruncate(below(file), bytes);
}

static int sync_file(sqlite3_file *file, int flags)
{
    return below(file)->pMethods->xSync(below(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out)
{
    return below(file)->pMethods->xFileSize(below(file), out);
}

static int lock_file(sqlite3_file *file, int lock)
{
    return below(file)->pMethods->xLock(below(file), lock);
}

static int unlock_file(sqlite3_file *file, int lock)
{
    return below(file)->pMethods->xUnlock(below(file), lock);
}

static int check_reserved_lock(sqlite3_file *file, int *out)
{
    return below(file)->pMethods->xCheckReservedLock(below(file), out);
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
    if (operation != CONTROL_FIND)
        return below(file)->pMethods->xFileControl(below(file), operation, argument);
    *(struct page_file **)argument = page_file_of(file);
    return SQLITE_OK;
}

static int sector_size(sqlite3_file *file)
{
    return below(file)->pMethods->xSectorSize(below(file));
}

static int device_characteristics(sqlite3_file *file)
{
    return below(file)->pMethods->xDeviceCharacteristics(below(file));
}

static int map_shared(sqlite3_file *file, int page, int page_bytes, int extend, void volatile **out)
{
    return below(file)->pMethods->xShmMap(below(file), page, page_bytes, extend, out);
}

static int lock_shared(sqlite3_file *file, int offset, int count, int flags)
{
    return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}

static void order_shared(sqlite3_file *file)
{
    below(file)->pMethods->xShmBarrier(below(file));
}

static int unmap_shared(sqlite3_file *file, int remove)
{
    return below(file)->pMethods->xShmUnmap(below(file), remove);
}

/* Version 2, without memory mapping: a mapped file would be read without checks. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = device_characteristics,
    .xShmMap = map_shared,
    .xShmLock = lock_shared,
    .xShmBarrier = order_shared,
    .xShmUnmap = unmap_shared,
};

/* ---- the VFS ---- */

static struct {
    sqlite3_vfs *below; /* SQLite's default */
    sqlite3_vfs own;    /* a copy of it that opens databases through page_file */
    char name[32];
} vfs;

/* Opens a database through a page_file, and any other file as usual. SQLite closes files with methods, also after a
 * failure. */
static int open_file(sqlite3_vfs *unused, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    (void)unused;
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0)
        return vfs.below->xOpen(vfs.below, name, file, flags, out_flags);
    *page_file_of(file) = (struct page_file){0};
    int code = vfs.below->xOpen(vfs.below, name, below(file), flags, out_flags);
    file->pMethods = below(file)->pMethods != NULL ? &methods : NULL;
    return code;
}

/* The name contains an address, since two copies of this code may share one copy of SQLite. */
static void make_vfs(void)
{
    vfs.below = sqlite3_vfs_find(NULL);
    if (vfs.below == NULL)
        return;
    vfs.own = *vfs.below;
    vfs.own.pNext = NULL;
    vfs.own.szOsFile += (int)sizeof(struct page_file);
    vfs.own.zName = sqlite3_snprintf(sizeof vfs.name, vfs.name, "memtrace-%p", (void *)&vfs);
    vfs.own.xOpen = open_file;
    sqlite3_vfs_register(&vfs.own, 0);
}

const char *mt_page_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_vfs);
    return vfs.own.zName;
}

/* Returns the main file; NULL if the database is only in memory. */
static struct page_file *find(sqlite3 *handle)
{
    struct page_file *file = NULL;
    return sqlite3_file_control(handle, "main", CONTROL_FIND, &file) == SQLITE_OK ? file : NULL;
}

int mt_page_file_reserve(sqlite3 *handle)
{
    int bytes = MT_PAGE_END_BYTES;
    return sqlite3_file_control(handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes);
}

mt_page_state mt_page_file_state(struct sqlite3 *handle)
{
    const struct page_file *file = find(handle);
    return file != NULL ? file->state : MT_PAGES_UNKNOWN;
}

int64_t mt_page_file_damage(struct sqlite3 *handle)
{
    const struct page_file *file = find(handle);
    return file != NULL ? file->damaged_page : 0;
}

/* Returns the size of a file that may not be open. */
static int64_t bytes_of(sqlite3_file *file)
{
    sqlite3_int64 bytes;
    return file != NULL && file->pMethods != NULL && file->pMethods->xFileSize(file, &bytes) == SQLITE_OK ? bytes : 0;
}

int64_t mt_page_file_bytes(struct sqlite3 *handle)
{
    struct page_file *file = find(handle);
    sqlite3_file *journal = NULL;
    if (file == NULL || sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &journal) != SQLITE_OK)
        return 0;
    return bytes_of(&file->base) + bytes_of(journal);
}

void mt_page_file_tolerate(struct sqlite3 *handle)
{
    struct page_file *file = find(handle);
    if (file != NULL)
        file->is_tolerant = true;
}

int mt_page_file_take_first(struct sqlite3 *handle, const char *model)
{
    struct page_file *file = find(handle);
    unsigned char header[HEADER_BYTES];
    FILE *stream = fopen(model, "rb");
    if (file != NULL && stream != NULL && fread(header, 1, HEADER_BYTES, stream) == HEADER_BYTES) {
        const size_t bytes = (size_t)page_bytes_of(header);
        file->first = sqlite3_malloc64(bytes);
        rewind(stream);
        if (file->first != NULL && fread(file->first, 1, bytes, stream) == bytes) {
            file->page_bytes = (int)bytes;
            file->state = MT_PAGES_CHECKED;
            memset(file->first + PAGES_AT, 0, PAGES_BYTES); /* as many as the file has room for */
        }
    }
    if (stream != NULL)
        fclose(stream);
    return file != NULL && file->state == MT_PAGES_CHECKED ? SQLITE_OK : SQLITE_IOERR_READ;
}

static bool is_zero(const unsigned char *page, int bytes)
{
    return page[0] == 0 && memcmp(page, page + 1, (size_t)bytes - 1) == 0;
}

/* Compares page by page. A page of zeros may be unused and not written by SQLite yet. */
static int compare_pages(struct page_file *file, unsigned char *page, int64_t count, int64_t *damaged, int64_t *first)
{
    sqlite3_file *real = below(&file->base);
    for (int64_t number = 1; number <= count; number++) {
        int code = real->pMethods->xRead(real, page, file->page_bytes, (number - 1) * file->page_bytes);
        if (code != SQLITE_OK)
            return code;
        if (is_zero(page, file->page_bytes) ||
            stored_checksum(page, file->page_bytes) == checksum_of(page, file->page_bytes, number))
            continue;
        *first = *damaged == 0 ? number : *first;
        ++*damaged;
    }
    return SQLITE_OK;
}

int mt_page_file_compare(struct sqlite3 *handle, int64_t *out_pages, int64_t *out_damaged, int64_t *out_first)
{
    struct page_file *file = find(handle);
    sqlite3_int64 bytes = 0;
    *out_pages = *out_damaged = *out_first = 0;
    if (file == NULL || file->state != MT_PAGES_CHECKED)
        return SQLITE_OK;
    int code = file_size(&file->base, &bytes);
    unsigned char *page = sqlite3_malloc(file->page_bytes);
    if (code == SQLITE_OK && page == NULL)
        code = SQLITE_NOMEM;
    if (code == SQLITE_OK) {
        *out_pages = bytes / file->page_bytes;
        code = compare_pages(file, page, *out_pages, out_damaged, out_first);
    }
    sqlite3_free(page);
    return code;
}
