/* Why a request was refused, what it would have needed, and what would have met it: of runs that are written by
 * hand. */
#include "analysis/oom/oom.h"
#include "base/random.h"
#include "seed.h"
#include "story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* With just that much of a device the request is met, with a byte less it is not. */
static void what_a_policy_needs_is_what_it_takes(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch", "policy=torch,roundup_power2_divisions=4"};
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < 300; i++) {
        struct mt_alloc_settings settings;
        struct mt_alloc_need need;
        assert_int_equal(mt_alloc_settings_parse(policies[i % 3], &settings), MT_OK);
        uint64_t bytes = 1 + mt_splitmix64(seed + i) % (UINT64_C(1) << (10 + i % 20));
        assert_true(mt_alloc_need(&settings, bytes, &need));
        assert_true(bytes <= need.block_bytes && need.block_bytes <= need.segment_bytes);
        struct mt_lifetime lifetime = {.requested_bytes = bytes, .begin = 2, .end = MT_POSITION_NEVER};
        struct mt_replay_result result;
        assert_int_equal(mt_replay_run(&lifetime, 1, &settings, need.segment_bytes, &result), MT_OK);
        assert_true(result.fits);
        assert_int_equal(result.reserved_bytes, need.segment_bytes);
        assert_int_equal(mt_replay_run(&lifetime, 1, &settings, need.segment_bytes - 1, &result), MT_OK);
        assert_false(result.fits);
    }
}

static void a_request_beyond_arithmetic_has_no_need(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    struct mt_alloc_need need;
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    assert_false(mt_alloc_need(&settings, UINT64_MAX - 1, &need));
}

/* Puts a block at a place of a segment. */
static void place(struct story *story, size_t block, uint32_t segment, uint64_t offset)
{
    story->blocks[block].segment = segment;
    story->blocks[block].offset = offset;
    story->blocks[block].stream = story->segments[segment].stream;
}

static void refuse(struct story *story, enum story_label label, uint64_t bytes)
{
    story_mark(story, MT_EVENT_OOM, bytes);
    story->marks[story->mark_count - 1].label = (uint32_t)label;
}

static void expect_group(const struct mt_refusal *refusal, mt_hole_reason reason, uint64_t count, uint64_t bytes)
{
    for (size_t i = 0; i < refusal->group_count; i++)
        if (refusal->groups[i].reason == reason) {
            assert_int_equal(refusal->groups[i].count, count);
            assert_int_equal(refusal->groups[i].bytes, bytes);
            return;
        }
    fail_msg("no hole is %s", mt_hole_reason_name(reason));
}

/* One segment for each reason. */
static void every_hole_has_its_reason(void **state)
{
    (void)state;
    struct story *story = story_begin();
    struct mt_refusal refusal;
    for (int i = 0; i < 5; i++)
        story_map(story, i == 1 ? 2 * MIB : 20 * MIB);
    story->segments[2].stream = 1;
    place(story, story_take(story, SAVED, 16 * MIB), 0, 2 * MIB); /* holes of 2 MiB on both sides */
    place(story, story_take(story, SAVED, 100 * KIB), 1, 0);
    place(story, story_take(story, SAVED, 4 * MIB), 2, 0);
    place(story, story_take(story, SAVED, 12 * MIB), 3, 0); /* leaves 8 MiB, as many as are asked for */
    size_t gone = story_take(story, SAVED, 8 * MIB);
    place(story, gone, 4, 0);
    story_give(story, gone);
    story_unmap(story, 4);
    refuse(story, SAVED, 8 * MIB);
    struct mt_advice_input input = story_input(story, "policy=torch");
    input.capacity_bytes = 84 * MIB;
    assert_int_equal(mt_refusal_create(&input, &refusal), MT_OK);
    assert_int_equal(refusal.reserved_bytes, 62 * MIB);
    assert_int_equal(refusal.allocated_bytes, 32 * MIB + 100 * KIB);
    assert_int_equal(refusal.given_back_bytes, 20 * MIB);
    assert_int_equal(refusal.given_back_segments, 1);
    assert_int_equal(refusal.group_count, 4);
    expect_group(&refusal, MT_HOLE_TOO_SMALL, 2, 4 * MIB);
    expect_group(&refusal, MT_HOLE_OTHER_POOL, 1, 2 * MIB - 100 * KIB);
    expect_group(&refusal, MT_HOLE_OTHER_STREAM, 1, 16 * MIB);
    expect_group(&refusal, MT_HOLE_NOT_TAKEN, 1, 8 * MIB);
    assert_int_equal(refusal.hole_bytes, refusal.reserved_bytes - refusal.allocated_bytes);
    assert_int_equal(refusal.short_bytes, 0); /* 22 MiB are left for a segment of 20 MiB */
    assert_int_equal(refusal.alike, 1);
    mt_refusal_release(&refusal);
    free(story);
}

