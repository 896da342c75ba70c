/* Answers about unusual runs: without events, with one, without blocks, with events between steps. */
#include "trace_edit.h"
#include "trace_file_fixture.h"

#include "trace/query/groups.h"
#include "trace/query/leaks.h"
#include "trace_opening.h"

/* A run under way. */
struct tale {
    struct mt_recorder *recorder;
    uint64_t sequence, offset;
};

static void tell(struct tale *tale, struct mt_event event)
{
    const struct mt_sink *sink = mt_recorder_sink(tale->recorder);
    event.sequence = tale->sequence;
    event.time_ns = ++tale->sequence * 1000;
    sink->emit(sink->context, &event);
}

static struct tale begin(void)
{
    return (struct tale){.recorder = fixture_open(path, 0)};
}

static void map(struct tale *tale, uint32_t segment, uint64_t bytes)
{
    tell(tale, (struct mt_event){.kind = MT_EVENT_SEGMENT_MAP,
                                 .segment = segment,
                                 .segment_address = (uint64_t)segment << 40,
                                 .block_bytes = bytes});
}

/* In segment 0. */
static void take(struct tale *tale, const char *op, uint64_t bytes)
{
    const struct mt_sink *sink = mt_recorder_sink(tale->recorder);
    const struct mt_label label = {.phase = MT_PHASE_FORWARD, .op = op, .layer = -1};
    tell(tale, (struct mt_event){.kind = MT_EVENT_ALLOC,
                                 .requested_bytes = bytes,
                                 .block_bytes = bytes,
                                 .offset = tale->offset,
                                 .label = sink->intern_label(sink->context, &label)});
    tale->offset += bytes;
}

/* Gives back the block that `take` took last, of that many bytes. */
static void give_last(struct tale *tale, uint64_t bytes)
{
    tale->offset -= bytes;
    tell(tale, (struct mt_event){.kind = MT_EVENT_FREE, .block_bytes = bytes, .offset = tale->offset, .label = 1});
}

static void mark(struct tale *tale, mt_event_kind kind, uint64_t number)
{
    tell(tale, (struct mt_event){.kind = (uint16_t)kind, .value = number});
}

/* Ends the tale and opens what was written. */
static struct mt_trace *end(struct tale *tale, mt_run_state state, const struct mt_run **out_run)
{
    fixture_close(tale->recorder, state);
    struct mt_trace *trace = open_newest(path, out_run);
    return trace;
}

static struct mt_peak_row peak_of(struct mt_trace *trace, const struct mt_run *run, mt_measure measure)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(trace, run, measure, &peak), MT_OK);
    return peak;
}

/* A run without events has empty answers, and no query fails that has an answer. */
static void a_run_without_events_has_no_peak(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    struct mt_trace *trace = end(&tale, MT_RUN_DONE, &run);
    struct mt_top_row *rows;
    size_t count;
    bool complete;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        struct mt_peak_row peak = peak_of(trace, run, (mt_measure)measure);
        assert_int_equal(peak.bytes, 0);
        assert_int_equal(peak.share_count, 0);
        mt_peak_row_release(&peak);
    }
    assert_int_equal(mt_trace_top(trace, run,
                                  &(struct mt_top_choice){.grouping = MT_TOP_EACH, .moment = MT_TOP_AT_PEAK}, 5, &rows,
                                  &count, &complete),
                     MT_OK);
    assert_int_equal(count, 0);
    free(rows);
    struct mt_leaks leaks;
    assert_int_equal(mt_trace_leaks(trace, run, &leaks), MT_USAGE);
    check_error_says("has 0 full steps");
    mt_leaks_release(&leaks);
    mt_trace_close(trace);
}

static void memory_that_nothing_was_taken_from_has_its_time(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    map(&tale, 0, 1 << 20);
    map(&tale, 1, 1 << 20);
    struct mt_trace *trace = end(&tale, MT_RUN_FAILED, &run);
    struct mt_peak_row peak = peak_of(trace, run, MT_MEASURE_RESERVED);
    assert_int_equal(peak.bytes, 2 << 20);
    assert_int_equal(peak.cached_bytes, 2 << 20);
    assert_int_equal(peak.event, run->first_event + 1);
    assert_int_equal(peak.time_ns, 2000);
    assert_int_equal(peak.step, -1);
    assert_string_equal(peak.phase, "");
    mt_peak_row_release(&peak);
    mt_trace_close(trace);
}

