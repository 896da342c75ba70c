/* The analyses of the library: differences, advice, fit and exports. */
#include "library_fixture.h"

#include <memtrace.h>
#include <unistd.h>

/* Records a run that takes `bytes` as weights, and ends it. */
static void record_weights(uint64_t bytes)
{
    memtrace_run *run = open_run("sim");
    uint64_t weights = take(run, bytes, "Param");
    memtrace_step_begin(run);
    memtrace_step_end(run);
    assert_ok(memtrace_give(run, weights));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void a_difference_is_the_sum_of_its_causes(void **state)
{
    (void)state;
    const memtrace_run_row *a, *b;
    const memtrace_cause *const *causes;
    size_t count;
    record_weights(8 * MIB);
    record_weights(24 * MIB);
    memtrace_trace *trace = open_trace(&b);
    assert_ok(memtrace_trace_find_run(trace, "1", &a));
    assert_ok(memtrace_trace_diff(trace, a, trace, b, MEMTRACE_ALLOCATED, &causes, &count));
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += causes[i]->bytes;
    assert_int_equal(sum, 16 * MIB);
    memtrace_free(causes);
    assert_fails(memtrace_trace_diff(trace, a, trace, b, MEMTRACE_REQUESTED, &causes, &count), MEMTRACE_USAGE, "1");
    assert_fails(memtrace_trace_diff(trace, a, trace, NULL, MEMTRACE_ALLOCATED, &causes, &count), MEMTRACE_USAGE,
                 "NULL");
    memtrace_trace_close(trace);
}

/* A block more is left at the end of each step, so advice must find a leak. */
static void advice_finds_a_leak_and_how_far_the_peak_falls(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    const memtrace_run_row *row;
    const memtrace_finding *const *findings;
    size_t count;
    memtrace_run *run = open_run("sim");
    for (int step = 0; step < STEPS; step++) {
        memtrace_step_begin(run);
        take(run, 4 * MIB, "Cache");
        memtrace_step_end(run);
    }
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_advise(trace, row, 5, &findings, &count));
    assert_true(count > 0);
    assert_string_equal(findings[0]->pattern, "leak across steps");
    assert_string_equal(findings[0]->category, "Cache");
    assert_true(findings[0]->saved_bytes > 0 && findings[0]->saved_bytes < STEPS * 4 * MIB);
    memtrace_free(findings);
    assert_fails(memtrace_trace_advise(trace, row, 0, &findings, &count), MEMTRACE_USAGE, "0 findings");
    memtrace_trace_close(trace);
}

static void a_curve_reaches_the_peak(void **state)
{
    (void)state;
    const memtrace_run_row *row;
    const memtrace_curve *curve;
    record_weights(8 * MIB);
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_curve(trace, row, &curve));
    assert_int_equal(curve->axis, MEMTRACE_BY_TIME);
    assert_int_equal(curve->count, curve->end / curve->bin + 1);
    uint64_t highest = 0;
    for (size_t i = 0; i < curve->count; i++)
        highest = curve->bytes[i] > highest ? curve->bytes[i] : highest;
    assert_int_equal(highest, 8 * MIB);
    memtrace_free(curve);
    assert_fails(memtrace_trace_curve(trace, NULL, &curve), MEMTRACE_USAGE, "NULL");
    memtrace_trace_close(trace);
}

static void a_run_fits_a_device_or_not(void **state)
{
    (void)state;
    static const memtrace_setting settings[] = {{"model", "small"}, {"seq", "64"}};
    static const memtrace_setting wrong[] = {{"modal", "small"}};
    memtrace_fit fit;
    assert_ok(memtrace_fit_check(settings, 2, "sim:24GiB", &fit));
    assert_true(fit.fits && fit.reserved_bytes > 0 && fit.reserved_bytes <= fit.capacity_bytes);
    uint64_t reserved = fit.reserved_bytes;
    assert_ok(memtrace_fit_check(settings, 2, "sim:1GiB", &fit));
    assert_true(!fit.fits && fit.enough_bytes > fit.capacity_bytes && fit.enough_bytes <= reserved + 64 * MIB);
    assert_fails(memtrace_fit_check(wrong, 1, "sim:1GiB", &fit), MEMTRACE_USAGE, "modal");
    assert_fails(memtrace_fit_check(settings, 2, "cpu", &fit), MEMTRACE_USAGE, "simulated");
}

static void an_export_is_a_file(void **state)
{
    (void)state;
    const memtrace_run_row *row;
    char line[64];
    record_weights(2 * MIB);
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_export(trace, row, MEMTRACE_BLOCKS_CSV, "blocks.csv"));
    FILE *file = fopen("blocks.csv", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_memory_equal(line, "id,alloc_ns,free_id", strlen("id,alloc_ns,free_id"));
    fclose(file);
    unlink("blocks.csv");
    assert_fails(memtrace_trace_export(trace, row, (memtrace_format)9, "x"), MEMTRACE_USAGE, "format 9");
    assert_fails(memtrace_trace_export(trace, row, MEMTRACE_FOLDED, NULL), MEMTRACE_USAGE, "NULL");
    memtrace_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(a_difference_is_the_sum_of_its_causes),
        LIBRARY_TEST(advice_finds_a_leak_and_how_far_the_peak_falls),
        LIBRARY_TEST(a_curve_reaches_the_peak),
        LIBRARY_TEST(a_run_fits_a_device_or_not),
        LIBRARY_TEST(an_export_is_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
