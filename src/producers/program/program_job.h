/* The files of a program that is recorded or run dry: its trace, and a folder with the answers of its processes.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/job_folder.h"
#include "base/status.h"

#include <limits.h>

/* Zero-initialized: none was begun. */
struct mt_program_job {
    char *path;                  /* of the trace; absolute, since the program may change its folder; owned */
    struct mt_job_folder folder; /* exists while the program runs */
    char answers[PATH_MAX];      /* a file in the folder */
};

/* Finds the trace's place and makes the folder, before the program runs for hours. Fails if the path is not the
 * path of a trace, an empty file or a new file, or can't be written; then there is nothing to end. */
mt_status mt_program_job_begin(const char *trace, struct mt_program_job *out);

/* Removes the folder. */
void mt_program_job_end(struct mt_program_job *job);