/* An allocation between two steps counts with the earlier one, in every answer. */
static void a_peak_between_two_steps_is_of_the_earlier_one(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    map(&tale, 0, 1 << 20);
    take(&tale, "before", 512);
    for (uint64_t step = 0; step < 3; step++) {
        mark(&tale, MT_EVENT_STEP_BEGIN, step);
        take(&tale, "within", 512);
        mark(&tale, MT_EVENT_STEP_END, step);
        take(&tale, step == 1 ? "between" : "rest", step == 1 ? 4096 : 512);
    }
    struct mt_trace *trace = end(&tale, MT_RUN_DONE, &run);
    static const int64_t steps[] = {2, -1}; /* of the peak, which comes at the end, and of the first block */
    struct mt_peak_row peak = peak_of(trace, run, MT_MEASURE_ALLOCATED), of_step;
    assert_int_equal(peak.step, steps[0]);
    assert_int_equal(mt_trace_step_peak(trace, run, peak.step, MT_MEASURE_ALLOCATED, &of_step), MT_OK);
    assert_int_equal(of_step.event, peak.event);
    struct mt_top_row *rows;
    size_t count;
    bool complete;
    assert_int_equal(
        mt_trace_top(trace, run, &(struct mt_top_choice){.grouping = MT_TOP_EACH}, 7, &rows, &count, &complete), MT_OK);
    assert_int_equal(count, 7);
    assert_string_equal(rows[0].op, "between");
    assert_int_equal(rows[0].step, 1);
    assert_string_equal(rows[1].op, "before");
    assert_int_equal(rows[1].step, steps[1]);
    free(rows);
    mt_peak_row_release(&of_step);
    mt_peak_row_release(&peak);
    mt_trace_close(trace);
}

/* Returns the precision of the trace's only run. */
static const char *precision_of_run(struct mt_trace **trace)
{
    const struct mt_run *run;
    struct mt_steps_row steps;
    assert_int_equal(mt_trace_open(path, trace), MT_OK);
    assert_int_equal(mt_trace_find_run(*trace, NULL, &run), MT_OK);
    assert_int_equal(mt_trace_steps(*trace, run, &steps), MT_OK);
    return steps.precision;
}

static void a_run_that_does_not_say_its_precision_has_none(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    struct mt_steps_row steps;
    struct mt_trace *trace = end(&tale, MT_RUN_DONE, &run);
    assert_int_equal(mt_trace_steps(trace, run, &steps), MT_OK);
    assert_string_equal(steps.precision, "");
    mt_trace_close(trace);
    edit_trace(path, "INSERT INTO setting VALUES (1, 'matmul', 'fp32')");
    assert_string_equal(precision_of_run(&trace), "fp32");
    mt_trace_close(trace);
    edit_trace(path, "INSERT INTO setting VALUES (1, 'autocast', 'fp16')");
    assert_string_equal(precision_of_run(&trace), "fp16 autocast");
    mt_trace_close(trace);
}

static void readings_that_no_card_could_give_are_damage(void **state)
{
    (void)state;
    static const char *const values[] = {"9e18", "-9e18", "-2", "1e300"};
    struct tale tale = begin();
    const struct mt_run *run;
    mt_trace_close(end(&tale, MT_RUN_DONE, &run));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct mt_used_row used;
        char sql[200];
        snprintf(sql, sizeof sql,
                 "INSERT OR REPLACE INTO measurement VALUES (1, 'memory:driver_used', 0, 5),"
                 " (1, 'memory:reserved', 0, %s)",
                 values[i]);
        edit_trace(path, sql);
        struct mt_trace *trace = open_newest(path, &run);
        assert_int_equal(mt_trace_used(trace, run, &used), MT_BAD_TRACE);
        mt_trace_close(trace);
    }
}

static mt_status nothing(void *context)
{
    (void)context;
    return MT_OK;
}

static mt_status keep_last_id(void *context, const struct mt_event_row *row)
{
    *(int64_t *)context = row->id;
    return MT_OK;
}

