/* The host's monotonic clock. */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include <stdint.h>

uint64_t mt_clock_ns(void);

#endif