/* Checks that a gap without memory is no hole, and that the rest of a segment that shrank counts as reserved. */
static void gaps_in_a_segment_are_not_reserved(void **state)
{
    (void)state;
    struct story *story = story_begin();
    struct mt_refusal refusal;
    story_map(story, 8 * MIB);
    story_grow(story, 0, 16 * MIB, 8 * MIB);
    size_t first = story_grow(story, 0, 32 * MIB, 4 * MIB), second = story_grow(story, 0, 36 * MIB, 4 * MIB);
    place(story, story_take(story, SAVED, 6 * MIB), 0, 0);
    place(story, story_take(story, SAVED, 4 * MIB), 0, 20 * MIB);
    story_unmap(story, first);
    story->parts[second].unmapped_event = story->event; /* by one event */
    refuse(story, SAVED, 8 * MIB);
    struct mt_advice_input input = story_input(story, "policy=tight");
    input.capacity_bytes = 20 * MIB;
    assert_int_equal(mt_refusal_create(&input, &refusal), MT_OK);
    assert_int_equal(refusal.reserved_bytes, 16 * MIB);
    assert_int_equal(refusal.allocated_bytes, 10 * MIB);
    assert_int_equal(refusal.hole_bytes, 6 * MIB);
    assert_int_equal(refusal.hole_count, 2);
    assert_int_equal(refusal.largest_hole_bytes, 4 * MIB);
    assert_int_equal(refusal.given_back_bytes, 8 * MIB);
    assert_int_equal(refusal.given_back_segments, 1);
    mt_refusal_release(&refusal);
    free(story);
}

static bool has_relief(const struct mt_replayed_changes *reliefs, mt_pattern pattern)
{
    for (size_t i = 0; i < reliefs->count; i++)
        if (reliefs->items[i].kind == MT_REPLAYED_PATTERN && reliefs->items[i].finding.pattern == pattern)
            return true;
    return false;
}

/* Finds what would have met the refused request at the story's end. */
static void relieve(const struct story *story, uint64_t capacity_bytes, struct mt_replayed_changes *out)
{
    struct mt_refusal refusal;
    struct mt_advice_input input = story_input(story, "policy=tight");
    input.capacity_bytes = capacity_bytes;
    assert_int_equal(mt_refusal_create(&input, &refusal), MT_OK);
    assert_int_equal(mt_replayed_changes_create(&input, &refusal, 20, out), MT_OK);
    for (size_t i = 0; i < out->count; i++)
        assert_true(out->items[i].replay.reserved_bytes <= out->capacity_bytes);
    mt_refusal_release(&refusal);
}

/* 60 MiB are kept: 30 of a cast that was read before, 30 that were written since the span that asks was entered. */
static struct story *tell_of_two_blocks(void)
{
    struct story *story = story_begin();
    size_t cast = story_take(story, WEIGHT_CAST, 30 * MIB);
    story_write(story, cast);
    story_read(story, cast);
    story_mark(story, MT_EVENT_SPAN_END, 0);
    story->marks[0].span = "model.w";
    story_write(story, story_take(story, SAVED, 30 * MIB));
    refuse(story, SAVED, 32 * MIB);
    return story;
}

