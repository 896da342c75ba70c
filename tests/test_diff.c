/* Differences between runs: over every pair of a sweep of all model sizes the rows and the causes add up to the byte
 * and turn their signs when the sides are swapped; rows are the blocks that were live; and causes have the bytes that
 * the model's shapes say. */
#include "alloc_opening.h"
#include "analysis/diff/diff.h"
#include "producers/model/training.h"
#include "recording.h"
#include "seed.h"
#include "synthetic.h"
#include "trace_opening.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A sweep: all sizes, in both precisions forward, full steps in one of them by turns (the smallest in both), lengths by
 * turns too; then the smallest with other settings; then random runs. */
enum {
    SIZES = 5,
    RUNS_A_SIZE = 3, /* forward fp32, forward autocast, full step */
    SMALL_FULL = 2,
    SMALL_AUTOCAST = SIZES * RUNS_A_SIZE,
    ZERO_GRAD_FIRST,
    TWICE_AS_LONG,
    RANDOM_RUNS,
    SYNTHETIC_RUNS = 4,
    RUNS = RANDOM_RUNS + SYNTHETIC_RUNS
};

struct fixture {
    char path[64];
    uint64_t seed;
    struct mt_trace *trace, *other; /* two openings of one file */
    const struct mt_run *runs, *other_runs;
};

static struct mt_training_config config_of(int run)
{
    struct mt_training_config config = mt_training_config_default();
    bool is_swept = run < SIZES * RUNS_A_SIZE;
    int size = is_swept ? run / RUNS_A_SIZE : 0, place = is_swept ? run % RUNS_A_SIZE : SMALL_FULL;
    assert_int_equal(mt_model_config_named(mt_model_names[size], &config.model), MT_OK);
    config.mode = place == SMALL_FULL ? MT_MODE_FWD_BWD : MT_MODE_FWD;
    config.autocast = run == SMALL_AUTOCAST || place == 1 || (place == SMALL_FULL && size % 2 == 1);
    config.steps = config.mode == MT_MODE_FWD ? 1 : 2;
    config.warmup = 0;
    config.seq = run == TWICE_AS_LONG ? 128 : 64 << size % 3;
    config.zero_grad = run == ZERO_GRAD_FIRST ? MT_ZERO_GRAD_BEFORE_FORWARD : MT_ZERO_GRAD_BEFORE_BACKWARD;
    return config;
}

static void record(const char *path, int run)
{
    struct mt_training_config config = config_of(run);
    struct mt_run_info info = {.device = "sim", .capacity_bytes = UINT64_C(1) << 40};
    struct mt_recorder *recorder;
    assert_int_equal(mt_recorder_open(path, &info, &recorder), MT_OK);
    struct mt_device *device = open_device("sim");
    struct mt_alloc *alloc = create_alloc(device, run % 3 == 0 ? "" : "policy=torch", mt_recorder_sink(recorder));
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
}

/* Blocks of any size without a shape, roles that fit no category. */
static void record_random(const char *path, uint64_t seed)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, path, NULL, seed, 5 + seed % 40), MT_OK);
    synthetic_move(&run, seed % 50, 20);
    for (uint64_t step = 0; step < 1 + seed % 3; step++)
        synthetic_step(&run, step, 300 + seed % 2000, 30 + seed % 60);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    fixture->seed = take_seed();
    snprintf(fixture->path, sizeof fixture->path, "test_diff_%d.db", (int)getpid());
    unlink(fixture->path);
    for (int run = 0; run < RANDOM_RUNS; run++)
        record(fixture->path, run);
    for (uint64_t run = 0; run < SYNTHETIC_RUNS; run++)
        record_random(fixture->path, mt_splitmix64(fixture->seed + run) >> 32);
    size_t count;
    assert_int_equal(mt_trace_open(fixture->path, &fixture->trace), MT_OK);
    assert_int_equal(mt_trace_open(fixture->path, &fixture->other), MT_OK);
    fixture->runs = mt_trace_runs(fixture->trace, &count);
    fixture->other_runs = mt_trace_runs(fixture->other, &count);
    assert_int_equal(count, RUNS);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    mt_trace_close(fixture->trace);
    mt_trace_close(fixture->other);
    unlink(fixture->path);
    free(fixture);
    return 0;
}

/* The diff of two runs of the trace; release it. */
static struct mt_diff diff_of(const struct fixture *fixture, int a, int b)
{
    struct mt_diff diff;
    const struct mt_question left = {.trace = fixture->trace, .run = &fixture->runs[a]},
                             right = {.trace = fixture->trace, .run = &fixture->runs[b]};
    if (mt_trace_diff(&left, &right, &diff) != MT_OK)
        fail_msg("runs %d and %d: %s", a, b, mt_last_error());
    return diff;
}

