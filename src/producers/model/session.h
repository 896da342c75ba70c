/* A training run from opening the device to closing the trace.
 *
 * A session prints nothing. Its observer receives what a person may want to know while it runs. */
#pragma once

#include "base/interner.h"
#include "producers/model/settings.h"
#include "producers/model/training.h"
#include "trace/store/recorder.h"

#include <stdbool.h>

/* Receives events of a session, on the thread that runs it. All members are set. */
struct mt_session_observer {
    void *context;
    /* Receives a sentence about something missing, such as a GPU, records of kernels or a plan. The run continues. */
    void (*note)(void *context, const char *text);
    /* Called after each of `total` steps, warm-up included. The loss is NAN if none was computed. */
    void (*step_done)(void *context, int64_t step, int64_t total, double loss);
    /* Adds details about a refused request to `out`, the text of a failure.
     * `interner` has its labels. */
    void (*describe_refusal)(void *context, const struct mt_alloc_refusal *refusal, const struct mt_interner *interner,
                             struct mt_text *out);
};

/* The Euclidean norm of a parameter's gradient. */
struct mt_grad_norm {
    char *parameter;
    double norm;
};

/* The outcome of a session. Invariant: losses, step_ms and wall_ms have step_count entries, warm-up included; NAN if
 * there is no value. */
struct mt_run_result {
    char device[MT_DEVICE_NAME];
    int64_t run; /* its number in the trace; 0: not traced */
    int64_t step_count;
    double *losses;
    double *step_ms; /* by the device's clock, from the step's first work to its last */
    double *wall_ms; /* by the host's, from the last step's end to this one's; NAN for the first, which init precedes */
    bool executes;   /* something was computed */
    struct mt_grad_norm *grad_norms; /* of the first step, if wanted */
    size_t grad_norm_count;
    uint64_t plan_bytes, plan_peak_bytes; /* of the plan that was followed (alloc/plan.h); 0: none */
    struct mt_alloc_stats stats;
    mt_status status;    /* of the training; with MT_OUT_OF_MEMORY the result is complete */
    char *error;         /* its text; NULL: none */
    bool is_untraceable; /* the session failed because its trace can't be written */
};

/* Runs the plan. Returns MT_OK if there is a result to report: the training itself may have failed, see out->status.
 * Release the result in any case. */
mt_status mt_run_session(const struct mt_run_plan *plan, const struct mt_session_observer *observer,
                         struct mt_run_result *out);
void mt_run_result_release(struct mt_run_result *result);

/* Opens a device by its spelling in device.h, or by MT_DEVICE_AUTO: a usable GPU, otherwise the simulated device, with
 * a note that nothing is computed. */
mt_status mt_run_device_open(const char *spelling, const struct mt_session_observer *observer, struct mt_device **out);
