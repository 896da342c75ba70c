/* The folder of a dry run's files: what the program's Python code would write elsewhere (python/memtrace/dry/overlay.py). One job
 * has one, which its ranks share. */
#ifndef MT_PROGRAM_DRY_FILES_H
#define MT_PROGRAM_DRY_FILES_H

#include "base/status.h"

/* Makes the folder, below TMPDIR or /tmp. The caller frees *out after mt_dry_files_end. MT_FAILED if it can't be made; then *out is
 * NULL. */
mt_status mt_dry_files_begin(char **out);

/* Removes the folder with all that is in it, and those folders that the program has made elsewhere and that are empty. NULL does
 * nothing. */
void mt_dry_files_end(const char *folder);

#endif
