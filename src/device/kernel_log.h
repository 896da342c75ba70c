/* What is known of kernels while they are watched: who launched which in which step, and when which ran. The two are told
 * apart in time and by different threads, which don't wait for each other, and are joined by the number that the driver
 * gives a launch.
 *
 *   launch(number, label, step) ──┐
 *                                 ├──▶ take: kernels with their labels and steps, by start
 *   ran(number, times) ───────────┘
 *
 * Threads: launch and ran from any; everything else from one. */
#ifndef MT_DEVICE_KERNEL_LOG_H
#define MT_DEVICE_KERNEL_LOG_H

#include "base/event.h"

struct mt_kernel_log;

/* A kernel as the driver reports it. */
struct mt_kernel_run {
    uint64_t start_ns, end_ns; /* on the driver's clock */
    const char *name;          /* as the linker knows it; borrowed until it was taken */
    uint32_t launch;           /* the number of the launch */
    uint32_t stream;
};

/* `spell` makes a name readable: text for free(), or NULL if the name is that already. */
struct mt_kernel_log *mt_kernel_log_create(char *(*spell)(const char *name));
void mt_kernel_log_destroy(struct mt_kernel_log *log); /* may be NULL */

/* Who launches. */
struct mt_kernel_launch {
    int64_t step; /* MT_NO_STEP: outside of one */
    mt_label_id label;
    uint32_t number; /* of the launch */
};

/* The launch of this number is that one's. The last word counts, if there are several. */
void mt_kernel_log_launch(struct mt_kernel_log *log, const struct mt_kernel_launch *launch);
void mt_kernel_log_ran(struct mt_kernel_log *log, const struct mt_kernel_run *run);

/* How many launches were told since the last take. */
uint64_t mt_kernel_log_waiting(struct mt_kernel_log *log);

/* Hands over every kernel that ran, in the order in which they took their places, each from its turn on (a kernel may
 * take its place before the one ahead of it in its stream has ended), with `shift_ns` added to its times. Forgets them
 * and the launches: so all launched work must have ended. A kernel of a launch that nobody announced has label 0 and no
 * step. */
void mt_kernel_log_take(struct mt_kernel_log *log, int64_t shift_ns,
                        void (*take)(void *context, const struct mt_kernel *kernel), void *context);

#endif
