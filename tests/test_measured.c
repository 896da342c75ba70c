/* Answers about what a run measured, steps' times and the driver's figures, against the plainest arithmetic on the same
 * random numbers. */
#include "analysis/fit/fit_device.h"
#include "base/random.h"
#include "base/text.h"
#include "seed.h"
#include "trace/query/caveats.h"
#include "trace/store/recorder.h"
#include "trace_opening.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 60, MOST_STEPS = 12 };

/* A trace with one run of random measurements, and what they were. */
struct fixture {
    char path[64];
    uint64_t seed, draws;
    int64_t warmup, steps;
    double ms[MT_TIMED_PART_COUNT][MOST_STEPS];
    struct mt_recorder *recorder;
    struct mt_trace *trace;
    const struct mt_run *run;
};

static uint64_t draw(struct fixture *fixture, uint64_t below)
{
    return mt_splitmix64(fixture->seed * 1000003 + fixture->draws++) % below;
}

static void begin(struct fixture *fixture, const char *device, const struct mt_run_setting *settings, size_t count)
{
    struct mt_run_info info = {
        .device = device, .capacity_bytes = 1 << 30, .settings = settings, .setting_count = count};
    unlink(fixture->path);
    assert_int_equal(mt_recorder_open(fixture->path, &info, &fixture->recorder), MT_OK);
}

static void end(struct fixture *fixture, mt_run_state state)
{
    assert_int_equal(mt_recorder_close(fixture->recorder, state), MT_OK);
    fixture->trace = open_newest(fixture->path, &fixture->run);
}

static void forget(struct fixture *fixture)
{
    mt_trace_close(fixture->trace);
    unlink(fixture->path);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->seed = take_seed();
    snprintf(fixture->path, sizeof fixture->path, "test_measured_%d.db", (int)getpid());
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Times of a millisecond's order with a few equal ones among them; some far apart, some nearly the same. */
static double draw_ms(struct fixture *fixture)
{
    double base = draw(fixture, 2) == 0 ? 600 : (double)draw(fixture, 1000);
    return base + (double)draw(fixture, 8) * 1e-6;
}

static void record_times(struct fixture *fixture)
{
    char warmup[MT_BYTES_TEXT];
    fixture->warmup = (int64_t)draw(fixture, 4);
    fixture->steps = (int64_t)draw(fixture, MOST_STEPS + 1);
    snprintf(warmup, sizeof warmup, "%" PRId64, fixture->warmup);
    const struct mt_run_setting settings[] = {
        {"warmup", warmup}, {"model", "2.7B"}, {"seq", "256"}, {"mode", "fwd_bwd"}};
    begin(fixture, "cuda", settings, sizeof settings / sizeof settings[0]);
    for (int part = 0; part < MT_TIMED_PART_COUNT; part++) {
        for (int64_t step = 0; step < fixture->steps; step++) {
            fixture->ms[part][step] = draw_ms(fixture);
            mt_recorder_measure(fixture->recorder, mt_timed_part_measurement((mt_timed_part)part), step,
                                fixture->ms[part][step]);
        }
    }
    end(fixture, MT_RUN_DONE);
}

/* Returns how many of the measured times are below `ms`. */
static int64_t count_below(const double *ms, int64_t count, double bound)
{
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++)
        below += ms[i] < bound;
    return below;
}

/* The middle of the times, or of the two middle ones: found by counting, not by sorting. */
static double rank(const double *ms, int64_t count, int64_t place)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t below = count_below(ms, count, ms[i]), equal = 0;
        for (int64_t j = 0; j < count; j++)
            equal += ms[j] == ms[i];
        if (below <= place && place < below + equal)
            return ms[i];
    }
    return NAN;
}

/* From all pairs: the sum of squared differences over n (n - 1) is the variance of the sample. */
static double deviation(const double *ms, int64_t count)
{
    long double sum = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            sum += ((long double)ms[i] - ms[j]) * ((long double)ms[i] - ms[j]);
    return (double)sqrtl(sum / ((long double)count * (count - 1)));
}

static void near_to(const char *what, double ours, double expected)
{
    if (!(fabs(ours - expected) <= 1e-9 + 1e-12 * fabs(expected)))
        fail_msg("%s: %.17g, expected %.17g", what, ours, expected);
}

