/* Advice about a story (story.h), and what holds of any advice. */
#pragma once

#include "story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const uint64_t MIB = 1 << 20;

/* The one finding of a pattern; NULL: none. */
static inline const struct mt_finding *find(const struct mt_advice *advice, mt_pattern pattern)
{
    const struct mt_finding *found = NULL;
    for (size_t i = 0; i < advice->count; i++) {
        if (advice->findings[i].pattern != pattern)
            continue;
        assert_null(found);
        found = &advice->findings[i];
    }
    return found;
}

/* Checks that the finding's bytes are those reserved and free, and that it saves the bytes that the other policy
 * reserves less. */
static inline void assert_fragmented(const struct mt_advice *advice, const struct mt_finding *finding)
{
    const struct mt_fragmentation *found = &advice->fragmentation;
    uint64_t before = advice->as_it_was.reserved_bytes, after = finding->replay.reserved_bytes;
    assert_int_equal(finding->bytes, found->reserved_bytes - found->allocated_bytes);
    assert_int_equal(finding->bytes, found->idle_bytes + found->hole_bytes);
    assert_int_equal(finding->saved_bytes, before > after ? before - after : 0);
}

static inline void assert_cut(const struct mt_advice *advice, const struct mt_finding *finding)
{
    assert_int_equal(finding->saved_bytes, advice->peak_bytes - finding->claim_bytes);
    assert_true(finding->bytes >= finding->saved_bytes);
}

/* True if the finding is a part of one before it. */
static inline bool follows_whole(const struct mt_advice *advice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (mt_finding_is_part(&advice->findings[index], &advice->findings[i]))
            return true;
    return false;
}

/* True if one option mends it and it saves a tenth of the most, but for fragmentation. */
static inline bool comes_first(const struct mt_advice *advice, const struct mt_finding *finding)
{
    uint64_t most = 0;
    for (size_t i = 0; i < advice->count; i++)
        if (advice->findings[i].pattern != MT_PATTERN_FRAGMENTATION && advice->findings[i].saved_bytes > most)
            most = advice->findings[i].saved_bytes;
    return mt_finding_is_optional(finding) && finding->saved_bytes > 0 && finding->saved_bytes >= most / 10;
}

/* Checks the order of those that are no parts. */
static inline void assert_in_order(const struct mt_advice *advice)
{
    const struct mt_finding *last = NULL;
    for (size_t i = 0; i < advice->count; i++) {
        const struct mt_finding *finding = &advice->findings[i];
        if (follows_whole(advice, i))
            continue;
        if (last != NULL) {
            bool before = comes_first(advice, last), after = comes_first(advice, finding);
            assert_true(before >= after);
            assert_true(before > after || last->saved_bytes >= finding->saved_bytes);
        }
        last = finding;
    }
}

/* Checks the invariants of any advice. */
static inline void assert_sound(const struct mt_advice *advice)
{
    assert_int_equal(advice->as_it_was.requested_bytes, advice->peak_bytes);
    assert_true(advice->used_only.requested_bytes <= advice->peak_bytes);
    for (size_t i = 0; i < advice->count; i++) {
        const struct mt_finding *finding = &advice->findings[i];
        assert_true(finding->replay.fits);
        assert_int_equal(finding->claim_bytes, finding->replay.requested_bytes);
        (finding->pattern == MT_PATTERN_FRAGMENTATION ? assert_fragmented : assert_cut)(advice, finding);
        assert_true(mt_finding_hint(finding) < MT_HINT_COUNT);
    }
    assert_in_order(advice);
}

/* All advice about a story; release it. */
static inline struct mt_advice advise_with(const struct mt_advice_input *input)
{
    struct mt_advice advice;
    assert_int_equal(mt_advice_create(input, MT_ADVICE_ALL, 1000, &advice), MT_OK);
    assert_sound(&advice);
    return advice;
}

static inline struct mt_advice advise(const struct story *story)
{
    struct mt_advice_input input = story_input(story, "policy=tight");
    return advise_with(&input);
}
