/* The log of watched kernels: the label and step of each launch, and the times of each run. Launches and runs are
 * reported at different times, by threads that do not wait for each other. They are joined by the launch number from
 * the driver.
 *
 *   launch(number, label, step) ──┐
 *                                 ├──▶ take: kernels with their labels and steps, by start
 *   ran(number, times) ───────────┘
 *
 * Threads: launch and ran from any; everything else from one. */
#pragma once

#include "base/event.h"

struct mt_kernel_log;

/* The run of a kernel, as reported by the driver. */
struct mt_kernel_run {
    uint64_t start_ns, end_ns; /* on the driver's clock */
    const char *name;          /* mangled; borrowed until the run is taken */
    uint32_t launch;           /* number of its launch */
    uint32_t stream;
};

/* Creates an empty log. `spell` returns a readable form of a name, which the log frees, or NULL if the name is
 * readable. */
struct mt_kernel_log *mt_kernel_log_create(char *(*spell)(const char *name));
void mt_kernel_log_destroy(struct mt_kernel_log *log); /* may be NULL */

/* The label and step of a launch. */
struct mt_kernel_launch {
    int64_t step; /* MT_NO_STEP: outside steps */
    mt_label_id label;
    uint32_t number; /* of the launch */
};

/* Add a launch and a run. For several launches with one number, the last one counts. */
void mt_kernel_log_launch(struct mt_kernel_log *log, const struct mt_kernel_launch *launch);
void mt_kernel_log_ran(struct mt_kernel_log *log, const struct mt_kernel_run *run);

/* Returns the number of launches since the last take. */
uint64_t mt_kernel_log_waiting(struct mt_kernel_log *log);

/* Passes on every kernel that ran, in the order in which they occupied their places on the card, with `shift_ns` added
 * to the times. A kernel may occupy its place before the previous one in its stream has ended; its time begins at that
 * end. Removes runs and launches, so all launched work must have ended. A kernel whose launch is not in the log has
 * label 0 and no step. */
void mt_kernel_log_take(struct mt_kernel_log *log, int64_t shift_ns,
                        void (*take)(void *context, const struct mt_kernel *kernel), void *context);
