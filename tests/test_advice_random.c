/* Advice's claims against replays in random runs, in parts of them, without uses and without blocks. */
#include "advised_story.h"
#include "base/random.h"
#include "seed.h"

/* Allocates, uses and frees at random, in steps of different length. */
static void tell_at_random(struct story *story, uint64_t seed)
{
    enum { MOVES = 600, LIVE = 40, MOVES_A_STEP = 50 };
    size_t live[LIVE], live_count = 0;
    for (uint64_t i = 0; i < MOVES; i++) {
        uint64_t random = mt_splitmix64((seed << 16) + i);
        if (i % MOVES_A_STEP == 0)
            story_mark(story, MT_EVENT_STEP_BEGIN, i / MOVES_A_STEP);
        if (i % MOVES_A_STEP == MOVES_A_STEP / 3)
            story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
        if (i % MOVES_A_STEP == MOVES_A_STEP / 2)
            story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
        size_t chosen = live_count > 0 ? (random >> 8) % live_count : 0;
        if (live_count == 0 || (random % 3 == 0 && live_count < LIVE)) {
            size_t block = story_take(story, 1 + (random >> 8) % (STORY_LABELS - 1), 1 + (random >> 16) % (3 * MIB));
            story->uses[block].known = random % 5 != 0;
            if (block > 0)
                story->uses[block].copied_from = story->blocks[(random >> 40) % block].alloc_event;
            live[live_count++] = block;
        } else if (random % 3 == 1) {
            (random % 2 == 0 ? story_read : story_write)(story, live[chosen]);
        } else {
            story_give(story, live[chosen]);
            live[chosen] = live[--live_count];
        }
        if (i % MOVES_A_STEP == MOVES_A_STEP - 1)
            story_mark(story, MT_EVENT_STEP_END, i / MOVES_A_STEP);
    }
}

/* The input of a window. Blocks that ended before it are not part of it, nor are events before it. */
static void cut_to_window(struct story *story, struct mt_advice_input *input, int64_t first_event)
{
    size_t count = 0;
    for (size_t i = 0; i < story->block_count; i++) {
        if (story->blocks[i].free_event != 0 && story->blocks[i].free_event < first_event)
            continue;
        story->blocks[count] = story->blocks[i];
        story->uses[count++] = story->uses[i];
    }
    size_t marks = 0;
    for (size_t i = 0; i < story->mark_count; i++)
        if (story->marks[i].event >= first_event)
            story->marks[marks++] = story->marks[i];
    input->block_count = count;
    input->mark_count = marks;
    input->first_event = first_event;
}

static bool is_part_of_any(const struct mt_advice *advice, const struct mt_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(finding, &advice->findings[i]))
            return true;
    return false;
}

/* True if the finding appears only with --all: a part, or less than a hundredth of the peak. */
static bool is_for_all(const struct mt_advice *all, const struct mt_finding *finding)
{
    bool is_reserved = finding->pattern == MT_PATTERN_FRAGMENTATION;
    uint64_t peak = is_reserved ? all->as_it_was.reserved_bytes : all->peak_bytes;
    return finding->saved_bytes < peak / 100 || is_part_of_any(all, finding);
}

/* Checks that fewer findings are the first of more, and that each saves something. */
static void assert_few_are_the_first(const struct mt_advice_input *input)
{
    enum { MOST = 6 };
    struct mt_advice many, few;
    assert_int_equal(mt_advice_create(input, MT_ADVICE_WORTHWHILE, MOST, &many), MT_OK);
    for (size_t limit = 1; limit < MOST; limit++) {
        assert_int_equal(mt_advice_create(input, MT_ADVICE_WORTHWHILE, limit, &few), MT_OK);
        assert_int_equal(few.count, limit < many.count ? limit : many.count);
        for (size_t i = 0; i < few.count; i++) {
            assert_true(few.findings[i].saved_bytes > 0);
            assert_int_equal(few.findings[i].pattern, many.findings[i].pattern);
            assert_int_equal(few.findings[i].saved_bytes, many.findings[i].saved_bytes);
        }
        mt_advice_release(&few);
    }
    mt_advice_release(&many);
}

static void random_claims_are_what_replays_find(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    for (uint64_t round = 0; round < 30; round++) {
        struct story *story = story_begin();
        tell_at_random(story, seed + round);
        struct mt_advice_input input = story_input(story, round % 2 == 0 ? "policy=tight" : "policy=torch");
        if (round % 3 == 0)
            cut_to_window(story, &input, 1 + story->event / 3);
        struct mt_advice all = advise_with(&input), few;
        assert_int_equal(mt_advice_create(&input, MT_ADVICE_WORTHWHILE, 3, &few), MT_OK);
        assert_sound(&few);
        assert_true(few.count <= 3 && few.count + few.left_out >= all.count + all.left_out - 1);
        for (size_t i = 0, next = 0; i < few.count; i++, next++) {
            while (is_for_all(&all, &all.findings[next]))
                next++;
            /* weighing only the promising ones misses none of the best */
            assert_int_equal(few.findings[i].saved_bytes, all.findings[next].saved_bytes);
            assert_false(is_part_of_any(&few, &few.findings[i]));
        }
        assert_few_are_the_first(&input);
        mt_advice_release(&few);
        mt_advice_release(&all);
        free(story);
    }
}

static void without_uses_only_what_needs_none_is_said(void **state)
{
    (void)state;
    struct story *story = story_begin();
    tell_at_random(story, 1);
    for (size_t i = 0; i < story->block_count; i++)
        story->uses[i] = (struct mt_use_row){.known = false};
    struct mt_advice advice = advise(story);
    assert_false(advice.knows_uses);
    for (size_t i = 0; i < advice.count; i++)
        assert_true(advice.findings[i].pattern == MT_PATTERN_KEPT_GRADIENTS ||
                    advice.findings[i].pattern == MT_PATTERN_FRAGMENTATION);
    mt_advice_release(&advice);
    free(story);
}

static void a_run_without_blocks_has_nothing_to_mend(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_mark(story, MT_EVENT_STEP_BEGIN, 0);
    story_mark(story, MT_EVENT_STEP_END, 0);
    struct mt_advice advice = advise(story);
    assert_int_equal(advice.count, 0);
    assert_int_equal(advice.peak_bytes, 0);
    assert_false(advice.knows_uses);
    mt_advice_release(&advice);
    free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_claims_are_what_replays_find),
        cmocka_unit_test(without_uses_only_what_needs_none_is_said),
        cmocka_unit_test(a_run_without_blocks_has_nothing_to_mend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
