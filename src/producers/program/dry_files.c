#include "producers/program/dry_files.h"

#include "base/memory.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

mt_status mt_dry_files_begin(char **out)
{
    const char *folder = secure_getenv("TMPDIR");
    struct mt_text path = {0};
    mt_text_add(&path, "%s/memtrace-files.XXXXXX", folder != NULL && folder[0] == '/' ? folder : "/tmp");
    *out = mkdtemp(path.data);
    if (*out != NULL)
        return MT_OK;
    mt_status status = mt_fail(MT_FAILED, "can't make %s: %s", path.data, strerror(errno));
    mt_text_release(&path);
    return status;
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

/* Removes the folders in a list of paths, each ended by NUL. Goes from the last to the first, since inner folders come later. A
 * folder that is not empty stays. */
static void remove_listed(const char *paths, size_t length)
{
    while (length > 0) {
        size_t begin = length - 1;
        while (begin > 0 && paths[begin - 1] != '\0')
            begin--;
        if (paths[begin] == '/')
            (void)rmdir(paths + begin);
        length = begin;
    }
}

/* Reads the list of folders that the program has made. */
static void remove_made(const char *folder)
{
    struct mt_text path = {0};
    char *paths = NULL;
    size_t length = 0;
    mt_text_add(&path, "%s/folders", folder);
    FILE *list = fopen(path.data, "r");
    mt_text_release(&path);
    for (int letter; list != NULL && (letter = getc(list)) != EOF;)
        *MT_HOST_ADD(paths, length) = (char)letter;
    while (length > 0 && paths[length - 1] != '\0')
        length--; /* a path that was not written to its end */
    remove_listed(paths, length);
    free(paths);
    if (list != NULL)
        fclose(list);
}

void mt_dry_files_end(const char *folder)
{
    if (folder == NULL)
        return;
    remove_made(folder);
    remove_folder(AT_FDCWD, folder);
}