/* A cause has blocks that differ, unless it is about bytes that no tensor asked for. */
static void check_blocks(const struct mt_diff_cause *cause)
{
    bool has_blocks = cause->kind != MT_CAUSE_ROUNDING && cause->kind != MT_CAUSE_CACHED;
    assert_int_equal(cause->blocks[MT_SIDE_A] + cause->blocks[MT_SIDE_B] > 0, has_blocks);
    assert_int_equal(cause->most.count > 0, has_blocks);
    assert_true(cause->most.is_on[MT_SIDE_A] || cause->most.is_on[MT_SIDE_B] || !has_blocks);
}

static void check_sums(const struct mt_diff_parts *parts, int64_t difference)
{
    int64_t rows = 0, causes = 0;
    assert_int_equal(parts->delta_bytes, difference);
    for (size_t i = 0; i < parts->row_count; i++) {
        assert_int_equal(parts->rows[i].delta_bytes, (int64_t)(parts->rows[i].b_bytes - parts->rows[i].a_bytes));
        rows += parts->rows[i].delta_bytes;
    }
    for (size_t i = 0; i < parts->cause_count; i++) {
        assert_int_not_equal(parts->causes[i].bytes, 0);
        check_blocks(&parts->causes[i]);
        causes += parts->causes[i].bytes;
    }
    assert_int_equal(rows, difference);
    assert_int_equal(causes, difference);
}

static void check_order(const struct mt_diff_parts *parts)
{
    for (size_t i = 1; i < parts->row_count; i++)
        assert_true(llabs(parts->rows[i - 1].delta_bytes) >= llabs(parts->rows[i].delta_bytes));
    for (size_t i = 1; i < parts->cause_count; i++)
        assert_true(llabs(parts->causes[i - 1].bytes) >= llabs(parts->causes[i].bytes));
}

static void check_swapped_row(const struct mt_diff_row *row, const struct mt_diff_row *swapped)
{
    assert_string_equal(row->category, swapped->category);
    assert_string_equal(row->role, swapped->role);
    assert_string_equal(row->phase, swapped->phase);
    assert_string_equal(row->op, swapped->op);
    assert_int_equal(row->delta_bytes, -swapped->delta_bytes);
    assert_int_equal(row->a_bytes, swapped->b_bytes);
    assert_int_equal(row->a_blocks, swapped->b_blocks);
}

static void check_swapped(const struct mt_diff_parts *parts, const struct mt_diff_parts *swapped)
{
    assert_int_equal(parts->row_count, swapped->row_count);
    assert_int_equal(parts->cause_count, swapped->cause_count);
    for (size_t i = 0; i < parts->row_count; i++)
        check_swapped_row(&parts->rows[i], &swapped->rows[i]);
    for (size_t i = 0; i < parts->cause_count; i++) {
        assert_int_equal(parts->causes[i].kind, swapped->causes[i].kind);
        assert_string_equal(parts->causes[i].category, swapped->causes[i].category);
        assert_int_equal(parts->causes[i].bytes, -swapped->causes[i].bytes);
    }
}

static uint64_t peak_of(const struct fixture *fixture, int run, mt_measure measure)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(fixture->trace, &fixture->runs[run], measure, &peak), MT_OK);
    uint64_t bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return bytes;
}

/* The diff of two runs, which adds up; release it. */
static struct mt_diff checked_diff(const struct fixture *fixture, int a, int b)
{
    struct mt_diff diff = diff_of(fixture, a, b);
    int64_t allocated =
        (int64_t)(peak_of(fixture, b, MT_MEASURE_ALLOCATED) - peak_of(fixture, a, MT_MEASURE_ALLOCATED));
    int64_t reserved = (int64_t)(peak_of(fixture, b, MT_MEASURE_RESERVED) - peak_of(fixture, a, MT_MEASURE_RESERVED));
    check_sums(&diff.allocated, allocated);
    check_sums(&diff.reserved, reserved);
    check_order(&diff.allocated);
    check_order(&diff.reserved);
    return diff;
}

static void check_pair(const struct fixture *fixture, int a, int b)
{
    struct mt_diff diff = checked_diff(fixture, a, b), swapped = checked_diff(fixture, b, a);
    check_swapped(&diff.allocated, &swapped.allocated);
    check_swapped(&diff.reserved, &swapped.reserved);
    mt_diff_release(&diff);
    mt_diff_release(&swapped);
}

/* Under a sanitizer three pairs of every two sizes, in which each kind of run is on either side: all would take
 * long. */
static bool is_left_out(int a, int b)
{
#if defined(__SANITIZE_ADDRESS__)
    return (a + b) % RUNS_A_SIZE != 0;
#else
    return a == b;
#endif
}