/* A free that names no alloc, or one that there can't be. */
static void a_free_of_nothing_has_no_allocation(void **state)
{
    (void)state;
    static const struct {
        const char *allocation;
        int64_t id;
    } cases[] = {{"NULL", -1}, {"1", 0}, {"-9223372036854775808", INT64_MAX}};
    struct tale tale = begin();
    const struct mt_run *run;
    take(&tale, "lonely", 512);
    mt_trace_close(end(&tale, MT_RUN_DONE, &run));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = -7;
        const struct mt_event_visitor visitor = {&id, nothing, keep_last_id};
        char sql[200];
        snprintf(sql, sizeof sql, "UPDATE event SET kind = 3, allocation = %s", cases[i].allocation);
        edit_trace(path, sql);
        struct mt_trace *trace = open_newest(path, &run);
        assert_int_equal(mt_trace_events(trace, run, MT_ALL_STEPS, &visitor), MT_OK);
        assert_int_equal(id, cases[i].id);
        mt_trace_close(trace);
    }
}

/* A step that takes `bytes` in forward and twice as much in backward, and gives all of it back in optimizer. */
static void tell_step(struct tale *tale, uint64_t number, uint64_t bytes)
{
    mark(tale, MT_EVENT_STEP_BEGIN, number);
    mark(tale, MT_EVENT_PHASE, MT_PHASE_FORWARD);
    take(tale, "op", bytes);
    mark(tale, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    take(tale, "op", 2 * bytes);
    tell(tale, (struct mt_event){.kind = MT_EVENT_FREE, .block_bytes = 64, .offset = 1 << 19, .label = 1});
    mark(tale, MT_EVENT_PHASE, MT_PHASE_OPTIMIZER);
    give_last(tale, 2 * bytes);
    give_last(tale, bytes);
    mark(tale, MT_EVENT_STEP_END, number);
}

static void assert_phase(const struct mt_phase_peak *peak, const char *phase, uint64_t bytes, int64_t step)
{
    assert_string_equal(peak->phase, phase);
    assert_int_equal(peak->bytes, bytes);
    assert_int_equal(peak->step, step);
}

/* The optimizer takes nothing: its highest moment is its beginning. A free of what was not taken changes nothing. */
static void each_phase_has_its_highest_moment_in_the_step_that_went_highest(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    struct mt_phase_peak *phases;
    size_t count;
    map(&tale, 0, 1 << 20);
    take(&tale, "op", 4096);
    tell_step(&tale, 0, 512);
    tell_step(&tale, 1, 1024);
    tell_step(&tale, 2, 512);
    struct mt_trace *trace = end(&tale, MT_RUN_DONE, &run);
    assert_int_equal(mt_trace_phase_peaks(trace, run, &phases, &count), MT_OK);
    assert_int_equal(count, 4);
    assert_phase(&phases[0], "init", 4096, -1);
    assert_phase(&phases[1], "forward", 4096 + 1024, 1);
    assert_phase(&phases[2], "backward", 4096 + 3 * 1024, 1);
    assert_phase(&phases[3], "optimizer", 4096 + 3 * 1024, 1);
    free(phases);
    mt_trace_close(trace);
}

/* The step goes highest after its end, in the phase that was told of before it began. */
static void a_phase_outlives_both_ends_of_a_step(void **state)
{
    (void)state;
    struct tale tale = begin();
    const struct mt_run *run;
    struct mt_phase_peak *phases;
    size_t count;
    map(&tale, 0, 1 << 20);
    take(&tale, "op", 4096);
    mark(&tale, MT_EVENT_PHASE, MT_PHASE_FORWARD);
    mark(&tale, MT_EVENT_STEP_BEGIN, 0);
    take(&tale, "op", 512);
    mark(&tale, MT_EVENT_STEP_END, 0);
    take(&tale, "op", 1024);
    give_last(&tale, 1024);
    mark(&tale, MT_EVENT_STEP_BEGIN, 1);
    mark(&tale, MT_EVENT_STEP_END, 1);
    struct mt_trace *trace = end(&tale, MT_RUN_DONE, &run);
    assert_int_equal(mt_trace_phase_peaks(trace, run, &phases, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_phase(&phases[0], "init", 4096, -1);
    assert_phase(&phases[1], "forward", 4096 + 512 + 1024, 0);
    free(phases);
    mt_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_without_events_has_no_peak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_nothing_was_taken_from_has_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peak_between_two_steps_is_of_the_earlier_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_does_not_say_its_precision_has_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readings_that_no_card_could_give_are_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_phase_has_its_highest_moment_in_the_step_that_went_highest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_phase_outlives_both_ends_of_a_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_free_of_nothing_has_no_allocation, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
