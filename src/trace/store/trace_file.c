#include "trace/store/trace_file.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

mt_status mt_trace_file_resolve(const char *path, char **out)
{
    struct stat file;
    *out = NULL;
    if (path[0] == '\0')
        return mt_fail(MT_USAGE, "the trace's path is empty");
    if (lstat(path, &file) != 0 || !S_ISLNK(file.st_mode)) {
        *out = mt_host_strdup(path);
        return MT_OK;
    }
    *out = realpath(path, NULL);
    return *out != NULL ? MT_OK : mt_fail(MT_FAILED, "can't follow the link %s: %s", path, strerror(errno));
}

static mt_status check_regular(const char *path, const struct stat *file)
{
    if (S_ISDIR(file->st_mode))
        return mt_fail(MT_BAD_TRACE, "%s is a folder, not a trace; name a file in it, such as memtrace.db", path);
    return S_ISREG(file->st_mode) ? MT_OK : mt_fail(MT_BAD_TRACE, "%s is not a trace (not a regular file)", path);
}

mt_status mt_trace_file_check_reading(const char *path)
{
    struct stat file;
    if (stat(path, &file) == 0)
        return check_regular(path, &file);
    if (errno == ENOENT)
        return mt_fail(MT_BAD_TRACE, "there is no trace \"%s\"", path);
    return mt_fail(MT_FAILED, "can't open %s: %s", path, strerror(errno));
}

mt_status mt_trace_file_check_writing(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return MT_OK; /* opening it will show whether it can be created */
    if (S_ISREG(file.st_mode) && file.st_nlink > 1)
        return mt_fail(MT_FAILED, "%s has %lu names (hard links), and each could have a ring: write a copy of it", path,
                       (unsigned long)file.st_nlink);
    return check_regular(path, &file);
}

bool mt_trace_file_is_writable(const char *path)
{
    struct stat file;
    char *folder = mt_host_strdup(path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    bool writable = access(path, W_OK) == 0 && access(slash == NULL ? "." : folder, W_OK) == 0 &&
                    stat(path, &file) == 0 && file.st_nlink == 1;
    free(folder);
    return writable;
}

bool mt_trace_file_is_database(const char *path)
{
    static const char signature[16] = "SQLite format 3";
    char begin[sizeof signature];
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) /* opening a pipe would wait */
        return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    bool is_database =
        fread(begin, 1, sizeof begin, file) == sizeof begin && memcmp(begin, signature, sizeof begin) == 0;
    fclose(file);
    return is_database;
}
