/* The search for the largest value that fits, with programs whose memory is a function written down here. */
#include "analysis/fit/largest_search.h"

#include "seed.h"

#include <math.h>
#include <string.h>

#define CAPACITY 24e9

enum { MOST_TRIALS = 4096, RANDOM_SEARCHES = 400 };

/* A program by the memory that it needs for a value. */
struct program {
    double fixed, linear, quadratic; /* bytes: fixed + linear * value + quadratic * value^2 */
    double step_at, step_bytes;      /* bytes that are added from that value on */
    double rounded_to;               /* reserved bytes are a multiple of that; 0: of nothing */
    double slack;                    /* reserved bytes exceed allocated ones by that part */
    double saved;                    /* the part of the slack that the allocator can free */
    bool is_random;                  /* every second value, at random, does not fit */
    int64_t fails_from;              /* it fails from that value on; 0: never */
    int64_t fails_unless;            /* it fails unless the value is a multiple of that; 0: never */
    uint64_t seed;
};

/* Counts what a search did. */
struct searched {
    struct mt_largest_search search;
    size_t rounds;
};

static double allocated_of(const struct program *program, double value)
{
    const double bytes = program->fixed + program->linear * value + program->quadratic * value * value;
    return bytes + (program->step_at > 0 && value >= program->step_at ? program->step_bytes : 0);
}

static struct mt_search_point try_value(const struct program *program, const struct mt_value_range *range,
                                        int64_t index)
{
    const int64_t value = mt_value_range_at(range, index);
    const double allocated = allocated_of(program, (double)value);
    double reserved = allocated * (1 + program->slack);
    if (program->rounded_to > 0)
        reserved = ceil(reserved / program->rounded_to) * program->rounded_to;
    const double enough = reserved - (reserved - allocated) * program->saved;
    struct mt_search_point point = {.index = index,
                                    .has_room = true,
                                    .reserved_room_bytes = CAPACITY - reserved,
                                    .allocated_room_bytes = CAPACITY - allocated};
    point.state = enough <= CAPACITY ? MT_SEARCH_FITS : MT_SEARCH_SHORT;
    if (program->is_random)
        point.state = mt_splitmix64(program->seed + (uint64_t)value) % 2 == 0 ? MT_SEARCH_FITS : MT_SEARCH_SHORT;
    const bool fails = (program->fails_from > 0 && value >= program->fails_from) ||
                       (program->fails_unless > 0 && value % program->fails_unless != 0);
    return fails ? (struct mt_search_point){.index = index, .state = MT_SEARCH_FAILED} : point;
}

static const struct mt_search_point *point_at(const struct mt_largest_search *search, int64_t index)
{
    for (size_t i = 0; i < search->count; i++)
        if (search->points[i].index == index)
            return &search->points[i];
    return NULL;
}

/* Searches to the end. Each round has new values of the range. */
static struct searched run(const struct program *program, const struct mt_value_range *range)
{
    struct searched done = {.search = {.range = range}};
    int64_t next[MT_SEARCH_ROUND];
    size_t count;
    while ((count = mt_largest_search_next(&done.search, next)) > 0) {
        done.rounds++;
        assert_true(count <= MT_SEARCH_ROUND && done.search.count < MOST_TRIALS);
        for (size_t i = 0; i < count; i++) {
            assert_true(next[i] >= 0 && next[i] < range->count);
            assert_null(point_at(&done.search, next[i]));
            const struct mt_search_point point = try_value(program, range, next[i]);
            mt_largest_search_add(&done.search, &point);
        }
    }
    return done;
}

/* The largest value that fits was tried, and its successor was tried and does not fit, or there is none. */
static void assert_proven(const struct mt_largest_search *search)
{
    const struct mt_search_point *found = mt_largest_search_found(search);
    const int64_t index = found != NULL ? found->index : -1;
    if (index + 1 == search->range->count)
        return;
    const struct mt_search_point *next = point_at(search, index + 1);
    assert_non_null(next);
    assert_int_not_equal(next->state, MT_SEARCH_FITS);
}

static int64_t found_value(const struct mt_largest_search *search)
{
    const struct mt_search_point *found = mt_largest_search_found(search);
    return found != NULL ? mt_value_range_at(search->range, found->index) : 0;
}

/* Returns the value that a search of every value finds, where memory grows with the value; 0: none. */
static int64_t search_all(const struct program *program, const struct mt_value_range *range)
{
    int64_t low = -1, high = range->count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (try_value(program, range, middle).state == MT_SEARCH_FITS)
            low = middle;
        else
            high = middle;
    }
    return low < 0 ? 0 : mt_value_range_at(range, low);
}

