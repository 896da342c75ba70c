/* Advice: each pattern in a hand-written run. Random runs are in test_advice_random.c. */
#include "advised_story.h"

/* The story wastes one block of a pattern, and nothing else of it. Ends the story. */
static void expect(struct story *story, mt_pattern pattern, uint64_t bytes, uint64_t saved, int64_t events)
{
    struct mt_advice advice = advise(story);
    const struct mt_finding *finding = find(&advice, pattern);
    if (finding == NULL)
        fail_msg("no finding of %s", mt_finding_kinds[pattern].name);
    assert_int_equal(finding->bytes, bytes);
    assert_int_equal(finding->blocks, 1);
    assert_int_equal(finding->saved_bytes, saved);
    assert_int_equal(finding->events, events);
    assert_int_equal(finding->ns, (uint64_t)events * STORY_EVENT_NS);
    mt_advice_release(&advice);
    free(story);
}

/* Allocates a block, uses it at once and frees it: blocks that are live then could have been elsewhere. */
static void something_else(struct story *story, uint64_t bytes)
{
    size_t block = story_take(story, TEMPORARY, bytes);
    story_write(story, block);
    story_read(story, block);
    story_give(story, block);
}

static void what_is_freed_late_is_found(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t block = story_take(story, SAVED, 100 * MIB);
    story_write(story, block);
    story_read(story, block);
    something_else(story, 300 * MIB);
    something_else(story, 200 * MIB);
    story_give(story, block);
    struct mt_advice advice = advise(story);
    assert_int_equal(advice.peak_bytes, 400 * MIB);
    assert_int_equal(advice.used_only.requested_bytes, 300 * MIB);
    assert_int_equal(advice.count, 2); /* by its kind, and as one of all that was saved */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(advice.findings[i].pattern, MT_PATTERN_LATE_FREE);
        assert_int_equal(advice.findings[i].saved_bytes, 100 * MIB);
        assert_int_equal(advice.findings[i].events, 5);
    }
    mt_advice_release(&advice);
    free(story);
}

static void what_is_allocated_early_is_found(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t block = story_take(story, LOSS, 100 * MIB);
    something_else(story, 300 * MIB);
    story_write(story, block);
    story_read(story, block);
    story_give(story, block);
    expect(story, MT_PATTERN_EARLY_ALLOCATION, 100 * MIB, 100 * MIB, 2);
}

static void what_is_idle_between_uses_is_found(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t block = story_take(story, LOSS, 100 * MIB);
    story_write(story, block);
    something_else(story, 300 * MIB);
    story_read(story, block);
    story_give(story, block);
    expect(story, MT_PATTERN_IDLE, 100 * MIB, 100 * MIB, 2);
}

static void what_is_never_used_is_found(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t block = story_take(story, LOSS, 100 * MIB);
    something_else(story, 300 * MIB);
    story_give(story, block);
    expect(story, MT_PATTERN_NEVER_USED, 100 * MIB, 100 * MIB, 3);
}

/* A result is written and never read, too, but it is live when the last step ends. */
static void what_is_written_and_never_read_is_found_unless_it_is_a_result(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_mark(story, MT_EVENT_STEP_BEGIN, 0);
    size_t dead = story_take(story, LOSS, 100 * MIB), result = story_take(story, SAVED, 50 * MIB);
    story_write(story, dead);
    story_write(story, result);
    something_else(story, 300 * MIB);
    story_give(story, dead);
    story_mark(story, MT_EVENT_STEP_END, 0);
    story_give(story, result);
    expect(story, MT_PATTERN_DEAD_WRITE, 100 * MIB, 100 * MIB, 4);
}

/* The copy's idle time is between two precisions if its source is live when it ends. */
static void expect_copy(int original_is_there)
{
    struct story *story = story_begin();
    size_t original = story_take(story, PARAM, 200 * MIB), copy = story_take(story, WEIGHT_CAST, 100 * MIB);
    story_write(story, original);
    story_read(story, original);
    story_write(story, copy);
    story->uses[copy].copied_from = story->blocks[original].alloc_event;
    if (!original_is_there)
        story_give(story, original);
    something_else(story, 300 * MIB);
    story_read(story, copy);
    if (original_is_there)
        story_read(story, original);
    story_give(story, copy);
    if (original_is_there)
        story_give(story, original);
    expect(story, original_is_there ? MT_PATTERN_TWO_PRECISIONS : MT_PATTERN_IDLE, 100 * MIB, 100 * MIB,
           original_is_there ? 2 : 3);
}

