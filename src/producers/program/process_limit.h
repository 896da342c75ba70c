/* How many processes of PyTorch this machine can run at a time.
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

/* Returns the number of processors that this process may use, or less if free host memory is not enough for so many
 * processes; at least 1. */
int64_t mt_process_limit(void);
