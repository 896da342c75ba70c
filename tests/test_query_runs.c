/* Finding runs by number and name; the span of a block; the answers of a run without events, and of no trace at all. */
#include "random_runs.h"
#include "trace_opening.h"

static void a_run_is_found_by_number_by_name_and_as_the_newest(void **state)
{
    struct fixture *fixture = *state;
    const struct mt_run *run;
    assert_int_equal(mt_trace_find_run(fixture->trace, "1", &run), MT_OK);
    assert_string_equal(run->name, "first");
    assert_int_equal(mt_trace_find_run(fixture->trace, "second", &run), MT_OK);
    assert_int_equal(run->id, 2);
    assert_int_equal(mt_trace_find_run(fixture->trace, NULL, &run), MT_OK);
    assert_int_equal(run->id, 2);
    assert_int_equal(mt_trace_find_run(fixture->trace, "secnd", &run), MT_USAGE);
    assert_non_null(
        strstr(mt_last_error(), "did you mean \"second\"? There are runs 1 to 2 (memtrace runs lists them)"));
    assert_int_equal(mt_trace_find_run(fixture->trace, "12", &run), MT_USAGE);
    assert_null(strstr(mt_last_error(), "did you mean"));
    assert_non_null(strstr(mt_last_error(), "there is no run \"12\" in "));
    assert_non_null(strstr(mt_last_error(), "there are runs 1 to 2 (memtrace runs lists them)"));
}

static mt_status keep_span(void *context, const struct mt_event_row *row)
{
    snprintf(context, 32, "%s", row->span);
    return MT_OK;
}

static mt_status begin_nothing(void *context)
{
    (void)context;
    return MT_OK;
}

/* One block whose label was made in one span, in another. */
static void record_block_of_two_spans(const char *path)
{
    struct mt_recorder *recorder;
    const struct mt_run_info info = {.device = "sim", .capacity_bytes = 1 << 20};
    unlink(path);
    assert_int_equal(mt_recorder_open(path, &info, &recorder), MT_OK);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    const struct mt_label label = {.op = "einsum", .span = sink->intern_span(sink->context, 0, "label's")};
    const struct mt_event alloc = {.kind = MT_EVENT_ALLOC,
                                   .label = sink->intern_label(sink->context, &label),
                                   .span = sink->intern_span(sink->context, 0, "block's"),
                                   .requested_bytes = 512,
                                   .block_bytes = 512};
    sink->emit(sink->context, &alloc);
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
}

static void a_block_s_own_span_goes_before_its_label_s(void **state)
{
    (void)state;
    char path[64], span[32] = "";
    struct mt_trace *trace;
    struct mt_peak_row peak;
    struct mt_top_row *rows;
    size_t count;
    bool complete;
    const struct mt_event_visitor visitor = {.context = span, .begin = begin_nothing, .visit = keep_span};
    snprintf(path, sizeof path, "test_query_spans_%d.db", (int)getpid());
    record_block_of_two_spans(path);
    assert_int_equal(mt_trace_open(path, &trace), MT_OK);
    const struct mt_run *run = mt_trace_runs(trace, &count);
    assert_int_equal(mt_trace_events(trace, run, MT_ALL_STEPS, &visitor), MT_OK);
    assert_string_equal(span, "block's");
    assert_int_equal(mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_string_equal(peak.span, "block's");
    mt_peak_row_release(&peak);
    for (mt_top_moment moment = MT_TOP_WHOLE_RUN; moment <= MT_TOP_AT_PEAK; moment++) {
        assert_int_equal(mt_trace_top(trace, run, &(struct mt_top_choice){.grouping = MT_TOP_EACH, .moment = moment}, 1,
                                      &rows, &count, &complete),
                         MT_OK);
        assert_int_equal(count, 1);
        assert_string_equal(rows[0].span, "block's");
        free(rows);
    }
    mt_trace_close(trace);
    unlink(path);
}

static void a_run_of_nothing_has_no_peak_and_no_rows(void **state)
{
    (void)state;
    struct synthetic run;
    const struct mt_run *found;
    struct mt_peak_row peak;
    struct mt_top_row *top;
    size_t count;
    bool complete;
    char path[64];
    snprintf(path, sizeof path, "test_query_empty_%d.db", (int)getpid());
    assert_int_equal(synthetic_open(&run, path, NULL, 1, 1), MT_OK);
    assert_int_equal(synthetic_close(&run), MT_OK);
    struct mt_trace *trace = open_newest(path, &found);
    assert_int_equal(mt_trace_peak(trace, found, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_int_equal(peak.bytes, 0);
    assert_int_equal(peak.share_count, 0);
    assert_int_equal(
        mt_trace_top(trace, found, &(struct mt_top_choice){.grouping = MT_TOP_EACH}, 10, &top, &count, &complete),
        MT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(
        mt_trace_top(trace, found, &(struct mt_top_choice){.moment = MT_TOP_AT_PEAK}, 10, &top, &count, &complete),
        MT_OK);
    assert_int_equal(count, 0);
    mt_peak_row_release(&peak);
    mt_trace_close(trace);
    unlink(path);
}

static void a_missing_trace_is_named(void **state)
{
    (void)state;
    struct mt_trace *trace;
    assert_int_equal(mt_trace_open("no_such_folder/no_such.db", &trace), MT_BAD_TRACE);
    assert_string_equal(mt_last_error(), "there is no trace \"no_such_folder/no_such.db\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(a_run_is_found_by_number_by_name_and_as_the_newest),
        cmocka_unit_test(a_block_s_own_span_goes_before_its_label_s),
        cmocka_unit_test(a_run_of_nothing_has_no_peak_and_no_rows),
        cmocka_unit_test(a_missing_trace_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