static void a_copy_in_another_precision_is_found_if_it_can_be_made_again(void **state)
{
    (void)state;
    expect_copy(1);
    expect_copy(0);
}

static void gradients_that_live_through_the_forward_pass_are_found(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t grad = 0;
    for (uint64_t step = 0; step < 2; step++) {
        story_mark(story, MT_EVENT_STEP_BEGIN, step);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
        something_else(story, 300 * MIB);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_LOSS);
        if (step > 0)
            story_give(story, grad);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
        grad = story_take(story, GRAD, 100 * MIB);
        story_write(story, grad);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_OPTIMIZER);
        story_read(story, grad);
        story_mark(story, MT_EVENT_STEP_END, step);
    }
    expect(story, MT_PATTERN_KEPT_GRADIENTS, 100 * MIB, 100 * MIB, 4);
}

/* Gradients to which the next step adds must stay. */
static void gradients_that_are_added_to_are_not_wasted(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t grad = 0;
    for (uint64_t step = 0; step < 2; step++) {
        story_mark(story, MT_EVENT_STEP_BEGIN, step);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
        something_else(story, 300 * MIB);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
        if (step == 0)
            grad = story_take(story, GRAD, 100 * MIB);
        story_write(story, grad);
        story_read(story, grad);
        if (step == 1)
            story_give(story, grad);
        story_mark(story, MT_EVENT_STEP_END, step);
    }
    struct mt_advice advice = advise(story);
    assert_null(find(&advice, MT_PATTERN_KEPT_GRADIENTS));
    assert_non_null(find(&advice, MT_PATTERN_IDLE));
    mt_advice_release(&advice);
    free(story);
}

/* Optimizer state is used at the end of each step and large in each forward pass. If only the longest idle time were
 * known, nothing would be saved. */
static void a_pause_comes_again_in_every_step(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    struct story *story = story_begin();
    size_t moments = story_take(story, OPT_STATE, 100 * MIB);
    story_write(story, moments);
    for (uint64_t step = 0; step < STEPS; step++) {
        story_mark(story, MT_EVENT_STEP_BEGIN, step);
        if (step == 2)
            story_map(story, 2 * MIB); /* without it, all steps would be the same */
        something_else(story, 300 * MIB);
        story_read(story, moments);
        story_mark(story, MT_EVENT_STEP_END, step);
    }
    struct mt_advice advice = advise(story);
    const struct mt_finding *finding = find(&advice, MT_PATTERN_IDLE);
    assert_non_null(finding);
    assert_int_equal(finding->saved_bytes, 100 * MIB);
    assert_int_equal(finding->total_blocks, 1);
    mt_advice_release(&advice);
    free(story);
}

static void what_every_step_leaves_behind_is_found(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    struct story *story = story_begin();
    int64_t ends[STEPS];
    for (uint64_t step = 0; step < STEPS; step++) {
        story_mark(story, MT_EVENT_STEP_BEGIN, step);
        size_t loss = story_take(story, LOSS, 100 * MIB);
        story_write(story, loss);
        story_read(story, loss);
        something_else(story, 300 * MIB);
        story_mark(story, MT_EVENT_STEP_END, step);
        ends[step] = story->event;
    }
    size_t rows[STORY_LABELS];
    for (size_t i = 0; i < STORY_LABELS; i++)
        rows[i] = i == LOSS ? 0 : MT_NO_LEAK;
    struct mt_leaks leaks = {.loop = "",
                             .first_step = 1,
                             .last_step = STEPS - 1,
                             .first_event = ends[1],
                             .last_event = ends[STEPS - 1],
                             .row_of_label = rows,
                             .label_count = STORY_LABELS};
    struct mt_advice_input input = story_input(story, "policy=torch");
    input.leaks = &leaks;
    struct mt_advice advice = advise_with(&input);
    const struct mt_finding *finding = find(&advice, MT_PATTERN_LEAK);
    assert_non_null(finding);
    assert_string_equal(finding->category, "Loss");
    assert_int_equal(advice.peak_bytes, 800 * MIB);    /* in the last step */
    assert_int_equal(finding->saved_bytes, 300 * MIB); /* but for that step's and the first one's */
    assert_int_equal(finding->blocks, 3);
    assert_int_equal(finding->total_blocks, 4);
    mt_advice_release(&advice);
    free(story);
}

