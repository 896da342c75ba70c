#include "producers/program/job_folder.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

mt_status mt_job_folder_make(char **out)
{
    const char *folder = secure_getenv("TMPDIR");
    struct mt_text path = {0};
    mt_text_add(&path, "%s/memtrace-job.XXXXXX", folder != NULL && folder[0] == '/' ? folder : "/tmp");
    *out = mkdtemp(path.data);
    if (*out != NULL)
        return MT_OK;
    mt_status status = mt_fail(MT_FAILED, "can't make %s: %s", path.data, strerror(errno));
    mt_text_release(&path);
    return status;
}

mt_status mt_job_folder_make_inner(const char *folder, const char *name, char **out)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s/%s", folder, name);
    *out = path.data;
    return mkdir(*out, S_IRWXU) == 0 ? MT_OK : mt_fail(MT_FAILED, "can't make %s: %s", *out, strerror(errno));
}

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

void mt_job_folder_remove(char *folder)
{
    if (folder != NULL)
        remove_folder(AT_FDCWD, folder);
    free(folder);
}
