/* The number of PyTorch processes that this machine can run at a time.
 *
 * Threads: any. */
#pragma once

#include <stdint.h>

/* Returns the number of processors that this process may use, or fewer if free host memory is not enough for that many
 * processes; at least 1. */
int64_t mt_process_limit(void);
