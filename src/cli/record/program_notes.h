/* Notes about a program that was recorded or run dry: its runs, and the notes of its processes and ranks. */
#pragma once

#include "producers/program/program_outcome.h"

/* Returns the path of a trace as the user would write it; the caller frees it. `trace` is the path that the user wrote, and all
 * traces of a program are in one folder. */
char *mt_program_trace_shorten(const struct mt_program_outcome *outcome, const char *trace, const char *path);

/* Notes a run of a process, and its peak. Opening the trace stores the events that a killed process left in the ring. */
void mt_program_run_note(const struct mt_program_outcome *outcome, const char *trace,
                         const struct mt_record_answer *answer);

/* Notes the words of a process, or what is missing from its run. */
void mt_program_process_note(const struct mt_record_answer *answer);

/* Notes which interpreter was found for a script; does nothing for other programs, or if the user named it in `python`. */
void mt_program_python_note(char *const *given, const char *python);

/* Notes which ranks stand for others, and each note of processes and ranks: "ranks 0-3, 7: WORDS". Does nothing for one
 * process. */
void mt_program_ranks_note(const struct mt_program_outcome *outcome);

/* Notes what the processes or the ranks noted. */
void mt_program_outcome_note(const struct mt_program_outcome *outcome);
