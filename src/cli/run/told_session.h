/* Sessions for the command line: with notes and progress on stderr, failures that name options, and ^C. */
#pragma once

#include "producers/model/session.h"

#include <signal.h>

/* Runs the plan (mt_run_session). */
mt_status mt_told_session(const struct mt_run_plan *plan, struct mt_run_result *out);

/* Opens a device (mt_run_device_open). */
mt_status mt_told_device_open(const char *spelling, struct mt_device **out);

/* Returns the observer of both, for callers that run sessions themselves. */
struct mt_session_observer mt_told_observer(void);

/* Adds a hint to a failure to open the device `spelling`, and returns `status`. */
mt_status mt_told_device_failure(mt_status status, const char *spelling);

/* Makes the first ^C call the handler; the next one ends the program. If ^C is ignored, as in a background job, it
 * remains ignored. *out_before is for mt_interrupt_release. */
void mt_interrupt_catch(void (*handler)(int number), struct sigaction *out_before);

void mt_interrupt_release(const struct sigaction *before);

/* Writes to stderr. A signal handler may call it. */
void mt_interrupt_say(const char *text);
