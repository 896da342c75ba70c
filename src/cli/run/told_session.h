/* A session as the command line runs it: with notes and progress on stderr, failures that name
 * options, and ^C. */
#ifndef MT_CLI_TOLD_SESSION_H
#define MT_CLI_TOLD_SESSION_H

#include "analysis/session.h"

#include <signal.h>

/* Runs the plan (mt_run_session). */
mt_status mt_told_session(const struct mt_run_plan *plan, struct mt_run_result *out);

/* Opens a device (mt_run_device_open). */
mt_status mt_told_device_open(const char *spelling, struct mt_device **out);

/* Returns the observer of both, for sessions that others run. */
struct mt_session_observer mt_told_observer(void);

/* Adds to a failure of opening the device `spelling` what can be done about it, and returns `status`. */
mt_status mt_told_device_failure(mt_status status, const char *spelling);

/* Has the first ^C call the handler; the next one ends the program. Where it is ignored, as in a job in the background,
 * it stays so. *out_before: for mt_interrupt_release. */
void mt_interrupt_catch(void (*handler)(int number), struct sigaction *out_before);

void mt_interrupt_release(const struct sigaction *before);

/* Writes to stderr; of what a handler may call. */
void mt_interrupt_say(const char *text);

#endif
