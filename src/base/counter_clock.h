/* A clock from a steady counter, which a processor reads in a few nanoseconds, corrected by a clock that takes longer.
 *
 *   ns of the clock │            ╱        anchors: readings of both, an interval apart or more
 *                   │        ·╱           between them the time is computed from the last anchor, at the rate between
 *                   │    ·╱               the last two, for one interval at most
 *                   │·╱
 *                   └──────────── ticks of the counter
 *
 * Nothing is known of the counter beforehand. It is used while the rates of two intervals in a row agree. Otherwise the
 * clock itself is read, and a counter that broke its rate too often is never used again. So a virtual machine may be
 * suspended or moved to a processor of another frequency, and a thread may be moved to a socket that counts apart: the
 * time is wrong by the counter's error within one interval, and only until that is over. While the counter is steady
 * the time differs from the clock by 2 µs at most, because rates that agree differ by at most a five-hundredth, and by
 * the duration of a reading. A counter that may stand still must not be used: time would stand still, too.
 *
 * These functions only compute; the caller takes the readings. Each thread has a counter clock of its own. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MT_COUNTER_INTERVAL_NS = 1000000,
    MT_COUNTER_WIDEST_TICKS = 2048, /* a reading that took longer was interrupted, and is no anchor */
    MT_COUNTER_MOST_BREAKS = 8,     /* of the rate, after which the counter is never used again */
};

/* All zero: nothing was read yet.
 * Invariants: last_ns never decreases; valid_ticks * rate is at most an interval; with MT_COUNTER_MOST_BREAKS breaks,
 * valid_ticks stays 0. */
struct mt_counter_clock {
    uint64_t last_ns; /* the last result */
    uint64_t anchor_ticks, anchor_ns;
    uint64_t rate;        /* between the last two anchors, in 2^-32 ns a tick; 0: there are no two */
    uint64_t valid_ticks; /* after the anchor; 0: the counter is not used */
    uint32_t breaks;
};

/* One moment on both: the clock was read between two readings of the counter. */
struct mt_counter_reading {
    uint64_t ticks_before, ns, ticks_after;
};

/* Returns `ns`, which was read of the clock, or the last result if that is greater. */
static inline uint64_t mt_counter_clock_hold(struct mt_counter_clock *clock, uint64_t ns)
{
    if (ns > clock->last_ns)
        clock->last_ns = ns;
    return clock->last_ns;
}

/* True if the counter may be used, so that reading it pays. */
static inline bool mt_counter_clock_is_believed(const struct mt_counter_clock *clock)
{
    assert(clock->valid_ticks == 0 || (clock->rate > 0 && clock->breaks < MT_COUNTER_MOST_BREAKS));
    return clock->valid_ticks > 0;
}

/* Sets *out_ns to the time at `ticks`, never less than the last result; false if the clock has to be read. */
static inline bool mt_counter_clock_tell(struct mt_counter_clock *clock, uint64_t ticks, uint64_t *out_ns)
{
    uint64_t passed = ticks - clock->anchor_ticks;
    if (passed >= clock->valid_ticks)
        return false;
    *out_ns = mt_counter_clock_hold(clock, clock->anchor_ns + (passed * clock->rate >> 32));
    return true;
}

/* True if a reading of both is wanted when the clock shows `ns`. */
bool mt_counter_clock_is_due(const struct mt_counter_clock *clock, uint64_t ns);

/* Makes the reading that was due the next anchor; returns the time, never less than the last result. */
uint64_t mt_counter_clock_correct(struct mt_counter_clock *clock, const struct mt_counter_reading *reading);

/* Gives the counter up, as one that broke its rate too often: no reading is ever due again. */
void mt_counter_clock_forgo(struct mt_counter_clock *clock);
