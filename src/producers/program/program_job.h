/* The files of a program that is recorded or run dry: its trace, and the file for the answers of its processes.
 *
 * Threads: one at a time for an object. */
#ifndef MT_PROGRAM_PROGRAM_JOB_H
#define MT_PROGRAM_PROGRAM_JOB_H

#include "base/status.h"

#include <limits.h>

/* Zero-initialized: none was begun. */
struct mt_program_job {
    char *path;             /* of the trace, absolute since the program may change its folder; owned */
    char answers[PATH_MAX]; /* the file for answers; "" until there is one */
};

/* Finds the trace's place and makes the file for answers, before the program runs for hours. Fails if the path is not the
 * path of a trace, an empty file or a new file, or can't be written; then there is nothing to end. */
mt_status mt_program_job_begin(const char *trace, struct mt_program_job *out);

/* Removes the file for answers. */
void mt_program_job_end(struct mt_program_job *job);

#endif
