/* The host's monotonic clock: nanoseconds of CLOCK_MONOTONIC, the same for all programs of a machine.
 *
 * On x86-64 with a steady counter it is told from that (counter_clock.h), which takes half as long as the system's
 * call; it then differs from the system's by tens of nanoseconds as a rule, and by two microseconds at most. */
#ifndef MT_BASE_CLOCK_H
#define MT_BASE_CLOCK_H

#include <stdint.h>

/* Never less than what the same thread was told before. Two threads may be told times that differ by as much as both
 * may differ from the system's. */
uint64_t mt_clock_ns(void);

/* What has passed since `start_ns`, which any thread was told; 0 if for this one that is still to come. */
uint64_t mt_clock_since_ns(uint64_t start_ns);

#endif
