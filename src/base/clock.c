#include "base/clock.h"

#include "base/counter_clock.h"

#include <time.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

static uint64_t system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef __x86_64__
/* Without a fence, which would take as long as the reading. */
static uint64_t ticks(void)
{
    return __rdtsc();
}

/* True if the counter keeps its rate when the processor saves power. */
static bool has_steady_counter(void)
{
    enum { POWER_LEAF = 0x80000007, INVARIANT = 1 << 8 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(POWER_LEAF, &eax, &ebx, &ecx, &edx) != 0 && (edx & INVARIANT) != 0;
}
#else
static uint64_t ticks(void)
{
    return 0;
}

static bool has_steady_counter(void)
{
    return false;
}
#endif

/* The clock of one thread. */
struct own_clock {
    struct mt_counter_clock counted;
    bool is_examined; /* has_steady_counter was asked */
};

/* Reads the counter and the system's clock a few times and returns the shortest reading: the first one after a thread
 * was interrupted finds cold caches, takes a microsecond or more, and would make an anchor wrong by as much. */
static struct mt_counter_reading read_both(void)
{
    enum { READINGS = 3 };
    struct mt_counter_reading shortest = {.ticks_after = UINT64_MAX};
    for (int i = 0; i < READINGS; i++) {
        struct mt_counter_reading reading;
        reading.ticks_before = ticks();
        reading.ns = system_ns();
        reading.ticks_after = ticks();
        if (reading.ticks_after - reading.ticks_before < shortest.ticks_after - shortest.ticks_before)
            shortest = reading;
    }
    return shortest;
}

/* Asks the processor once if its counter is steady. That takes microseconds on a virtual machine and most threads do
 * not live for two intervals, so it waits until there is a rate. */
static void examine(struct own_clock *own)
{
    if (own->is_examined || own->counted.rate == 0)
        return;
    own->is_examined = true;
    if (!has_steady_counter())
        mt_counter_clock_forgo(&own->counted);
}

/* Reads the system's clock, and corrects the counter by it where that is due. */
static __attribute__((noinline)) uint64_t read_system(struct own_clock *own)
{
    uint64_t ns = system_ns();
    examine(own);
    if (!mt_counter_clock_is_due(&own->counted, ns))
        return mt_counter_clock_hold(&own->counted, ns);
    struct mt_counter_reading reading = read_both();
    return mt_counter_clock_correct(&own->counted, &reading);
}

uint64_t mt_clock_ns(void)
{
    static _Thread_local struct own_clock own;
    uint64_t ns;
    if (mt_counter_clock_is_believed(&own.counted) && mt_counter_clock_tell(&own.counted, ticks(), &ns))
        return ns;
    return read_system(&own);
}

uint64_t mt_clock_since_ns(uint64_t start_ns)
{
    uint64_t now = mt_clock_ns();
    return now > start_ns ? now - start_ns : 0;
}
