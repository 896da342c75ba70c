/* By how much estimates lower and raise the peaks of a run: what is stored, and what the verdict makes of it. */
#include "analysis/verdict.h"
#include "base/order.h"
#include "base/random.h"
#include "folder.h"
#include "run/live_bounds.h"
#include "run/live_run.h"
#include "seed.h"

#include <stdlib.h>

enum { MIB = 1 << 20, UNIT = 32 * MIB /* of which no rest stays unsplit */, ROUNDS = 400, SLOTS = 12 };

#define TRACE "bounds.db"

static int set_up(void **state)
{
    *state = enter_folder("test_live_bounds");
    return 0;
}

/* A run on a simulated card. */
struct program {
    struct mt_device *device;
    struct mt_live_run *run;
};

static struct program open_program(void)
{
    struct program program;
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    assert_int_equal(mt_device_open("sim:t4", &program.device), MT_OK);
    (void)remove(TRACE);
    const struct mt_live_settings live = {
        .trace = TRACE, .device = program.device, .alloc = &settings, .access = MT_LIVE_ANY_THREAD};
    assert_int_equal(mt_live_run_open(&live, &program.run), MT_OK);
    return program;
}

static mt_addr take(const struct program *program, uint64_t bytes)
{
    const struct mt_sink *sink = mt_live_run_sink(program->run);
    const struct mt_label label = {.op = "x", .layer = -1};
    const struct mt_alloc_request request = {.bytes = bytes, .label = sink->intern_label(sink->context, &label)};
    mt_addr address;
    assert_int_equal(mt_live_run_take(program->run, &request, &address), MT_OK);
    return address;
}

/* Takes and frees scratch memory whose bytes are an estimate. */
static void use_about(const struct program *program, uint64_t bytes, uint64_t low, uint64_t high)
{
    mt_live_run_estimate(program->run, bytes, &(struct mt_estimate_range){low, high});
    if (bytes > 0)
        assert_true(mt_live_run_give(program->run, take(program, bytes)));
}

/* Ends the run and returns its verdict. */
static struct mt_verdict end(const struct program *program)
{
    struct mt_question question = {0};
    struct mt_verdict verdict;
    assert_int_equal(mt_live_run_close(program->run, MT_RUN_DONE), MT_OK);
    mt_device_close(program->device);
    assert_int_equal(mt_trace_open(TRACE, &question.trace), MT_OK);
    assert_int_equal(mt_trace_find_run(question.trace, "1", &question.run), MT_OK);
    assert_int_equal(mt_verdict_find(&question, &verdict), MT_OK);
    mt_verdict_release(&verdict);
    mt_trace_close(question.trace);
    return verdict;
}

static void a_run_without_estimates_has_no_bounds(void **state)
{
    (void)state;
    const struct program program = open_program();
    (void)take(&program, 3 * MIB);
    const struct mt_verdict verdict = end(&program);
    assert_false(verdict.has_bounds);
    assert_int_equal(verdict.live_range.low_bytes, verdict.live_bytes);
    assert_int_equal(verdict.live_range.high_bytes, verdict.live_bytes);
    assert_int_equal(verdict.needed_range.low_bytes, verdict.needed_bytes);
    assert_int_equal(verdict.needed_range.high_bytes, verdict.needed_bytes);
}

static void an_estimate_at_the_peak_moves_it_by_its_range(void **state)
{
    (void)state;
    const struct program program = open_program();
    (void)take(&program, 100 * MIB);
    use_about(&program, 40 * MIB, 30 * MIB, 64 * MIB);
    const struct mt_verdict verdict = end(&program);
    assert_true(verdict.has_bounds);
    assert_int_equal(verdict.live_bytes, 140 * MIB);
    assert_int_equal(verdict.live_range.low_bytes, 130 * MIB);
    assert_int_equal(verdict.live_range.high_bytes, 164 * MIB);
    assert_int_equal(verdict.needed_range.low_bytes, verdict.needed_bytes - 10 * MIB);
    assert_int_equal(verdict.needed_range.high_bytes, verdict.needed_bytes + 24 * MIB);
}

