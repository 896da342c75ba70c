/* Folders for the time that a command or a program runs.
 *
 * A process holds the lock of its folders until it ends. So folders of killed processes are known, and the next process
 * that makes one removes them once they are a day old: what a killed process started may still run and use them.
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

/* A folder. Zero-initialized: none. */
struct mt_job_folder {
    char *path;
    int lock; /* the folder as an open file, which is locked */
};

/* Makes a folder below TMPDIR or /tmp, for this user alone. The caller removes *out. MT_FAILED if it can't be made;
 * then there is none. */
mt_status mt_job_folder_make(struct mt_job_folder *out);

/* Makes one below another place. */
mt_status mt_job_folder_make_in(const char *place, struct mt_job_folder *out);

/* Makes a folder in another one, which is removed with that one. The caller frees *out, also after a failure. */
mt_status mt_job_folder_make_inner(const char *folder, const char *name, char **out);

/* Removes a folder with its contents, and makes *folder none. Follows no symbolic link. */
void mt_job_folder_remove(struct mt_job_folder *folder);

/* Removes an inner folder earlier, and frees its path. NULL is allowed. */
void mt_job_folder_remove_inner(char *path);
