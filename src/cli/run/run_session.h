/* A training run from opening the device to closing the trace: what `memtrace run` does between reading its options and
 * telling what it found. */
#ifndef MT_CLI_RUN_SESSION_H
#define MT_CLI_RUN_SESSION_H

#include "model/settings.h"
#include "model/training.h"
#include "trace/store/recorder.h"

#include <jansson.h>
#include <stdbool.h>

/* What came of it.
 * Invariant: step_count entries of losses, step_ms and wall_ms, warm-up included; NAN where there is none. */
struct mt_run_result {
    char device[64];
    int64_t run; /* its number in the trace; 0: not traced */
    int64_t step_count;
    double *losses;
    double *step_ms; /* by the device's clock, from the step's first work to its last */
    double *wall_ms; /* by the host's, from the last step's end to this one's; NAN of the first, which init precedes */
    bool executes;   /* whether anything was computed */
    json_t *grad_norms;                   /* parameter: norm; empty if not wanted */
    uint64_t plan_bytes, plan_peak_bytes; /* of the plan that was followed (alloc/plan.h); 0: none */
    struct mt_alloc_stats stats;
    mt_status status; /* of the training; MT_OUT_OF_MEMORY leaves a whole result */
    char *error;      /* its text; NULL: none */
};

/* Runs the plan. MT_OK if there is something to tell: the training itself may have failed, see result->status. */
mt_status mt_run_session(const struct mt_run_plan *plan, struct mt_run_result *out);
void mt_run_result_release(struct mt_run_result *result);

/* Opens a device by a spelling of device.h or MT_DEVICE_AUTO, which takes a usable GPU, else sim with a note that nothing
 * is executed. */
mt_status mt_run_device_open(const char *spelling, struct mt_device **out);

#endif
