#include "base/counter_clock.h"

enum {
    LONGEST_NS = 1000000000, /* anchors farther apart are not compared: anything may have happened between them */
    TOLERANCE_BITS = 9,      /* rates that differ by less than 2^-9 agree */
};

static bool agree(uint64_t rate, uint64_t other)
{
    uint64_t difference = rate > other ? rate - other : other - rate;
    return difference <= rate >> TOLERANCE_BITS;
}

static bool is_forgone(const struct mt_counter_clock *clock)
{
    return clock->breaks >= MT_COUNTER_MOST_BREAKS;
}

/* Decides if the counter may be used, by its `ticks` in the `ns` since the last anchor. */
static void judge(struct mt_counter_clock *clock, uint64_t ticks, uint64_t ns)
{
    bool is_comparable = ns < LONGEST_NS;
    uint64_t rate = is_comparable && ticks > 0 ? (ns << 32) / ticks : 0;
    bool is_steady = rate > 0 && agree(rate, clock->rate);
    clock->breaks += mt_counter_clock_is_believed(clock) && is_comparable && !is_steady;
    clock->rate = rate;
    clock->valid_ticks = 0;
    if (is_steady && !is_forgone(clock))
        clock->valid_ticks = ((uint64_t)MT_COUNTER_INTERVAL_NS << 32) / rate;
    assert(!is_forgone(clock) || clock->valid_ticks == 0);
}

static void set_anchor(struct mt_counter_clock *clock, uint64_t ticks, uint64_t ns)
{
    if (clock->anchor_ns > 0)
        judge(clock, ticks - clock->anchor_ticks, ns - clock->anchor_ns);
    clock->anchor_ticks = ticks;
    clock->anchor_ns = ns;
}

bool mt_counter_clock_is_due(const struct mt_counter_clock *clock, uint64_t ns)
{
    return !is_forgone(clock) && (clock->anchor_ns == 0 || ns - clock->anchor_ns >= MT_COUNTER_INTERVAL_NS);
}

uint64_t mt_counter_clock_correct(struct mt_counter_clock *clock, const struct mt_counter_reading *reading)
{
    uint64_t width = reading->ticks_after - reading->ticks_before;
    assert(!is_forgone(clock)); /* or no reading is due */
    if (width <= MT_COUNTER_WIDEST_TICKS)
        set_anchor(clock, reading->ticks_before + width / 2, reading->ns);
    return mt_counter_clock_hold(clock, reading->ns);
}

void mt_counter_clock_forgo(struct mt_counter_clock *clock)
{
    clock->breaks = MT_COUNTER_MOST_BREAKS;
    clock->valid_ticks = 0;
}