static void check_part(const struct mt_time_statistics *ours, const double *ms, int64_t count)
{
    assert_int_equal(ours->count, count);
    if (count == 0) {
        assert_true(isnan(ours->mean) && isnan(ours->median) && isnan(ours->minimum) && isnan(ours->maximum));
        return;
    }
    long double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += ms[i];
    near_to("mean", ours->mean, (double)(sum / count));
    near_to("median", ours->median, (rank(ms, count, (count - 1) / 2) + rank(ms, count, count / 2)) / 2);
    near_to("minimum", ours->minimum, rank(ms, count, 0));
    near_to("maximum", ours->maximum, rank(ms, count, count - 1));
    if (count == 1)
        assert_true(isnan(ours->deviation));
    else
        near_to("deviation", ours->deviation, deviation(ms, count));
}

static void statistics_of_steps_leave_warmup_out(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_steps_row row;
        record_times(fixture);
        assert_int_equal(mt_trace_steps(fixture->trace, fixture->run, &row), MT_OK);
        assert_int_equal(row.warmup, fixture->warmup);
        int64_t measured = fixture->steps > fixture->warmup ? fixture->steps - fixture->warmup : 0;
        for (int part = 0; part < MT_TIMED_PART_COUNT; part++)
            check_part(&row.part[part], fixture->ms[part] + fixture->warmup, measured);
        assert_int_equal(row.oom_bytes, -1);
        forget(fixture);
    }
}

static void precision_is_what_products_are_computed_in(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][3] = {{"off", "fp32", "fp32"},
                                           {"off", "tf32", "tf32"},
                                           {"bf16", "fp32", "bf16 autocast"},
                                           {"bf16", "tf32", "bf16 autocast"},
                                           {"bf16", "fp8", "fp8 and bf16 autocast"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mt_run_setting settings[] = {{"autocast", cases[i][0]}, {"matmul", cases[i][1]}};
        struct mt_steps_row row;
        begin(fixture, "cuda", settings, 2);
        end(fixture, MT_RUN_DONE);
        assert_int_equal(mt_trace_steps(fixture->trace, fixture->run, &row), MT_OK);
        assert_string_equal(row.precision, cases[i][2]);
        assert_string_equal(row.model, "");
        forget(fixture);
    }
}

static void emit_oom(struct fixture *fixture, uint64_t sequence, mt_category category, uint64_t bytes)
{
    const struct mt_sink *sink = mt_recorder_sink(fixture->recorder);
    mt_span_id span = sink->intern_span(sink->context, 0, "model");
    struct mt_label label = {
        .category = category, .phase = MT_PHASE_FORWARD, .op = "einsum", .span = span, .layer = -1};
    mt_label_id id = sink->intern_label(sink->context, &label);
    struct mt_event event = {
        .sequence = sequence, .kind = MT_EVENT_OOM, .requested_bytes = bytes, .label = id, .span = span};
    sink->emit(sink->context, &event);
}

static void a_run_without_memory_tells_what_was_asked_for_last(void **state)
{
    struct fixture *fixture = *state;
    struct mt_steps_row row;
    begin(fixture, "cuda", NULL, 0);
    emit_oom(fixture, 0, MT_CATEGORY_FFN, 1000);
    emit_oom(fixture, 1, MT_CATEGORY_SOFTMAX, 2000);
    end(fixture, MT_RUN_OOM);
    assert_int_equal(mt_trace_steps(fixture->trace, fixture->run, &row), MT_OK);
    assert_int_equal(row.oom_bytes, 2000);
    assert_string_equal(row.oom_category, "Softmax");
    assert_string_equal(row.oom_phase, "forward");
    assert_string_equal(row.oom_span, "model");
    forget(fixture);
}

/* The readings by which a run says who held what. */
struct readings {
    uint64_t driver_used, requested, allocated, reserved, context, library, nccl, free, total;
};

static struct readings draw_readings(struct fixture *fixture)
{
    struct readings is = {.requested = draw(fixture, 1ull << 37)};
    is.allocated = is.requested + draw(fixture, 1 << 20);
    is.reserved = is.allocated + draw(fixture, 1ull << 30);
    is.context = draw(fixture, 1 << 29);
    is.library = draw(fixture, 1 << 29);
    is.nccl = draw(fixture, 1 << 29);
    is.driver_used = is.reserved + is.context + draw(fixture, 1 << 30); /* less than the parts, now and then */
    is.total = is.driver_used + draw(fixture, 1ull << 37);
    is.free = is.total - is.driver_used;
    return is;
}

