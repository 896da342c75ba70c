/* Notes about a recorded or dry-run program: its runs, and the notes of its processes and ranks. */
#pragma once

#include "producers/program/program_outcome.h"

/* Returns the path of a trace in the user's form; the caller frees it. `trace` is the path given by the user; all
 * traces of a program are in one folder. */
char *mt_program_trace_shorten(const struct mt_program_outcome *outcome, const char *trace, const char *path);

/* Notes a run of a process, and its peak. Opening the trace stores the events that a killed process left in the
 * ring. */
void mt_program_run_note(const struct mt_program_outcome *outcome, const char *trace,
                         const struct mt_record_answer *answer);

/* Notes the message of a process, or which part of its run is missing. */
void mt_program_process_note(const struct mt_record_answer *answer);

/* Notes which interpreter was found for a script. Does nothing for other programs, or if the user named it in
 * `python`. */
void mt_program_python_note(char *const *given, const char *python);

/* Notes which ranks represent others, and each note of processes and ranks: "ranks 0-3, 7: WORDS". Does nothing for one
 * process. */
void mt_program_ranks_note(const struct mt_program_outcome *outcome);

/* Notes all notes of the processes or the ranks. */
void mt_program_outcome_note(const struct mt_program_outcome *outcome);