static void what_a_loop_leaves_behind_as_the_run_ends_is_not_wasted(void **state)
{
    (void)state;
    enum { ITERATIONS = 4 };
    struct story *story = story_begin();
    int64_t first = 0;
    for (size_t i = 0; i < ITERATIONS; i++) {
        size_t loss = story_take(story, LOSS, 100 * MIB);
        first = first != 0 ? first : story->event;
        story_write(story, loss);
        something_else(story, 300 * MIB);
    }
    size_t rows[STORY_LABELS];
    for (size_t i = 0; i < STORY_LABELS; i++)
        rows[i] = i == LOSS ? 0 : MT_NO_LEAK;
    struct mt_leaks leaks = {.loop = "inference",
                             .first_step = 0,
                             .last_step = ITERATIONS - 1,
                             .first_event = first,
                             .last_event = story->event,
                             .row_of_label = rows,
                             .label_count = STORY_LABELS};
    struct mt_advice_input input = story_input(story, "policy=torch");
    input.leaks = &leaks;
    struct mt_advice advice = advise_with(&input);
    const struct mt_finding *finding = find(&advice, MT_PATTERN_LEAK);
    assert_non_null(finding);
    assert_int_equal(finding->total_blocks, ITERATIONS - 1); /* the last iteration would end after the run */
    mt_advice_release(&advice);
    free(story);
}

/* Checks that activations of a program's forward pass are not reported as freed late if memory runs out in it, although
 * the exception frees them and ends the phase and the step. */
static void what_an_exception_frees_was_not_freed_late(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_mark(story, MT_EVENT_STEP_BEGIN, 0);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
    size_t block = story_take(story, SAVED, 100 * MIB);
    story_write(story, block);
    story_read(story, block);
    something_else(story, 300 * MIB);
    story_mark(story, MT_EVENT_OOM, 500 * MIB);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_INIT);
    story_give(story, block);
    story_mark(story, MT_EVENT_STEP_END, 0);
    struct mt_advice advice = advise(story);
    assert_null(find(&advice, MT_PATTERN_LATE_FREE));
    mt_advice_release(&advice);
    free(story);
}

static bool has(const struct mt_advice *advice, mt_pattern pattern)
{
    for (size_t i = 0; i < advice->count; i++)
        if (advice->findings[i].pattern == pattern)
            return true;
    return false;
}

/* Checks that a block that is freed after a failure counts as a result, like a parameter of a program that fails before
 * its first step. */
static void what_a_failed_program_clears_up_was_not_freed_late(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t block = story_take(story, SAVED, 100 * MIB);
    story_write(story, block);
    story_read(story, block);
    size_t last = story_take(story, TEMPORARY, 300 * MIB);
    story_write(story, last);
    story_read(story, last);
    story_give(story, block);
    struct mt_advice_input input = story_input(story, "policy=tight");
    for (int failed = 0; failed < 2; failed++) {
        input.has_failed = failed;
        struct mt_advice advice = advise_with(&input);
        assert_int_equal(has(&advice, MT_PATTERN_LATE_FREE), !failed);
        mt_advice_release(&advice);
    }
    free(story);
}

/* Checks that a block that is live when memory runs out is idle, and not freed late: it was still needed. */
static void what_is_there_when_memory_runs_out_is_idle(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_mark(story, MT_EVENT_STEP_BEGIN, 0);
    size_t block = story_take(story, LOSS, 100 * MIB);
    story_write(story, block);
    story_read(story, block);
    something_else(story, 300 * MIB);
    story_mark(story, MT_EVENT_OOM, 500 * MIB);
    story_give(story, block);
    struct mt_advice advice = advise(story);
    assert_null(find(&advice, MT_PATTERN_LATE_FREE));
    assert_int_equal(find(&advice, MT_PATTERN_IDLE)->saved_bytes, 100 * MIB);
    mt_advice_release(&advice);
    free(story);
}

