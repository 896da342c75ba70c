/* Access to traces for commands: opening a trace, finding the run, and common parts of answers. */
#pragma once

#include "analysis/run_question.h"
#include "cli/command.h"
#include "trace/query/rank_rows.h"

#include <jansson.h>

/* Opens a trace (mt_trace_open). If there is none, the failure has a hint how to create one. */
mt_status mt_trace_open_to_ask(const char *path, struct mt_trace **out);

/* Opens --trace and finds --run. Notes on stderr that the run is still running, was interrupted or lacks events.
 * The caller closes it, unless this fails. */
mt_status mt_question_open(const struct mt_trace_options *options, struct mt_question *out);

/* Notes on stderr if the last moments of a run are missing. */
void mt_note_missing(const struct mt_run *run);

/* Like mt_question_open, but without --run finds the newest run that ended in this state. Fails with MT_USAGE if there
 * is none. */
mt_status mt_question_open_ended(const struct mt_trace_options *options, mt_run_state state, struct mt_question *out);

/* Opens the second run of a comparison. `which` is a number or a name in `trace`, or FILE:RUN for a run of another
 * trace, if that file exists. FILE: is the newest run of the file, and so is FILE if `trace` has no run with that name.
 * NULL is the newest run of `trace`. Each question opens its own trace, even of the same file, so texts of two
 * questions must not be compared by pointers. */
mt_status mt_question_open_named(const char *trace, const char *which, struct mt_question *out);
/* Opens the run of a rank. The caller closes it, also after a failure. */
mt_status mt_rank_question_open(const struct mt_rank *rank, struct mt_question *out);

void mt_question_close(struct mt_question *question);

/* Calls `visit` for every run of the trace, oldest first, or for the requested run, until it fails. */
typedef mt_status (*mt_run_visit)(void *context, struct mt_trace *trace, const struct mt_run *run);
mt_status mt_runs_visit(struct mt_trace *trace, const char *which, mt_run_visit visit, void *context);

/* Returns the members at the beginning of an answer about a run: schema, run, name, state, device. The caller releases
 * it. */
json_t *mt_question_json(const struct mt_question *question, const char *name);

/* Prints an answer as JSON: the members above, then its row's fields. */
void mt_question_print_json(const struct mt_question *question, const char *name, const struct mt_row_type *type,
                            const void *answer);

/* Adds " --trace FILE" to a command that reads the trace; nothing if it is the default trace. */
void mt_text_add_trace_option(struct mt_text *out, const char *trace);

/* Prints "run 3 (baseline), sim:h200, done, 3 steps" and a blank line. */
void mt_question_print_title(const struct mt_question *question);

/* Finds the value of a setting of the run, or "". *out_value is borrowed from the trace. */
mt_status mt_question_setting(const struct mt_question *question, const char *name, const char **out_value);

/* Describes the last request of a run that ended out of memory, in a struct mt_steps_row. */
extern const struct mt_row_type mt_steps_oom_type;

/* The phases by enumeration, ending with NULL: the choices of --phase. */
extern const char *const mt_phase_names[];
