/* A run or a trace that is named without --run or --trace. */
#include "two_runs.h"

/* Fails unless two commands print the same. */
static void expect_same(const char *command, const char *expected)
{
    const struct said *said = shell("\"$M\" %s >expected.txt && \"$M\" %s >given.txt && cmp expected.txt given.txt && "
                                    "test -s given.txt",
                                    expected, command);
    if (said->code != 0 || said->err[0] != '\0')
        fail_msg("%s: exit code %d: %s%s", command, said->code, said->out, said->err);
}

static void a_number_or_a_name_is_a_run(void **state)
{
    (void)state;
    static const char *const commands[][2] = {
        {"peak 1", "peak --run 1"},
        {"categories 1", "categories --run 1"},
        {"events 1 --csv", "events --run 1 --csv"},
        {"used 1", "used --run 1"},
        {"steps 1", "steps --run 1"},
        {"advise 1", "advise --run 1"},
        {"runs 1", "runs --run 1"},
        {"timeline 1 -o -", "timeline --run 1 -o -"},
        {"check 1 --max-allocated 1TiB", "check --run 1 --max-allocated 1TiB"},
        {"peak first --json", "peak --run 1 --json"},
        {"peak --json second", "peak --run 2 --json"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        expect_same(commands[i][0], commands[i][1]);
}

static void a_file_or_a_folder_is_a_trace(void **state)
{
    (void)state;
    assert_int_equal(shell("mkdir -p folder && cp memtrace.db folder/other.db && cp memtrace.db plain")->code, 0);
    expect_same("peak memtrace.db", "peak");
    expect_same("peak folder/other.db --run 1", "peak --run 1 --trace folder/other.db");
    expect_same("runs plain", "runs");
    expect_same("verify plain", "verify --trace plain");
    const struct said *said = MEMTRACE("peak none.db");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "none.db");
    assert_says(MEMTRACE("oom plain")->err, "no run of plain ended with the state oom");
    assert_says(MEMTRACE("peak 12")->err, "12");
    assert_says(MEMTRACE("peak secnd")->err, "\"second\"");
}

static void where_an_argument_means_something_else_the_option_is_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"top memtrace.db", "--trace memtrace.db names a trace"},
        {"top 1 2", "\"2\" is one argument too many; --run 2 names a run"},
        {"top second", "--run second names a run"},
        {"kernels memtrace.db", "--trace memtrace.db names a trace"},
        {"peak 1 2", "--run 2 names a run"},
        {"peak 1 memtrace.db", "--trace memtrace.db names a trace"},
        {"sql memtrace.db", "\"memtrace.db\" is no query; --trace memtrace.db names a trace"},
        {"sql 'SELECT 1' 2", "--run 2 names a run"},
        {"export 1", "--run 1 names a run"},
        {"export memtrace.db", "--trace memtrace.db names a trace"},
        {"fit 1", "\"1\" is no program; --run 1 names a run"},
        {"fit memtrace.db", "--trace memtrace.db names a trace"},
        {"report memtrace.db", "--trace memtrace.db names a trace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i][0]);
        if (said->code != MT_USAGE)
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_says(said->err, cases[i][1]);
    }
    assert_null(strstr(MEMTRACE("cards h100 memtrace.db")->err, "--trace"));
    assert_int_equal(MEMTRACE("top 1")->code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(a_number_or_a_name_is_a_run),
        TEST_WITH_TWO_RUNS(a_file_or_a_folder_is_a_trace),
        TEST_WITH_TWO_RUNS(where_an_argument_means_something_else_the_option_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
