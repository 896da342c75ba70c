/* Plans of random runs, against a checker that replays them request by request and does not know the packing. */
#include "plan_runs.h"
#include "seed.h"

#include <string.h>

enum { MOST_LIVE = 4096, REPETITIONS = 4, RUNS = 60 };

/* A block that is out while the run is replayed. */
struct live {
    uint64_t begin, end, freed;
};

/* The bytes that a run takes when it is replayed with a plan. */
struct played {
    struct live live[MOST_LIVE];
    size_t live_count;
    uint64_t peak_bytes, highest_end;
};

static void drop_freed(struct played *played, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < played->live_count; i++)
        if (played->live[i].freed > now)
            played->live[kept++] = played->live[i];
    played->live_count = kept;
}

static void take(struct played *played, struct live block)
{
    uint64_t bytes = block.end - block.begin;
    for (size_t i = 0; i < played->live_count; i++) {
        const struct live *other = &played->live[i];
        bytes += other->end - other->begin;
        assert_false(block.begin < other->end && other->begin < block.end);
    }
    assert_true(played->live_count < MOST_LIVE);
    played->live[played->live_count++] = block;
    if (bytes > played->peak_bytes)
        played->peak_bytes = bytes;
    if (block.end > played->highest_end)
        played->highest_end = block.end;
}

static size_t count_of_step(const struct run *run, int64_t step)
{
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++)
        count += run->requests[i].step == step;
    return count;
}

/* Replays the run and then its last step again and again; no live block may overlap a request's place. */
static void play(const struct run *run, const struct mt_plan *plan, struct played *out)
{
    int64_t last_step = run->requests[run->count - 1].step, step = MT_NO_STEP - 1;
    size_t length = count_of_step(run, last_step), number = 0;
    memset(out, 0, sizeof *out);
    for (size_t now = 0; now < run->count + REPETITIONS * length; now++) {
        size_t ahead = now < run->count ? 0 : (now - run->count) / length + 1;
        const struct mt_plan_request *request = &run->requests[now - ahead * length];
        int64_t its_step = request->step + (int64_t)ahead;
        number = its_step == step ? number + 1 : 0;
        step = its_step;
        /* The requests of the last step do not have all the ends of their blocks: those of the step before do. */
        const struct mt_plan_request *knows = request->step == last_step ? request - length : request;
        uint64_t shift = now - (uint64_t)(knows - run->requests);
        uint64_t freed = knows->freed == MT_PLAN_KEPT ? MT_PLAN_KEPT : knows->freed + shift;
        drop_freed(out, now);
        uint64_t offset;
        assert_true(mt_plan_place(plan, step, number, request->bytes, &offset));
        assert_int_equal(offset % 512, 0);
        take(out, (struct live){offset, offset + (request->bytes + 511) / 512 * 512, freed});
    }
}

static void blocks_that_are_live_at_once_never_overlap(void **unused)
{
    (void)unused;
    static struct played played;
    uint64_t seed = take_seed() << 20;
    double worst = 0, sum = 0;
    for (uint64_t i = 0; i < RUNS; i++) {
        struct run run = draw_run(seed + (i << 12));
        struct mt_plan *plan;
        if (mt_plan_make(run.requests, run.count, &plan) != MT_OK)
            fail_msg("%s", mt_last_error());
        play(&run, plan, &played);
        assert_int_equal(mt_plan_bytes(plan), played.highest_end);
        assert_int_equal(mt_plan_peak_bytes(plan), played.peak_bytes);
        assert_true(mt_plan_bytes(plan) >= mt_plan_peak_bytes(plan));
        double ratio = (double)mt_plan_bytes(plan) / (double)mt_plan_peak_bytes(plan);
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        mt_plan_destroy(plan);
        free(run.requests);
    }
    print_message("bytes over peak: %.4f on average, %.4f at worst\n", sum / RUNS, worst);
    assert_true(sum / RUNS < 1.2);
}

static void equal_requests_make_equal_plans(void **unused)
{
    (void)unused;
    struct run run = draw_run(take_seed() << 20);
    struct mt_plan *a, *b;
    assert_int_equal(mt_plan_make(run.requests, run.count, &a), MT_OK);
    assert_int_equal(mt_plan_make(run.requests, run.count, &b), MT_OK);
    uint64_t numbers[4] = {0};
    for (size_t i = 0; i < run.count; i++) {
        int64_t step = run.requests[i].step;
        uint64_t in_a = 0, in_b = 1, number = numbers[step + 1]++;
        assert_true(mt_plan_place(a, step < 2 ? step : 1, number, run.requests[i].bytes, &in_a));
        assert_true(mt_plan_place(b, step, number, run.requests[i].bytes, &in_b));
        assert_int_equal(in_a, in_b);
    }
    mt_plan_destroy(a);
    mt_plan_destroy(b);
    free(run.requests);
}

/* A parameter, and a gradient that lives into the next step, where its successor takes its place. */
static const struct mt_plan_request small_run[] = {
    {1000, MT_PLAN_KEPT, MT_NO_STEP}, {600, 3, 0}, {2000, 4, 0}, {600, 5, 1}, {2000, 6, 1}, {600, 7, 2},
    {2000, MT_PLAN_KEPT, 2},
};
enum { SMALL_RUN = sizeof small_run / sizeof small_run[0] };

