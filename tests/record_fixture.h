/* For tests of `memtrace record` from outside. Each test has a folder of its own and, if CUPTI was found by the build,
 * tests/fake_cuda.c as the program. The build passes its path to tests that name MT_FAKE_CUDA themselves. */
#pragma once

#include "program.h"
#include "sql_answer.h"

#define FAKE "'" MT_FAKE_CUDA "' "
#define RECORD "\"$M\" record -- " FAKE
#define SET_FAKE "F='" MT_FAKE_CUDA "' " /* before a command that starts a shell */

/* Turns off the leak sanitizer, if the test has one. It misreads the thread-local memory of libraries that are loaded
 * late, as CUPTI is, and can wait forever for a lock in a forked child of several threads. */
static inline int enter(void **state)
{
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    *state = enter_folder("test_record");
    return 0;
}

static inline void assert_peak(const char *run, int64_t bytes, const char *category)
{
    json_t *peak = json_of(shell("\"$M\" peak --json --run %s", run));
    char *text = json_dumps(peak, 0);
    char bytes_text[64];
    snprintf(bytes_text, sizeof bytes_text, "%lld", (long long)bytes);
    assert_says(text, bytes_text);
    assert_says(text, category);
    free(text);
    json_decref(peak);
}

#define RECORD_TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave_folder)
