/* Time told from a counter that ticks steadily, as processors have one that is read in a few nanoseconds, kept to a
 * clock that takes longer to read.
 *
 *   ns of the clock │            ╱        anchors: readings of both, an interval apart or more
 *                   │        ·╱           between them time is told from the last anchor, at the rate between the
 *                   │    ·╱               last two, for one interval at most
 *                   │·╱
 *                   └──────────── ticks of the counter
 *
 * Nothing is known of the counter beforehand. It is believed while the rates of two intervals in a row agree; else
 * the clock itself is told, and a counter that was wrong too often is not believed again. So a virtual machine may be
 * suspended, or moved to a processor of another frequency, and a thread to a socket that counts apart: what is told is
 * off by what the counter did wrong within one interval, as that counts it, until it is over. While the counter is
 * steady, what is told differs from the clock by 2 µs at most, for rates that agree differ by a five-hundredth, and by
 * what the ends of a reading are apart. A counter that may stand still is none to use: then time would, too.
 *
 * Only computes, from readings that the caller takes. Threads: each has one of its own. */
#ifndef MT_BASE_COUNTER_CLOCK_H
#define MT_BASE_COUNTER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MT_COUNTER_INTERVAL_NS = 1000000,
    MT_COUNTER_WIDEST_TICKS = 2048, /* a reading that took longer was interrupted, and is no anchor */
    MT_COUNTER_MOST_BREAKS = 8,     /* of the rate, after which the counter is not believed again */
};

/* All zero: nothing was read yet.
 * Invariants: last_ns never shrinks; valid_ticks * rate is at most an interval; once forgone, valid_ticks stays 0. */
struct mt_counter_clock {
    uint64_t last_ns; /* what was told last */
    uint64_t anchor_ticks, anchor_ns;
    uint64_t rate;        /* between the last two anchors, in 2^-32 ns a tick; 0: there are no two */
    uint64_t valid_ticks; /* after the anchor; 0: the counter is not believed */
    uint32_t breaks;
};

/* Both at one moment: the clock was read between two readings of the counter. */
struct mt_counter_reading {
    uint64_t ticks_before, ns, ticks_after;
};

/* The time that was read of the clock alone, but never less than what was told before. */
static inline uint64_t mt_counter_clock_hold(struct mt_counter_clock *clock, uint64_t ns)
{
    if (ns > clock->last_ns)
        clock->last_ns = ns;
    return clock->last_ns;
}

/* Whether it pays to read the counter. */
static inline bool mt_counter_clock_is_believed(const struct mt_counter_clock *clock)
{
    return clock->valid_ticks > 0;
}

/* The time at `ticks`, never less than what was told before; false if the clock has to be read. */
static inline bool mt_counter_clock_tell(struct mt_counter_clock *clock, uint64_t ticks, uint64_t *out_ns)
{
    uint64_t passed = ticks - clock->anchor_ticks;
    if (passed >= clock->valid_ticks)
        return false;
    *out_ns = mt_counter_clock_hold(clock, clock->anchor_ns + (passed * clock->rate >> 32));
    return true;
}

/* Whether, when the clock shows `ns`, a reading of both is wanted. */
bool mt_counter_clock_is_due(const struct mt_counter_clock *clock, uint64_t ns);

/* Takes in the reading that was due; returns the time, never less than what was told before. */
uint64_t mt_counter_clock_correct(struct mt_counter_clock *clock, const struct mt_counter_reading *reading);

/* Lets the clock alone be told from now on, as for a counter that was wrong too often: no reading is ever due. */
void mt_counter_clock_forgo(struct mt_counter_clock *clock);

#endif
