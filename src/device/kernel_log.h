/* The log of watched kernels: which label and step launched each, and when each ran. Launches and runs are reported at
 * different times, by threads that don't wait for each other. They are joined by the number that the driver gives a
 * launch.
 *
 *   launch(number, label, step) ──┐
 *                                 ├──▶ take: kernels with their labels and steps, by start
 *   ran(number, times) ───────────┘
 *
 * Threads: launch and ran from any; everything else from one. */
#pragma once

#include "base/event.h"

struct mt_kernel_log;

/* The run of a kernel, as the driver reports it. */
struct mt_kernel_run {
    uint64_t start_ns, end_ns; /* on the driver's clock */
    const char *name;          /* as the linker has it; borrowed until the run is taken */
    uint32_t launch;           /* number of the launch */
    uint32_t stream;
};

/* Creates an empty log. `spell` returns a name made readable, which the log frees, or NULL if it is readable
 * already. */
struct mt_kernel_log *mt_kernel_log_create(char *(*spell)(const char *name));
void mt_kernel_log_destroy(struct mt_kernel_log *log); /* may be NULL */

/* The owner of a launch. */
struct mt_kernel_launch {
    int64_t step; /* MT_NO_STEP: outside of one */
    mt_label_id label;
    uint32_t number; /* of the launch */
};

/* Add a launch and a run. Of several launches of one number the last counts. */
void mt_kernel_log_launch(struct mt_kernel_log *log, const struct mt_kernel_launch *launch);
void mt_kernel_log_ran(struct mt_kernel_log *log, const struct mt_kernel_run *run);

/* Returns the number of launches since the last take. */
uint64_t mt_kernel_log_waiting(struct mt_kernel_log *log);

/* Hands over every kernel that ran, in the order in which they took their places on the card, with `shift_ns` added to
 * the times. A kernel may take its place before the one ahead of it in its stream has ended; its time begins when that
 * ends. Forgets runs and launches, so all launched work must have ended. A kernel whose launch is not in the log has
 * label 0 and no step. */
void mt_kernel_log_take(struct mt_kernel_log *log, int64_t shift_ns,
                        void (*take)(void *context, const struct mt_kernel *kernel), void *context);
