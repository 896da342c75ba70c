/* The files of a program that is recorded or run dry: its trace, and the answers of its processes; and what is said of its
 * runs. */
#ifndef MT_CLI_RECORD_RECORDING_H
#define MT_CLI_RECORD_RECORDING_H

#include "base/status.h"
#include "base/text.h"

#include <limits.h>
#include <stdint.h>

struct mt_record_answer;

struct mt_recording {
    const char *trace;      /* as the user wrote it; borrowed */
    char *path;             /* absolute: the program may change its folder; owned */
    char answers[PATH_MAX]; /* the file for answers; "" until there is one */
};

/* Finds the trace's place and makes the file for answers, before the program runs for hours. Fails if the path is not that
 * of a trace, an empty file or a new file, or can't be written; then there is nothing to end. */
mt_status mt_recording_begin(const char *trace, struct mt_recording *out);

/* Removes the file for answers. */
void mt_recording_end(struct mt_recording *recording);

/* Notes a run that a process has answered with, and its peak. Opening the trace stores the events that a killed process left
 * in the ring. */
void mt_recording_tell_run(const struct mt_recording *recording, const struct mt_record_answer *answer);

/* Adds what is lost, or the words of another answer. */
void mt_recording_add_note(const struct mt_record_answer *answer, struct mt_text *out);

/* Notes the same, with its process. */
void mt_recording_tell_note(const struct mt_record_answer *answer);

/* Returns the path of a trace of the recording as the user would write it; the caller frees it. All are in one folder. */
char *mt_recording_shorten(const struct mt_recording *recording, const char *path);

#endif
