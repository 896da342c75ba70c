/* A session as the command line runs it: with notes and progress on stderr, and failures that name options. */
#ifndef MT_CLI_TOLD_SESSION_H
#define MT_CLI_TOLD_SESSION_H

#include "analysis/session.h"

/* Runs the plan (mt_run_session). */
mt_status mt_told_session(const struct mt_run_plan *plan, struct mt_run_result *out);

/* Opens a device (mt_run_device_open). */
mt_status mt_told_device_open(const char *spelling, struct mt_device **out);

/* Returns the observer of both, for sessions that others run. */
struct mt_session_observer mt_told_observer(void);

/* Adds to a failure of opening the device `spelling` what can be done about it, and returns `status`. */
mt_status mt_told_device_failure(mt_status status, const char *spelling);

#endif