/* The older one is A by turns. */
static void rows_and_causes_add_up_over_every_pair(void **state)
{
    const struct fixture *fixture = *state;
    for (int b = 0; b < RANDOM_RUNS; b++)
        for (int a = 0; a < b; a++) {
            bool is_turned = (a + b) % 2 == 1;
            if (is_left_out(a, b))
                continue;
            struct mt_diff diff = checked_diff(fixture, is_turned ? b : a, is_turned ? a : b);
            mt_diff_release(&diff);
        }
}

/* All pairs of one size, and of two sizes one, each kind of run by turns. */
static void swapping_turns_every_sign(void **state)
{
    const struct fixture *fixture = *state;
    for (int b = 0; b < RANDOM_RUNS; b++)
        for (int a = 0; a < b; a++) {
            int sizes = a / RUNS_A_SIZE + b / RUNS_A_SIZE, places = a % RUNS_A_SIZE + RUNS_A_SIZE * (b % RUNS_A_SIZE);
            if (a / RUNS_A_SIZE == b / RUNS_A_SIZE || places == sizes % (RUNS_A_SIZE * RUNS_A_SIZE))
                check_pair(fixture, a, b);
        }
}

static void random_runs_add_up_too(void **state)
{
    const struct fixture *fixture = *state;
    for (int b = RANDOM_RUNS; b < RUNS; b++)
        for (int a = RANDOM_RUNS; a < b; a++)
            check_pair(fixture, a, b);
    check_pair(fixture, SMALL_FULL, RANDOM_RUNS);
}

/* Returns the bytes of a category on one side, summed over the rows. */
static uint64_t category_bytes(const struct mt_diff_parts *parts, const char *category, mt_side side)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < parts->row_count; i++)
        if (strcmp(parts->rows[i].category, category) == 0)
            bytes += side == MT_SIDE_A ? parts->rows[i].a_bytes : parts->rows[i].b_bytes;
    return bytes;
}

static void check_shares(const struct fixture *fixture, int run, const struct mt_diff *diff, mt_side side)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(fixture->trace, &fixture->runs[run], MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_int_equal(diff->side[side].allocated_bytes, peak.bytes);
    for (size_t i = 0; i < peak.share_count; i++)
        assert_int_equal(category_bytes(&diff->allocated, peak.shares[i].name, side), peak.shares[i].allocated_bytes);
    mt_peak_row_release(&peak);
}

static void each_sides_rows_are_what_was_live_at_its_peak(void **state)
{
    const struct fixture *fixture = *state;
    for (int run = 1; run < RUNS; run++) {
        struct mt_diff diff = diff_of(fixture, run - 1, run);
        check_shares(fixture, run - 1, &diff, MT_SIDE_A);
        check_shares(fixture, run, &diff, MT_SIDE_B);
        mt_diff_release(&diff);
    }
}

static void a_run_differs_from_itself_in_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_diff diff = diff_of(fixture, SMALL_FULL, SMALL_FULL);
    assert_int_equal(diff.allocated.delta_bytes, 0);
    assert_int_equal(diff.reserved.cause_count, 0);
    assert_true(diff.allocated.row_count > 0);
    mt_diff_release(&diff);
}

static void check_equal_pairs(const struct mt_diff_pair *one, const struct mt_diff_pair *two)
{
    assert_int_equal(one->count, two->count);
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        assert_int_equal(one->is_on[side], two->is_on[side]);
        if (!one->is_on[side])
            continue;
        assert_int_equal(one->of[side].requested_bytes, two->of[side].requested_bytes);
        assert_string_equal(one->of[side].shape, two->of[side].shape);
        assert_string_equal(one->of[side].place, two->of[side].place);
    }
}

static void check_equal_causes(const struct mt_diff_cause *one, const struct mt_diff_cause *two)
{
    assert_int_equal(one->kind, two->kind);
    assert_string_equal(one->category, two->category);
    assert_memory_equal(one->blocks, two->blocks, sizeof one->blocks);
    assert_memory_equal(one->requested_bytes, two->requested_bytes, sizeof one->requested_bytes);
    check_equal_pairs(&one->most, &two->most);
    check_equal_pairs(&one->counterpart, &two->counterpart);
}

static void two_openings_of_a_trace_compare_as_one(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_diff one = diff_of(fixture, SMALL_FULL, SMALL_AUTOCAST), two;
    const struct mt_question a = {.trace = fixture->trace, .run = &fixture->runs[SMALL_FULL]};
    const struct mt_question b = {.trace = fixture->other, .run = &fixture->other_runs[SMALL_AUTOCAST]};
    assert_int_equal(mt_trace_diff(&a, &b, &two), MT_OK);
    assert_int_equal(one.reserved.cause_count, two.reserved.cause_count);
    for (size_t i = 0; i < one.reserved.cause_count; i++) {
        assert_int_equal(one.reserved.causes[i].bytes, two.reserved.causes[i].bytes);
        check_equal_causes(&one.reserved.causes[i], &two.reserved.causes[i]);
    }
    mt_diff_release(&one);
    mt_diff_release(&two);
}