/* Checks that a block that nobody reads again is idle until the end, and that the request is met without it. A block
 * that was written in the span that asks may be an operand. Its removal is never proposed, not even if it would be
 * enough. */
static void what_the_op_needs_is_not_taken_away(void **state)
{
    (void)state;
    struct mt_replayed_changes reliefs;
    struct story *story = tell_of_two_blocks();
    relieve(story, 80 * MIB, &reliefs);
    assert_true(reliefs.is_reproduced);
    assert_true(has_relief(&reliefs, MT_PATTERN_IDLE));
    for (size_t i = 0; i < reliefs.count; i++)
        if (reliefs.items[i].kind == MT_REPLAYED_PATTERN)
            assert_string_equal(reliefs.items[i].finding.role, "weight cast");
    mt_replayed_changes_release(&reliefs);
    relieve(story, 61 * MIB, &reliefs);
    assert_true(reliefs.is_reproduced);
    assert_int_equal(reliefs.count, 0);
    mt_replayed_changes_release(&reliefs);
    free(story);
}

/* A program whose gradients live on through the forward pass that runs out. */
static void gradients_that_go_earlier_are_a_relief(void **state)
{
    (void)state;
    struct story *story = story_begin();
    struct mt_replayed_changes reliefs;
    for (uint64_t step = 0; step < 2; step++) {
        story_mark(story, MT_EVENT_STEP_BEGIN, step);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
        if (step == 1)
            break;
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
        size_t gradient = story_take(story, GRAD, 30 * MIB);
        story_write(story, gradient);
        story_read(story, gradient);
        story_mark(story, MT_EVENT_STEP_END, step);
    }
    refuse(story, SAVED, 32 * MIB);
    relieve(story, 48 * MIB, &reliefs);
    assert_true(reliefs.is_reproduced);
    assert_true(reliefs.count > 0);
    assert_true(has_relief(&reliefs, MT_PATTERN_KEPT_GRADIENTS));
    assert_int_equal(reliefs.items[0].replay.requested_bytes, 32 * MIB);
    mt_replayed_changes_release(&reliefs);
    free(story);
}

/* Six blocks of 6 MiB and one of 11 take 52 MiB by torch's rules, two segments of 20 and one of 12, and 48 by those of
 * tight. */
static void the_other_policy_is_a_relief_only_where_it_meets_all(void **state)
{
    (void)state;
    struct mt_replayed_changes reliefs;
    struct mt_refusal refusal;
    struct story *story = story_begin();
    for (int i = 0; i < 6; i++)
        story_write(story, story_take(story, SAVED, 6 * MIB));
    refuse(story, SAVED, 11 * MIB);
    struct mt_advice_input input = story_input(story, "policy=torch");
    for (uint64_t mib = 40; mib <= 54; mib += 2) {
        input.capacity_bytes = mib * MIB;
        assert_int_equal(mt_refusal_create(&input, &refusal), MT_OK);
        assert_int_equal(mt_replayed_changes_create(&input, &refusal, 20, &reliefs), MT_OK);
        assert_int_equal(reliefs.is_reproduced, mib < 52);
        assert_int_equal(reliefs.count, mib >= 48 && mib < 52);
        if (reliefs.count > 0) {
            assert_int_equal(reliefs.items[0].kind, MT_REPLAYED_POLICY);
            assert_int_equal(reliefs.items[0].replay.reserved_bytes, 48 * MIB);
        }
        mt_replayed_changes_release(&reliefs);
        mt_refusal_release(&refusal);
    }
    free(story);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_policy_needs_is_what_it_takes),
        cmocka_unit_test(a_request_beyond_arithmetic_has_no_need),
        cmocka_unit_test(every_hole_has_its_reason),
        cmocka_unit_test(gaps_in_a_segment_are_not_reserved),
        cmocka_unit_test(what_the_op_needs_is_not_taken_away),
        cmocka_unit_test(gradients_that_go_earlier_are_a_relief),
        cmocka_unit_test(the_other_policy_is_a_relief_only_where_it_meets_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