static void place(struct story *story, size_t block, uint32_t segment, uint64_t offset)
{
    story->blocks[block].segment = segment;
    story->blocks[block].offset = offset;
}

static void holes_and_idle_segments_are_told_apart(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_map(story, 20 * MIB);
    size_t first = story_take(story, SAVED, 2 * MIB), second = story_take(story, TEMPORARY, 4 * MIB);
    place(story, first, 0, MIB);
    place(story, second, 0, 8 * MIB);
    story_map(story, 30 * MIB);
    size_t gone = story_take(story, SAVED, 30 * MIB);
    place(story, gone, 1, 0);
    story_give(story, gone);
    story_map(story, 40 * MIB);
    place(story, story_take(story, SAVED, 39 * MIB), 2, 0);
    struct mt_advice advice = advise(story);
    const struct mt_fragmentation *found = &advice.fragmentation;
    assert_int_equal(found->reserved_bytes, 90 * MIB);
    assert_int_equal(found->allocated_bytes, 45 * MIB);
    assert_int_equal(found->idle_bytes, 30 * MIB);
    assert_int_equal(found->hole_bytes, 15 * MIB);
    assert_int_equal(found->hole_count, 4); /* 1, 5 and 8 MiB in the first segment, 1 in the last */
    assert_int_equal(found->largest_bytes, 30 * MIB);
    assert_int_equal(found->asked_bytes, 39 * MIB);
    assert_int_equal(found->culprit, TEMPORARY);
    mt_advice_release(&advice);
    free(story);
}

/* A segment that grew for its last block, after its middle had been unmapped. */
static void memory_that_was_given_back_is_no_hole(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_map(story, 20 * MIB);
    size_t gap = story_grow(story, 0, 20 * MIB, 10 * MIB);
    place(story, story_take(story, SAVED, 16 * MIB), 0, 0);
    story_unmap(story, gap);
    story_grow(story, 0, 30 * MIB, 40 * MIB);
    place(story, story_take(story, TEMPORARY, 35 * MIB), 0, 30 * MIB);
    struct mt_advice advice = advise(story);
    const struct mt_fragmentation *found = &advice.fragmentation;
    assert_int_equal(found->reserved_bytes, 60 * MIB);
    assert_int_equal(found->allocated_bytes, 51 * MIB);
    assert_int_equal(found->idle_bytes, 0);
    assert_int_equal(found->hole_bytes, 9 * MIB);
    assert_int_equal(found->hole_count, 2);
    assert_int_equal(found->asked_bytes, 35 * MIB);
    mt_advice_release(&advice);
    free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_late_is_found),
        cmocka_unit_test(what_is_allocated_early_is_found),
        cmocka_unit_test(what_is_idle_between_uses_is_found),
        cmocka_unit_test(what_is_never_used_is_found),
        cmocka_unit_test(what_is_written_and_never_read_is_found_unless_it_is_a_result),
        cmocka_unit_test(a_copy_in_another_precision_is_found_if_it_can_be_made_again),
        cmocka_unit_test(gradients_that_live_through_the_forward_pass_are_found),
        cmocka_unit_test(gradients_that_are_added_to_are_not_wasted),
        cmocka_unit_test(a_pause_comes_again_in_every_step),
        cmocka_unit_test(what_every_step_leaves_behind_is_found),
        cmocka_unit_test(what_a_loop_leaves_behind_as_the_run_ends_is_not_wasted),
        cmocka_unit_test(what_an_exception_frees_was_not_freed_late),
        cmocka_unit_test(what_a_failed_program_clears_up_was_not_freed_late),
        cmocka_unit_test(what_is_there_when_memory_runs_out_is_idle),
        cmocka_unit_test(holes_and_idle_segments_are_told_apart),
        cmocka_unit_test(memory_that_was_given_back_is_no_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