/* Searches the values that the text has. Checks the answer, and returns the number of trials. */
static size_t search(const struct program *program, const char *text, int64_t expected)
{
    struct mt_value_range range;
    assert_int_equal(mt_value_range_parse(text, &range), MT_OK);
    struct searched done = run(program, &range);
    assert_proven(&done.search);
    assert_int_equal(found_value(&done.search), expected);
    const size_t trials = done.search.count;
    mt_largest_search_release(&done.search);
    mt_value_range_release(&range);
    return trials;
}

static void memory_that_grows_evenly_takes_four_trials(void **state)
{
    (void)state;
    const struct program gpt2 = {.fixed = 1.5e9, .linear = 3.4e9, .rounded_to = 2 << 20};
    const struct program small = {.fixed = 1e9, .linear = 100e6, .rounded_to = 20 << 20};
    const struct program bent = {.fixed = 1e9, .linear = 1e6, .quadratic = 1e3};
    assert_int_equal(search(&gpt2, "batch=1..512", 6), 4);
    assert_true(search(&small, "batch=1..512", 229) <= 6);
    assert_true(search(&bent, "seq=128..8192", 4321) <= 6);
    assert_true(search(&bent, "seq=128..8192:64", 4288) <= 6);
}

static void memory_that_can_be_freed_takes_some_more(void **state)
{
    (void)state;
    const struct program slack = {.fixed = 1e9, .linear = 1e9, .slack = 0.06, .saved = 0.8};
    assert_true(search(&slack, "batch=1..512", 22) <= 8);
}

static struct program random_program(uint64_t seed)
{
    const double largest = pow(2, (double)(mt_splitmix64(seed) % 32));
    struct program program = {.fixed = (double)(mt_splitmix64(seed + 1) % 30) * 1e9, .seed = seed};
    program.linear = (double)(mt_splitmix64(seed + 2) % 3) * 10e9 / largest;
    program.quadratic = (double)(mt_splitmix64(seed + 3) % 3) * 10e9 / largest / largest;
    program.step_at = (double)(mt_splitmix64(seed + 4) % 3) * largest / 2;
    program.step_bytes = (double)(mt_splitmix64(seed + 5) % 3) * 10e9;
    program.rounded_to = (double)(mt_splitmix64(seed + 6) % 3) * (2 << 20);
    program.slack = (double)(mt_splitmix64(seed + 7) % 3) / 10;
    program.saved = (double)(mt_splitmix64(seed + 8) % 3) / 2;
    return program;
}

/* Trials, and rounds, by which every search ends: some guesses, then each round halves the remaining values. */
static void assert_bounded(const struct searched *done)
{
    const double halvings = ceil(log2((double)done->search.range->count + 1));
    assert_true((double)done->rounds <= 5 + halvings);
    assert_true((double)done->search.count <= 10 + 2 * halvings);
}

static void random_range(uint64_t seed, struct mt_value_range *out)
{
    const int64_t high = INT64_C(1) << (mt_splitmix64(seed + 20) % 32);
    const int64_t low = 1 + (int64_t)(mt_splitmix64(seed + 21) % (uint64_t)high);
    const int64_t step = 1 + (int64_t)(mt_splitmix64(seed + 22) % 16);
    *out = (struct mt_value_range){.low = low % 3 == 0 ? low : 1, .step = step % 3 == 0 ? step : 1};
    out->count = (high - out->low) / out->step + 1;
}

static void what_grows_is_found_exactly(void **state)
{
    (void)state;
    for (int i = 0; i < RANDOM_SEARCHES; i++) {
        const uint64_t seed = take_seed();
        const struct program program = random_program(seed);
        struct mt_value_range range;
        random_range(seed, &range);
        struct searched done = run(&program, &range);
        assert_bounded(&done);
        assert_proven(&done.search);
        assert_int_equal(found_value(&done.search), search_all(&program, &range));
        assert_null(mt_largest_search_exception(&done.search));
        mt_largest_search_release(&done.search);
    }
}

static void what_does_not_grow_ends_too(void **state)
{
    (void)state;
    bool any_exception = false;
    for (int i = 0; i < RANDOM_SEARCHES; i++) {
        const uint64_t seed = take_seed();
        struct program program = random_program(seed);
        program.is_random = true;
        struct mt_value_range range;
        random_range(seed, &range);
        struct searched done = run(&program, &range);
        assert_bounded(&done);
        assert_proven(&done.search);
        any_exception = any_exception || mt_largest_search_exception(&done.search) != NULL;
        mt_largest_search_release(&done.search);
    }
    assert_true(any_exception);
}