static void tell_outside(struct fixture *fixture, const struct readings *is)
{
    const struct mt_sink *sink = mt_recorder_sink(fixture->recorder);
    const struct mt_outside parts[] = {{MT_OUTSIDE_CONTEXT, "", (uint64_t)is->context, 0, 0},
                                       {MT_OUTSIDE_LIBRARY, "", is->library, 0, 0},
                                       {MT_OUTSIDE_NCCL, "ring", is->nccl, 0, 0}};
    for (int i = 0; i < 3; i++)
        sink->outside(sink->context, &parts[i]);
}

static void measure_readings(struct fixture *fixture, int64_t step, const struct readings *is)
{
    mt_recorder_measure(fixture->recorder, "memory:driver_used", step, (double)is->driver_used);
    mt_recorder_measure(fixture->recorder, "memory:requested", step, (double)is->requested);
    mt_recorder_measure(fixture->recorder, "memory:allocated", step, (double)is->allocated);
    mt_recorder_measure(fixture->recorder, "memory:reserved", step, (double)is->reserved);
    tell_outside(fixture, is);
    mt_recorder_measure(fixture->recorder, "memory:free", step, (double)is->free);
    mt_recorder_measure(fixture->recorder, "memory:total", step, (double)is->total);
}

static void check_used(const struct mt_used_row *row, const struct readings *is)
{
    assert_int_equal(row->requested, is->requested);
    assert_int_equal(row->requested + row->rounding, is->allocated);
    assert_int_equal(row->requested + row->rounding + row->cached, is->reserved);
    assert_int_equal(row->context, is->context);
    assert_int_equal(row->libraries, is->library);
    assert_int_equal(row->nccl, is->nccl);
    assert_false(row->is_estimate);
    assert_int_equal(row->used, is->driver_used);
    assert_int_equal(row->free, is->free);
    assert_int_equal(row->total, is->total);
    assert_true(row->requested + row->rounding + row->cached + row->context + row->libraries + row->nccl +
                    row->unexplained ==
                row->used);
}

static void parts_of_the_last_reading_sum_to_the_drivers_figure(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < ROUNDS; round++) {
        struct readings first = draw_readings(fixture), last = draw_readings(fixture);
        int64_t step = (int64_t)draw(fixture, 20);
        struct mt_used_row row;
        begin(fixture, "cuda", NULL, 0);
        measure_readings(fixture, -1, &first);
        if (step > 0)
            measure_readings(fixture, step, &last);
        mt_recorder_measure(fixture->recorder, "memory_of_others", 99, 1);
        end(fixture, MT_RUN_DONE);
        assert_int_equal(mt_trace_used(fixture->trace, fixture->run, &row), MT_OK);
        assert_int_equal(row.step, step > 0 ? step : -1);
        check_used(&row, step > 0 ? &last : &first);
        forget(fixture);
    }
}

/* Older programs counted the calls of all unknown operators together. */
static void a_sum_over_unknown_operators_is_a_caveat(void **state)
{
    struct fixture *fixture = *state;
    const struct mt_caveat named = {MT_CAVEAT_UNKNOWN, "aten::x", "", 0, 2, -1, 100, NAN};
    for (int counted = 0; counted < 3; counted++) {
        struct mt_caveat *rows;
        size_t count;
        begin(fixture, "sim:h200", NULL, 0);
        mt_recorder_measure(fixture->recorder, "unknown:calls", MT_NO_STEP, counted > 0 ? 9 : 0);
        mt_recorder_measure(fixture->recorder, "unknown:result_bytes", MT_NO_STEP, counted > 0 ? 0x1p42 : 0);
        if (counted == 2)
            mt_recorder_caveat(fixture->recorder, &named);
        end(fixture, MT_RUN_DONE);
        assert_int_equal(mt_trace_caveats(fixture->trace, fixture->run, &rows, &count), MT_OK);
        assert_int_equal(count, counted > 0);
        if (counted > 0) {
            assert_int_equal(rows[0].kind, MT_CAVEAT_UNKNOWN);
            assert_string_equal(rows[0].name, counted == 1 ? "(all operators)" : "aten::x");
            assert_int_equal(rows[0].count, counted == 1 ? 9 : 2);
            assert_int_equal(rows[0].bytes, counted == 1 ? (int64_t)1 << 42 : 100);
        }
        free(rows);
        forget(fixture);
    }
}