static void a_gradient_takes_the_place_of_the_one_before(void **unused)
{
    (void)unused;
    struct mt_plan *plan;
    assert_int_equal(mt_plan_make(small_run, SMALL_RUN, &plan), MT_OK);
    uint64_t first, second, third;
    assert_true(mt_plan_place(plan, 1, 1, 2000, &first));
    assert_true(mt_plan_place(plan, 2, 1, 2000, &second));
    assert_true(mt_plan_place(plan, 1000, 1, 2000, &third));
    assert_int_equal(first, second);
    assert_int_equal(first, third);
    assert_int_equal(mt_plan_peak_bytes(plan), 1024 + 1024 + 2048);
    assert_int_equal(mt_plan_bytes(plan), mt_plan_peak_bytes(plan));
    mt_plan_destroy(plan);
}

static void what_was_not_planned_has_no_place(void **unused)
{
    (void)unused;
    struct mt_plan *plan;
    uint64_t offset = 7;
    assert_int_equal(mt_plan_make(small_run, SMALL_RUN, &plan), MT_OK);
    assert_false(mt_plan_place(plan, 1, 1, 3000, &offset));
    assert_false(mt_plan_place(plan, 1, 2, 2000, &offset));
    assert_false(mt_plan_place(plan, MT_NO_STEP, 1, 1000, &offset));
    assert_false(mt_plan_place(plan, 1, 1, UINT64_MAX, &offset));
    assert_int_equal(offset, 7);
    assert_true(mt_plan_place(plan, 1, 1, 2048, &offset)); /* rounded up to the same size */
    mt_plan_destroy(plan);
}

/* Each step keeps a block for ever, so no place is free again in every step. */
static void a_block_that_piles_up_has_no_place(void **unused)
{
    (void)unused;
    const struct mt_plan_request leaking[] = {{600, 1, 0}, {512, MT_PLAN_KEPT, 0}, {600, 3, 1}, {512, MT_PLAN_KEPT, 1},
                                              {600, 5, 2}, {512, MT_PLAN_KEPT, 2}};
    struct mt_plan *plan;
    uint64_t offset;
    assert_int_equal(mt_plan_make(leaking, 6, &plan), MT_OK);
    assert_true(mt_plan_place(plan, 0, 1, 512, &offset));
    assert_true(mt_plan_place(plan, 1, 0, 600, &offset));
    assert_false(mt_plan_place(plan, 1, 1, 512, &offset));
    assert_int_equal(mt_plan_peak_bytes(plan), 512 + 1024);
    mt_plan_destroy(plan);
}

/* Nor has a block a place that is still live when its successor begins. */
static void a_block_that_outlives_its_successors_beginning_has_no_place(void **unused)
{
    (void)unused;
    const struct mt_plan_request long_lived[] = {{600, 1, 0}, {512, 4, 0}, {600, 3, 1},
                                                 {512, 6, 1}, {600, 5, 2}, {512, MT_PLAN_KEPT, 2}};
    struct mt_plan *plan;
    uint64_t offset;
    assert_int_equal(mt_plan_make(long_lived, 6, &plan), MT_OK);
    assert_true(mt_plan_place(plan, 1, 0, 600, &offset));
    assert_false(mt_plan_place(plan, 1, 1, 512, &offset));
    mt_plan_destroy(plan);
}

static void expect_refused(const struct mt_plan_request *requests, size_t count, const char *words)
{
    struct mt_plan *plan;
    assert_int_equal(mt_plan_make(requests, count, &plan), MT_USAGE);
    assert_null(plan);
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("%s", mt_last_error());
}

static void steps_that_do_not_repeat_are_refused_with_their_difference(void **unused)
{
    (void)unused;
    struct mt_plan_request run[SMALL_RUN];
    memcpy(run, small_run, sizeof run);
    run[SMALL_RUN - 2].bytes = 700;
    expect_refused(run, SMALL_RUN, "request 0 is of 600 bytes in step 1, of 700 in step 2");
    memcpy(run, small_run, sizeof run);
    run[3].freed = 4;
    run[SMALL_RUN - 2].freed = MT_PLAN_KEPT;
    expect_refused(run, SMALL_RUN, "request 0 lives longer");
    expect_refused(run, SMALL_RUN - 1, "step 1 makes 2 requests, step 2 1");
    expect_refused(small_run, 1, "needs two steps");
    run[3].step = 2;
    expect_refused(run, SMALL_RUN, "is of step 2, the one before of step 0");
    run[0].bytes = UINT64_MAX;
    expect_refused((const struct mt_plan_request[]){{UINT64_MAX, 1, 0}, {UINT64_MAX, 2, 1}}, 2, "more bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_are_live_at_once_never_overlap),
        cmocka_unit_test(equal_requests_make_equal_plans),
        cmocka_unit_test(a_gradient_takes_the_place_of_the_one_before),
        cmocka_unit_test(what_was_not_planned_has_no_place),
        cmocka_unit_test(a_block_that_piles_up_has_no_place),
        cmocka_unit_test(a_block_that_outlives_its_successors_beginning_has_no_place),
        cmocka_unit_test(steps_that_do_not_repeat_are_refused_with_their_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