static void a_step_is_found_by_halving(void **state)
{
    (void)state;
    const struct program step = {.fixed = 1e9, .step_at = 300, .step_bytes = 30e9};
    const struct program late = {.fixed = 1e9, .step_at = 2e9, .step_bytes = 30e9};
    assert_true(search(&step, "batch=1..512", 299) <= 10 + 2 * 9);
    assert_true(search(&late, "batch=1..2147483648", 1999999999) <= 10 + 2 * 31);
}

static void all_or_none_may_fit(void **state)
{
    (void)state;
    const struct program same = {.fixed = 1e9}, too_large = {.fixed = 25e9, .linear = 1};
    assert_int_equal(search(&same, "batch=1..512", 512), 3);
    assert_true(search(&same, "batch=1..2147483648", INT64_C(1) << 31) <= 8);
    assert_int_equal(search(&too_large, "batch=1..512", 0), 2);
    assert_int_equal(search(&same, "batch=7", 7), 1);
    assert_int_equal(search(&too_large, "batch=7..7", 0), 1);
    assert_int_equal(search(&same, "batch=7..8", 8), 2);
}

static void values_of_a_list_are_tried(void **state)
{
    (void)state;
    const struct program gpt2 = {.fixed = 1.5e9, .linear = 3.4e9};
    assert_true(search(&gpt2, "batch=1,2,4,8,16,32", 4) <= 4);
    assert_int_equal(search(&gpt2, "batch=32", 0), 1);
}

static void a_value_that_fails_alone_is_passed(void **state)
{
    (void)state;
    const struct program even = {.fixed = 1.5e9, .linear = 0.5e9, .fails_unless = 2};
    assert_true(search(&even, "batch=1..512", 44) <= 16);
    assert_true(search(&even, "batch=2..512:2", 44) <= 6);
}

static void values_that_fail_from_one_on_end_the_search(void **state)
{
    (void)state;
    const struct program short_table = {.fixed = 1e9, .linear = 1e6, .fails_from = 1025};
    const struct program broken = {.fails_from = 1};
    assert_true(search(&short_table, "seq=128..8192", 1024) <= 34);
    assert_int_equal(search(&broken, "seq=128..8192", 0), 4);
}

/* A program may need more memory than the card on which it is tried. Then its peak is not known. */
static void values_without_a_known_peak_are_halved(void **state)
{
    (void)state;
    struct mt_value_range range;
    assert_int_equal(mt_value_range_parse("batch=1..512", &range), MT_OK);
    struct mt_largest_search search = {.range = &range};
    int64_t next[MT_SEARCH_ROUND];
    size_t count, trials = 0;
    while ((count = mt_largest_search_next(&search, next)) > 0)
        for (size_t i = 0; i < count; i++, trials++) {
            const struct mt_search_point point = {.index = next[i],
                                                  .state = next[i] < 5 ? MT_SEARCH_FITS : MT_SEARCH_SHORT};
            mt_largest_search_add(&search, &point);
        }
    assert_int_equal(found_value(&search), 5);
    assert_true(trials <= 10);
    mt_largest_search_release(&search);
    mt_value_range_release(&range);
}

static void expect_refusal(const char *text, const char *words)
{
    struct mt_value_range range;
    assert_int_equal(mt_value_range_parse(text, &range), MT_USAGE);
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("%s: %s", text, mt_last_error());
    mt_value_range_release(&range);
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    expect_refusal("batch", "NAME=LOW..HIGH");
    expect_refusal("=1..2", "NAME=LOW..HIGH");
    expect_refusal("batch=", "batch");
    expect_refusal("batch=8..1", "the range ends at 1, below its begin 8");
    expect_refusal("batch=0..8", "batch");
    expect_refusal("batch=-1..8", "batch");
    expect_refusal("batch=1..4294967296", "batch");
    expect_refusal("batch=1..99999999999999999999", "batch");
    expect_refusal("batch=1..x", "batch");
    expect_refusal("batch=1..8:0", "batch");
    expect_refusal("batch=1...8", "batch");
    expect_refusal("batch=1,,8", "batch");
    expect_refusal("batch=1,4,4", "4 follows 4; values must ascend");
    expect_refusal("batch=1,2..8", "batch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_grows_evenly_takes_four_trials),
        cmocka_unit_test(memory_that_can_be_freed_takes_some_more),
        cmocka_unit_test(what_grows_is_found_exactly),
        cmocka_unit_test(what_does_not_grow_ends_too),
        cmocka_unit_test(a_step_is_found_by_halving),
        cmocka_unit_test(all_or_none_may_fit),
        cmocka_unit_test(values_of_a_list_are_tried),
        cmocka_unit_test(a_value_that_fails_alone_is_passed),
        cmocka_unit_test(values_that_fail_from_one_on_end_the_search),
        cmocka_unit_test(values_without_a_known_peak_are_halved),
        cmocka_unit_test(what_is_no_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