/* The bytes of a cause of that kind, "" being any category. */
static int64_t cause_bytes(const struct mt_diff *diff, mt_cause kind, const char *category)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < diff->allocated.cause_count; i++) {
        const struct mt_diff_cause *cause = &diff->allocated.causes[i];
        if (cause->kind == kind && (category[0] == '\0' || strcmp(cause->category, category) == 0))
            bytes += cause->bytes;
    }
    return bytes;
}

/* Elements of all matrices that products take: every parameter but norms and the embedding. */
static int64_t product_weights(const struct mt_model_config *model)
{
    return model->layers * (4 * model->d_model * model->d_model + 3 * model->d_model * model->d_ff) +
           model->vocab * model->d_model;
}

static void autocast_adds_a_copy_of_every_weight_and_halves_activations(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_training_config config = config_of(SMALL_FULL);
    const struct mt_model_config *model = &config.model;
    struct mt_diff diff = diff_of(fixture, SMALL_FULL, SMALL_AUTOCAST);
    enum { HALF = 2, GATE_TENSORS = 3 };
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_WEIGHT_CASTS, ""), HALF * product_weights(model));
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_PRECISION, "FFN"),
                     -HALF * GATE_TENSORS * model->layers * config.batch * config.seq * model->d_ff);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_PRECISION, "AttnOut"),
                     -HALF * model->layers * config.batch * model->heads * config.seq * config.seq);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_SIZE, ""), 0);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_PARAMETERS, ""), 0);
    mt_diff_release(&diff);
}

static void a_longer_sequence_makes_activations_larger_and_adds_none(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_training_config config = config_of(SMALL_FULL);
    const struct mt_model_config *model = &config.model;
    struct mt_diff diff = diff_of(fixture, SMALL_FULL, TWICE_AS_LONG);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_SIZE, "AttnOut"),
                     (4 - 1) * 4 * model->layers * config.batch * model->heads * config.seq * config.seq);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_PRECISION, ""), 0);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_ACTIVATION_COUNT, ""), 0);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_WEIGHT_CASTS, ""), 0);
    mt_diff_release(&diff);
}

static void gradients_that_outlive_their_step_are_a_cause_with_their_life(void **state)
{
    const struct fixture *fixture = *state;
    struct mt_training_config config = config_of(SMALL_FULL);
    struct mt_diff diff = diff_of(fixture, SMALL_FULL, ZERO_GRAD_FIRST);
    int64_t bytes = 4 * (int64_t)mt_model_parameter_count(&config.model);
    assert_int_equal(cause_bytes(&diff, MT_CAUSE_LAST_GRADIENTS, ""), -bytes);
    const struct mt_diff_side *side = &diff.side[MT_SIDE_A];
    assert_int_equal(side->last_gradients_step, 0);
    assert_non_null(side->last_gradients_freed_in);
    assert_string_not_equal(side->last_gradients_freed_in, "");
    assert_null(diff.side[MT_SIDE_B].last_gradients_freed_in);
    mt_diff_release(&diff);
}

static void a_run_without_blocks_is_refused_with_what_to_do(void **state)
{
    const struct fixture *fixture = *state;
    char path[64];
    snprintf(path, sizeof path, "test_diff_empty_%d.db", (int)getpid());
    struct mt_run_info info = {.device = "sim", .capacity_bytes = 1};
    struct mt_recorder *recorder;
    const struct mt_run *run;
    struct mt_diff diff;
    assert_int_equal(mt_recorder_open(path, &info, &recorder), MT_OK);
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
    struct mt_trace *empty = open_newest(path, &run);
    const struct mt_question full = {.trace = fixture->trace, .run = &fixture->runs[0]},
                             none = {.trace = empty, .run = run};
    assert_int_equal(mt_trace_diff(&full, &none, &diff), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "never got a block"));
    mt_diff_release(&diff);
    assert_int_equal(mt_trace_diff(&none, &full, &diff), MT_USAGE);
    mt_diff_release(&diff);
    mt_trace_close(empty);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_causes_add_up_over_every_pair),
        cmocka_unit_test(swapping_turns_every_sign),
        cmocka_unit_test(random_runs_add_up_too),
        cmocka_unit_test(each_sides_rows_are_what_was_live_at_its_peak),
        cmocka_unit_test(a_run_differs_from_itself_in_nothing),
        cmocka_unit_test(two_openings_of_a_trace_compare_as_one),
        cmocka_unit_test(autocast_adds_a_copy_of_every_weight_and_halves_activations),
        cmocka_unit_test(a_longer_sequence_makes_activations_larger_and_adds_none),
        cmocka_unit_test(gradients_that_outlive_their_step_are_a_cause_with_their_life),
        cmocka_unit_test(a_run_without_blocks_is_refused_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
