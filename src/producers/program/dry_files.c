#include "producers/program/dry_files.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Removes the folders in a list of paths, each ended by NUL. Goes from the last to the first, since inner folders come
 * later. Folders that are not empty stay. */
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

void mt_dry_files_end(const char *folder)
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
        length--; /* an incomplete last path */
    remove_listed(paths, length);
    free(paths);
    if (list != NULL)
        fclose(list);
}
