#include "base/job_folder.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "memtrace-job."
enum { NO_LOCK = -1, DAY_S = 24 * 60 * 60 };

/* Opens a folder in another one. Follows no symbolic link. */
static DIR *open_folder(int parent, const char *name)
{
    const int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = file >= 0 ? fdopendir(file) : NULL;
    if (folder == NULL && file >= 0)
        close(file);
    return folder;
}

static void remove_folder(int parent, const char *name);

static void remove_contents(DIR *folder)
{
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            remove_folder(dirfd(folder), entry->d_name);
}

static void remove_folder(int parent, const char *name)
{
    DIR *folder = open_folder(parent, name);
    if (folder == NULL)
        return;
    remove_contents(folder);
    closedir(folder);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Locks a folder, which is then an open file, or returns NO_LOCK if another process has locked it. */
static int lock_folder(int parent, const char *name)
{
    const int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        return file;
    if (file >= 0)
        close(file);
    return NO_LOCK;
}

/* True if the folder is this user's, and nothing was put into it for a day. */
static bool is_left(int folder)
{
    struct stat about;
    return fstat(folder, &about) == 0 && about.st_uid == geteuid() && time(NULL) - about.st_mtime > DAY_S;
}

/* Removes folders of processes that were killed. */
static void remove_left(const char *place)
{
    DIR *folder = opendir(place);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const bool is_job = strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0;
        const int lock = is_job ? lock_folder(dirfd(folder), entry->d_name) : NO_LOCK;
        if (lock != NO_LOCK && is_left(lock))
            remove_folder(dirfd(folder), entry->d_name);
        if (lock != NO_LOCK)
            close(lock);
    }
    if (folder != NULL)
        closedir(folder);
}

mt_status mt_job_folder_make_in(const char *place, struct mt_job_folder *out)
{
    struct mt_text path = {0};
    *out = (struct mt_job_folder){.lock = NO_LOCK};
    remove_left(place);
    mt_text_add(&path, "%s/" PREFIX "XXXXXX", place);
    if (mkdtemp(path.data) != NULL) {
        *out = (struct mt_job_folder){path.data, lock_folder(AT_FDCWD, path.data)};
        return MT_OK;
    }
    mt_status status = mt_fail(MT_FAILED, "can't make %s: %s", path.data, strerror(errno));
    mt_text_release(&path);
    return status;
}

mt_status mt_job_folder_make(struct mt_job_folder *out)
{
    const char *given = secure_getenv("TMPDIR"), *place = given != NULL && given[0] != '\0' ? given : "/tmp";
    char *absolute = realpath(place, NULL); /* programs that use the folder may run in another one */
    const mt_status status = mt_job_folder_make_in(absolute != NULL ? absolute : place, out);
    free(absolute);
    return status;
}

mt_status mt_job_folder_make_inner(const char *folder, const char *name, char **out)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s/%s", folder, name);
    *out = path.data;
    return mkdir(*out, S_IRWXU) == 0 ? MT_OK : mt_fail(MT_FAILED, "can't make %s: %s", *out, strerror(errno));
}

void mt_job_folder_remove_inner(char *path)
{
    if (path != NULL)
        remove_folder(AT_FDCWD, path);
    free(path);
}

void mt_job_folder_remove(struct mt_job_folder *folder)
{
    if (folder->path == NULL)
        return;
    mt_job_folder_remove_inner(folder->path);
    if (folder->lock != NO_LOCK)
        close(folder->lock);
    *folder = (struct mt_job_folder){0};
}