static void an_estimate_of_nothing_can_raise_the_peak(void **state)
{
    (void)state;
    const struct program program = open_program();
    (void)take(&program, 100 * MIB);
    use_about(&program, 0, 0, 50 * MIB);
    const struct mt_verdict verdict = end(&program);
    assert_int_equal(verdict.live_range.low_bytes, verdict.live_bytes);
    assert_int_equal(verdict.live_range.high_bytes, 150 * MIB);
    assert_int_equal(verdict.needed_range.high_bytes, verdict.needed_bytes + 50 * MIB);
}

static void an_estimate_below_another_peak_moves_none(void **state)
{
    (void)state;
    const struct program program = open_program();
    assert_true(mt_live_run_give(program.run, take(&program, 200 * MIB)));
    use_about(&program, 40 * MIB, 0, 100 * MIB);
    (void)take(&program, 10 * MIB);
    const struct mt_verdict verdict = end(&program);
    assert_true(verdict.has_bounds);
    assert_int_equal(verdict.live_range.low_bytes, 200 * MIB);
    assert_int_equal(verdict.live_range.high_bytes, 200 * MIB);
    assert_int_equal(verdict.needed_range.high_bytes, verdict.needed_bytes);
}

static void cached_memory_that_is_freed_is_free_in_the_bounds(void **state)
{
    (void)state;
    const struct program program = open_program();
    (void)take(&program, 100 * MIB);
    use_about(&program, 40 * MIB, 40 * MIB, 80 * MIB);
    mt_live_run_release_cached(program.run);
    (void)take(&program, 200 * MIB);
    const struct mt_verdict verdict = end(&program);
    assert_int_equal(verdict.needed_bytes - verdict.outside_bytes, 300 * MIB);
    assert_int_equal(verdict.needed_range.high_bytes, verdict.needed_bytes);
}

/* Any program: the bounds of live bytes are the peaks of the same program with other scratch memory. */
static void bounds_are_the_peaks_of_the_program_with_other_estimates(void **state)
{
    (void)state;
    uint64_t random = take_seed(), live = 0, low = 0, high = 0, bytes[SLOTS] = {0};
    mt_addr blocks[SLOTS] = {0};
    const struct program program = open_program();
    for (int i = 0; i < ROUNDS; i++) {
        const size_t slot = mt_splitmix64(random++) % SLOTS;
        const uint64_t least = mt_splitmix64(random++) % 4 * UNIT, about = 2 * least, most = 3 * least;
        if (i % 3 == 0) {
            use_about(&program, about, least, most);
            low = mt_larger(low, live + least);
            high = mt_larger(high, live + most);
            continue;
        }
        if (blocks[slot] != 0)
            assert_true(mt_live_run_give(program.run, blocks[slot]));
        live -= bytes[slot];
        bytes[slot] = (1 + mt_splitmix64(random++) % 8) * UNIT;
        blocks[slot] = take(&program, bytes[slot]);
        live += bytes[slot];
        low = mt_larger(low, live);
        high = mt_larger(high, live);
    }
    const struct mt_verdict verdict = end(&program);
    assert_int_equal(verdict.live_range.low_bytes, low);
    assert_int_equal(verdict.live_range.high_bytes, high);
}

#define BOUNDS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, leave_folder)

static void iterations_that_did_not_run_would_add_what_they_grow(void **state)
{
    (void)state;
    struct mt_caveat growth = {.kind = MT_CAVEAT_GROWTH, .count = 90, .total = 30, .bytes = 1000, .value = 6};
    assert_int_equal(mt_growth_rest(&growth), 24 * 1000);
    growth.total = 6;
    assert_int_equal(mt_growth_rest(&growth), 0);
    growth.total = -1; /* unknown */
    assert_int_equal(mt_growth_rest(&growth), 0);
    growth.total = INT64_MAX;
    assert_int_equal(mt_growth_rest(&growth), INT64_MAX);
    growth.value = NAN;
    assert_int_equal(mt_growth_rest(&growth), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations_that_did_not_run_would_add_what_they_grow),
        BOUNDS_TEST(a_run_without_estimates_has_no_bounds),
        BOUNDS_TEST(an_estimate_at_the_peak_moves_it_by_its_range),
        BOUNDS_TEST(an_estimate_of_nothing_can_raise_the_peak),
        BOUNDS_TEST(an_estimate_below_another_peak_moves_none),
        BOUNDS_TEST(cached_memory_that_is_freed_is_free_in_the_bounds),
        BOUNDS_TEST(bounds_are_the_peaks_of_the_program_with_other_estimates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
