#include "trace/store/private_copy.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20 };

static mt_status fail_to_copy(const char *from, const char *to)
{
    return mt_fail(MT_FAILED, "can't copy %s to %s, which its recovery needs (TMPDIR may name a folder with room): %s",
                   from, to, strerror(errno));
}

/* Everything from `input` to `output`; false with errno set. */
static bool copy_bytes(int input, int output)
{
    char *buffer = mt_host_alloc(COPY_BYTES);
    ssize_t got, put = 0;
    while ((got = read(input, buffer, COPY_BYTES)) > 0) {
        put = write(output, buffer, (size_t)got);
        if (put != got)
            break;
    }
    free(buffer);
    if (put >= 0 && got > 0)
        errno = ENOSPC;
    return got == 0;
}

/* Copies a file; that there is none is fine for a journal, whose `missing` is MT_OK. */
static mt_status copy_file(const char *from, const char *to, mt_status missing)
{
    int input = open(from, O_RDONLY | O_CLOEXEC);
    if (input < 0)
        return errno == ENOENT && missing == MT_OK ? MT_OK : fail_to_copy(from, to);
    int output = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    mt_status status = output >= 0 && copy_bytes(input, output) ? MT_OK : fail_to_copy(from, to);
    close(input);
    if (output >= 0 && close(output) != 0 && status == MT_OK)
        status = fail_to_copy(from, to);
    return status;
}

/* The names of one copy. */
struct copy {
    struct mt_text folder, file, file_journal, journal;
};

static uint64_t file_bytes(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 ? (uint64_t)file.st_size : 0;
}

/* Whether the folder has room for it: nothing large is copied in vain. */
static mt_status check_room(const struct copy *copy, const char *path)
{
    struct statvfs disk;
    uint64_t needed = file_bytes(path) + file_bytes(copy->journal.data);
    if (statvfs(copy->folder.data, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= needed)
        return MT_OK;
    errno = ENOSPC;
    return fail_to_copy(path, copy->folder.data);
}

static mt_status make_folder(struct copy *copy, const char *path, const char *base)
{
    mt_text_add(&copy->folder, "%s/memtrace-XXXXXX", base);
    if (mkdtemp(copy->folder.data) == NULL)
        return fail_to_copy(path, copy->folder.data);
    mt_text_add(&copy->file, "%s/trace.db", copy->folder.data);
    mt_text_add(&copy->file_journal, "%s-wal", copy->file.data);
    mt_text_add(&copy->journal, "%s-wal", path);
    return MT_OK;
}

/* Nothing is left to find; what is open stays usable. */
static void remove_names(const struct copy *copy)
{
    unlink(copy->file.data);
    unlink(copy->file_journal.data);
    rmdir(copy->folder.data);
}

/* The copy's journal is folded in and none is made again, so that the connection needs no name. */
static mt_status open_copy(const struct copy *copy, struct mt_database **out)
{
    mt_status status = mt_database_open_writing(copy->file.data, out);
    if (status != MT_OK)
        return status;
    status = mt_database_execute(*out, "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = MEMORY;"
                                       "PRAGMA synchronous = OFF");
    if (status == MT_OK)
        return MT_OK;
    mt_database_close(*out);
    *out = NULL;
    return status;
}

static mt_status copy_into(const char *base, const char *path, struct mt_database **out)
{
    struct copy copy = {0};
    mt_status status = make_folder(&copy, path, base);
    if (status == MT_OK) {
        status = check_room(&copy, path);
        if (status == MT_OK)
            status = copy_file(path, copy.file.data, MT_FAILED);
        if (status == MT_OK)
            status = copy_file(copy.journal.data, copy.file_journal.data, MT_OK);
        if (status == MT_OK)
            status = open_copy(&copy, out);
        remove_names(&copy);
    }
    mt_text_release(&copy.folder);
    mt_text_release(&copy.file);
    mt_text_release(&copy.file_journal);
    mt_text_release(&copy.journal);
    return status;
}

mt_status mt_private_copy_open(const char *path, int place, struct mt_database **out)
{
    const char *temporary = getenv("TMPDIR");
    const char *const folders[MT_PRIVATE_COPY_PLACES] = {temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp",
                                                         "/tmp", "/dev/shm"};
    *out = NULL;
    return copy_into(folders[place], path, out);
}
