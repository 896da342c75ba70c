/* The runs of the published study, and adding those that a trace lacks.
 *
 * The 2.7B model at three lengths, forward and full step, in fp32 and under autocast, with the rules of PyTorch's
 * allocator; full steps of all sizes, with and without warm-up; and the length that was out of memory on 80 GB. */
#ifndef MT_STUDY_REPORT_STUDY_H
#define MT_STUDY_REPORT_STUDY_H

#include "analysis/session.h"

/* Runs what the trace at `path` lacks of the study on `device` and adds it; cards of 80 GB are simulated on any. The
 * observer is told of the progress. Running out of device memory is an answer, no failure. */
mt_status mt_report_study(const char *path, const char *device, const struct mt_session_observer *observer);

#endif
