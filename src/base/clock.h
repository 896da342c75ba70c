/* The host's monotonic clock: nanoseconds of CLOCK_MONOTONIC, so that times of all processes of a machine compare.
 *
 * Reading CLOCK_MONOTONIC costs 20 to 25 ns, as much as all the rest of an event. On x86-64 the processor's time-stamp
 * counter costs 10, but is no clock: its exact rate is not known, and a virtual machine may be suspended or moved. So
 * each thread keeps an anchor (one reading of both) and the rate of the counter, and reads the system's clock again
 * after each millisecond (counter_clock.h). In a thread's first two milliseconds, on other machines, and where the
 * processor does not call its counter invariant, the system's clock is read each time.
 *
 * The result differs from the system's clock by tens of nanoseconds as a rule, and by two microseconds at most. The
 * state belongs to the thread: nothing is shared or locked, and a fork changes nothing. In return, two threads may read
 * times some nanoseconds apart, so events are put in order where they get their sequence, under a lock. */
#pragma once

#include <stdint.h>

/* Returns the time, never less than an earlier result of the same thread. */
uint64_t mt_clock_ns(void);

/* Returns the time since `start_ns`, a result of any thread's mt_clock_ns; 0 if this thread's clock is not there
 * yet. */
uint64_t mt_clock_since_ns(uint64_t start_ns);