static void a_run_without_a_driver_can_not_tell_what_is_used(void **state)
{
    struct fixture *fixture = *state;
    struct mt_used_row row;
    begin(fixture, "sim:h200", NULL, 0);
    mt_recorder_measure(fixture->recorder, "memory:reserved", 0, 5);
    end(fixture, MT_RUN_DONE);
    assert_int_equal(mt_trace_used(fixture->trace, fixture->run, &row), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "no driver"));
    forget(fixture);
}

/* A run that took nothing has what it holds outside all the same. */
static void of_a_simulated_card_what_is_used_is_estimated(void **state)
{
    struct fixture *fixture = *state;
    const struct mt_outside context = {MT_OUTSIDE_CONTEXT, "CUDA", 500, 400, 600};
    struct mt_outside rings = {MT_OUTSIDE_NCCL, "rings", 70, 0, 90};
    struct mt_outside_row *rows;
    struct mt_used_row used;
    size_t count;
    begin(fixture, "sim:h200", NULL, 0);
    const struct mt_sink *sink = mt_recorder_sink(fixture->recorder);
    sink->outside(sink->context, &context);
    sink->outside(sink->context, &rings);
    emit_oom(fixture, 0, MT_CATEGORY_FFN, 1000);
    rings.bytes = 20; /* less: what counts is the most */
    sink->outside(sink->context, &rings);
    end(fixture, MT_RUN_DONE);
    assert_int_equal(mt_trace_outside(fixture->trace, fixture->run, &rows, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[1].name, "rings");
    const struct mt_outside_row sum = mt_outside_sum(rows, count, 1000);
    assert_true(sum.bytes == 1570 && sum.low_bytes == 1400 && sum.high_bytes == 1690 && sum.is_estimate);
    free(rows);
    assert_int_equal(mt_trace_used(fixture->trace, fixture->run, &used), MT_OK);
    assert_true(used.is_estimate && used.context == 500 && used.nccl == 70 && used.used == 570);
    forget(fixture);
}

/* The context is in the card's reserve; what comes beside is kept free besides, unless the user said what is. */
static void what_is_held_beyond_the_context_is_kept_free(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t context_bytes = 600 << 20;
    const struct mt_outside context = {MT_OUTSIDE_CONTEXT, "CUDA", context_bytes + 40, context_bytes,
                                       context_bytes + 50};
    const struct mt_outside rings = {MT_OUTSIDE_NCCL, "rings", 70, 0, 90};
    static const struct {
        const char *device;
        uint64_t asked, kept;
    } cases[] = {{"sim:h200", MT_RESERVE_UNSET, (600 << 20) + 110},
                 {"sim:t4", MT_RESERVE_UNSET, (138 << 20) + 110},
                 {"sim:h200", 5000, 5000},
                 {"sim:8GiB", MT_RESERVE_UNSET, 0}};
    begin(fixture, "sim:h200", NULL, 0);
    const struct mt_sink *sink = mt_recorder_sink(fixture->recorder);
    sink->outside(sink->context, &context);
    sink->outside(sink->context, &rings);
    end(fixture, MT_RUN_DONE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_fit_device device;
        assert_int_equal(mt_fit_device_choose(cases[i].device, cases[i].asked, &device), MT_OK);
        assert_int_equal(mt_fit_device_count_outside(&device, fixture->trace, fixture->run), MT_OK);
        assert_int_equal(device.reserve_bytes, cases[i].kept);
    }
    forget(fixture);
}

int main(void)
{
#define MEASURED_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        MEASURED_TEST(statistics_of_steps_leave_warmup_out),
        MEASURED_TEST(precision_is_what_products_are_computed_in),
        MEASURED_TEST(a_run_without_memory_tells_what_was_asked_for_last),
        MEASURED_TEST(parts_of_the_last_reading_sum_to_the_drivers_figure),
        MEASURED_TEST(a_sum_over_unknown_operators_is_a_caveat),
        MEASURED_TEST(a_run_without_a_driver_can_not_tell_what_is_used),
        MEASURED_TEST(of_a_simulated_card_what_is_used_is_estimated),
        MEASURED_TEST(what_is_held_beyond_the_context_is_kept_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
