/* Random runs to plan: a beginning, and two equal steps. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/plan.h"
#include "base/event.h"
#include "base/memory.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A run whose last step is repeated: requests of the beginning, as mt_plan_make takes them. */
struct run {
    struct mt_plan_request *requests;
    size_t count;
};

static inline uint64_t draw(uint64_t seed, uint64_t *state, uint64_t below)
{
    return mt_splitmix64(seed + (*state)++) % below;
}

/* Sizes as they come in training: a few large ones that repeat, and many small ones. */
static inline uint64_t draw_bytes(uint64_t seed, uint64_t *state)
{
    uint64_t kind = draw(seed, state, 4);
    if (kind == 0)
        return UINT64_C(1) << (12 + draw(seed, state, 12));
    return 1 + draw(seed, state, kind == 1 ? 1 << 20 : 4096);
}

/* Draws the request before which a block is freed: most blocks soon, some after up to `most` requests. */
static inline uint64_t draw_freed(uint64_t seed, uint64_t *state, uint64_t now, uint64_t most, uint64_t end)
{
    uint64_t freed = now + 1 + draw(seed, state, draw(seed, state, 3) == 0 ? most : 1 + most / 16);
    return freed < end ? freed : end;
}

/* A few requests before the first step, steps that differ, and two that are equal; now and then a block is kept. */
static inline struct run draw_run(uint64_t seed)
{
    uint64_t state = 0;
    size_t before = draw(seed, &state, 40), first = draw(seed, &state, 300), length = 1 + draw(seed, &state, 300);
    struct run run = {.count = before + first + 2 * length};
    run.requests = mt_host_alloc(run.count * sizeof *run.requests);
    for (size_t i = 0; i < before + first + length; i++) {
        bool repeats = i >= before + first;
        bool kept = !repeats && draw(seed, &state, i < before ? 2 : 8) == 0;
        run.requests[i] = (struct mt_plan_request){
            .bytes = draw_bytes(seed, &state),
            .freed = kept ? MT_PLAN_KEPT : draw_freed(seed, &state, i, repeats ? length : first + 1, run.count),
            .step = i < before ? MT_NO_STEP
                    : repeats  ? 1
                               : 0};
    }
    if (first == 0)
        for (size_t i = before; i < run.count - length; i++)
            run.requests[i].step = 0;
    for (size_t i = run.count - length; i < run.count; i++) {
        const struct mt_plan_request *same = &run.requests[i - length];
        bool ends = same->freed + length <= run.count;
        run.requests[i] =
            (struct mt_plan_request){same->bytes, ends ? same->freed + length : MT_PLAN_KEPT, same->step + 1};
    }
    return run;
}
