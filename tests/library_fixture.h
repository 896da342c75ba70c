/* For tests that use the library as other programs do: a run, blocks and the trace, in a folder of the test's own. They
 * also include <memtrace.h>, by which the build knows to link the library. */
#pragma once

#include "folder.h"

#include <memtrace.h>

#define TRACE "test.db"

enum { MIB = 1 << 20 };

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != MEMTRACE_OK)                                                                                     \
            fail_msg("%s: %s", #call, memtrace_last_error());                                                          \
    } while (0)

static inline void assert_fails(memtrace_status status, memtrace_status expected, const char *part)
{
    assert_int_equal(status, expected);
    if (strstr(memtrace_last_error(), part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, memtrace_last_error());
}

static inline memtrace_run *open_run(const char *device)
{
    memtrace_run_options options = {.size = sizeof options, .trace = TRACE, .device = device};
    memtrace_run *run = NULL;
    assert_ok(memtrace_run_open(&options, &run));
    return run;
}

static inline memtrace_label label_of(const char *category)
{
    return (memtrace_label){.size = sizeof(memtrace_label), .category = category};
}

static inline uint64_t take(memtrace_run *run, uint64_t bytes, const char *category)
{
    memtrace_label label = label_of(category);
    uint64_t address = 0;
    assert_ok(memtrace_take(run, bytes, 0, &label, &address));
    assert_true(address != 0);
    assert_int_equal(address % 512, 0);
    return address;
}

/* Opens the trace, and finds its newest run. */
static inline memtrace_trace *open_trace(const memtrace_run_row **out_run)
{
    memtrace_trace *trace = NULL;
    assert_ok(memtrace_trace_open(TRACE, &trace));
    assert_ok(memtrace_trace_find_run(trace, NULL, out_run));
    return trace;
}

static inline const memtrace_peak *peak_of(memtrace_trace *trace, const memtrace_run_row *run,
                                           memtrace_measured measured)
{
    const memtrace_peak *peak = NULL;
    assert_ok(memtrace_trace_peak(trace, run, MEMTRACE_ALL_STEPS, measured, &peak));
    return peak;
}

static inline const memtrace_share *share_of(const memtrace_peak *peak, const char *category)
{
    for (size_t i = 0; i < peak->share_count; i++)
        if (strcmp(peak->shares[i]->category, category) == 0)
            return peak->shares[i];
    fail_msg("the peak has no %s", category);
    return NULL;
}
static inline int enter(void **state)
{
    *state = enter_folder("library");
    return 0;
}

#define LIBRARY_TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave_folder)
