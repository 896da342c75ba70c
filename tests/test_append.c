/* Runs of one trace, appended to another: they are what they were, and the trace is whole. */
#include "trace/store/append.h"

#include "program.h"

#include <stdlib.h>
#include <string.h>

#define RUN "run --model small --layers 1 --steps 1 --device sim "

static void assert_whole(const char *trace)
{
    const struct said *said = shell("\"$M\" verify %s", trace);
    assert_int_equal(said->code, 0);
}

/* Returns the answer behind the line with the number of the run, or behind the first line. The caller frees it. */
static char *answer_of(const char *command, const char *trace, int run)
{
    const struct said *said = shell("\"$M\" %s --trace %s --run %d", command, trace, run);
    assert_int_equal(said->code, 0);
    const char *head = strstr(said->out, "run "); /* "run 2, sim:h200, done, 1 step" */
    const char *end = strchr(head != NULL ? head : said->out, '\n');
    return strdup(end != NULL ? end : said->out);
}

static void assert_same_answer(const char *command, int appended, int original)
{
    char *found = answer_of(command, "all.db", appended), *expected = answer_of(command, "one.db", original);
    assert_string_equal(found, expected);
    free(found);
    free(expected);
}

static void appended_runs_are_what_they_were(void **state)
{
    (void)state;
    int64_t shift;
    assert_int_equal(MEMTRACE(RUN "--trace all.db")->code, 0);
    assert_int_equal(MEMTRACE(RUN "--trace one.db --batch 2")->code, 0);
    assert_int_equal(MEMTRACE(RUN "--trace one.db --batch 3")->code, 0);
    assert_int_equal(mt_trace_append("one.db", "all.db", &shift), MT_OK);
    assert_int_equal(shift, 1);
    assert_whole("all.db");
    for (int run = 1; run <= 2; run++) {
        assert_same_answer("categories", run + 1, run);
        assert_same_answer("peak --by module", run + 1, run);
    }
    assert_int_equal(MEMTRACE(RUN "--trace all.db")->code, 0); /* a further run follows them */
    assert_whole("all.db");
}

static void a_trace_that_is_not_there_is_made(void **state)
{
    (void)state;
    int64_t shift;
    assert_int_equal(MEMTRACE(RUN "--trace one.db")->code, 0);
    assert_int_equal(mt_trace_append("one.db", "new.db", &shift), MT_OK);
    assert_int_equal(shift, 0);
    assert_whole("new.db");
}

static void a_file_that_is_no_trace_stays_as_it_is(void **state)
{
    (void)state;
    int64_t shift;
    assert_int_equal(MEMTRACE(RUN "--trace one.db")->code, 0);
    shell("echo text >other.db");
    assert_int_equal(mt_trace_append("one.db", "other.db", &shift), MT_BAD_TRACE);
    assert_int_equal(mt_trace_append("other.db", "one.db", &shift), MT_BAD_TRACE);
    assert_string_equal(shell("cat other.db")->out, "text\n");
    assert_whole("one.db");
}

static int enter(void **state)
{
    *state = enter_folder("append");
    return 0;
}

#define APPEND_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        APPEND_TEST(appended_runs_are_what_they_were),
        APPEND_TEST(a_trace_that_is_not_there_is_made),
        APPEND_TEST(a_file_that_is_no_trace_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
