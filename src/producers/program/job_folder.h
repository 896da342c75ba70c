/* Folders for the time that a program runs.
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

/* Makes a folder below TMPDIR or /tmp. The caller removes *out with mt_job_folder_remove. MT_FAILED if it can't be made; then
 * *out is NULL. */
mt_status mt_job_folder_make(char **out);

/* Makes a folder in another one, which is removed with that one. The caller frees *out, also after a failure. */
mt_status mt_job_folder_make_inner(const char *folder, const char *name, char **out);

/* Removes a folder with its contents, and frees its path. Follows no symbolic link. NULL is allowed. */
void mt_job_folder_remove(char *folder);
