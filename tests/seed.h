/* Seeds of tests that draw at random: from SEED=… in the environment, or else from the time. The program prints the
 * first one once, so that a failed run can be run again. */
#pragma once

#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* Another one, under 2^32, at each call. From one thread. */
static inline uint64_t take_seed(void)
{
    static uint64_t first, taken;
    if (taken == 0) {
        const char *given = getenv("SEED");
        first = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
        print_message("SEED=%" PRIu64 "\n", first);
    }
    return mt_splitmix64(first + taken++) >> 32;
}

/* Returns how often to attack: ATTACKS=… in the environment, or `usual`. */
static inline uint64_t attack_count(uint64_t usual)
{
    const char *given = getenv("ATTACKS");
    return given != NULL ? strtoull(given, NULL, 10) : usual;
}
