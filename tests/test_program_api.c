/* Programs that the library starts. Shell scripts stand for programs; tests/python/test_program.py runs PyTorch. */
#include "library_fixture.h"

#include <fcntl.h>
#include <memtrace.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL(script)                                                                                                  \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        "sh", "-c", script, NULL                                                                                       \
    }

/* A line of src/run/handover.h: the process has become run 1 of test.db. */
#define ANSWER READ_SETTING("answers", "answers") "printf 'run\\t%s\\t1\\t%s\\n' $$ \"$PWD/" TRACE "\" >>\"$answers\";"

static memtrace_program_options options_of(const char *const *words)
{
    return (memtrace_program_options){.size = sizeof(memtrace_program_options), .words = words, .trace = "dry.db"};
}

/* The answer of the last program that was run. */
static struct {
    int code;
    const memtrace_program_row *const *rows;
    size_t count;
    const char *notes;
} program;

static memtrace_status start(const memtrace_program_options *options)
{
    return memtrace_program_run(options, &program.code, &program.rows, &program.count, &program.notes);
}

static void release(void)
{
    memtrace_free(program.rows);
    memtrace_free(program.notes);
}

static void run(const char *const *words)
{
    const memtrace_program_options options = options_of(words);
    assert_ok(start(&options));
}

static void record_run(memtrace_outcome outcome)
{
    memtrace_run *recorded = open_run("sim:1GiB");
    take(recorded, 24 * MIB, "Param");
    assert_ok(memtrace_run_close(recorded, outcome));
}

static void the_exit_code_is_the_program_s(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int code;
    } cases[] = {{"exit 7", 7}, {"kill -KILL $$", 128 + SIGKILL}, {"true", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run(SHELL(cases[i].script));
        assert_int_equal(program.code, cases[i].code);
        assert_int_equal(program.count, 0);
        release();
    }
}

static void a_run_of_the_program_is_a_row(void **state)
{
    (void)state;
    record_run(MEMTRACE_RUN_DONE);
    run(SHELL(ANSWER));
    assert_int_equal(program.count, 1);
    const memtrace_program_row *row = program.rows[0];
    assert_int_equal(row->run, 1);
    assert_int_equal(row->rank, -1);
    assert_string_equal(row->state, "done");
    assert_true(row->fits);
    assert_string_equal(strrchr(row->trace, '/'), "/" TRACE);
    assert_int_equal(row->live_bytes, 24 * MIB);
    assert_true(row->needed_bytes >= row->live_bytes && row->needed_bytes <= row->card_bytes);
    release();
}

static void a_trace_that_can_t_be_read_is_noted(void **state)
{
    (void)state;
    run(SHELL(ANSWER));
    assert_int_equal(program.count, 0);
    assert_non_null(strstr(program.notes, TRACE));
    release();
}

static void output_and_ranks_are_those_of_the_options(void **state)
{
    (void)state;
    char said[64] = "";
    memtrace_program_options options = options_of(SHELL("echo $RANK/$WORLD_SIZE"));
    options.jobs = 1;
    options.ranks = 4;
    options.only_ranks = "1,3";
    options.output = open("said", O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_ok(start(&options));
    assert_true(pread(options.output, said, sizeof said - 1, 0) > 0);
    assert_string_equal(said, "1/4\n3/4\n");
    close(options.output);
    release();
}

static void this_process_keeps_its_environment(void **state)
{
    (void)state;
    size_t before = 0, after = 0;
    memtrace_program_options options = options_of(SHELL("true"));
    options.ranks = 2;
    while (environ[before] != NULL)
        before++;
    assert_ok(start(&options));
    release();
    options.mode = MEMTRACE_RUN_RECORDED;
    assert_ok(start(&options));
    release();
    while (environ[after] != NULL)
        after++;
    assert_int_equal(before, after);
    assert_null(getenv("RANK"));
}

static void a_sweep_has_a_row_for_each_combination(void **state)
{
    (void)state;
    const char *const words[] = {"sh", "-c", "exit $1", "sh", "@code", "--seq=@seq", NULL};
    const char *const lists[] = {"code=0,3", "seq=1,2,3"};
    const memtrace_program_options options = options_of(words);
    const memtrace_program_cell *const *rows;
    size_t count;
    assert_ok(memtrace_program_sweep(&options, lists, 2, &rows, &count));
    assert_int_equal(count, 6);
    assert_string_equal(rows[0]->state, "done");
    assert_string_equal(rows[4]->state, "failed");
    assert_string_equal(rows[4]->words, "failed: exit code 3");
    assert_string_equal(rows[4]->values, "3,2");
    memtrace_free(rows);
}

/* The script says that it is run 1 of a trace, which the fit reads, and that no change was made. */
static void a_fit_has_a_row_for_each_trial(void **state)
{
    (void)state;
    memtrace_program_options options = options_of(SHELL(ANSWER));
    const memtrace_trial *const *rows;
    size_t count;
    record_run(MEMTRACE_RUN_DONE);
    options.device = "sim:16MiB";
    assert_ok(memtrace_program_fit(&options, &rows, &count));
    assert_true(count > 2);
    assert_string_equal(rows[0]->changes, "");
    assert_string_equal(rows[0]->outcome, "ran");
    assert_false(rows[0]->fits);
    assert_int_equal(rows[0]->allocated_bytes, 24 * MIB);
    assert_string_equal(rows[1]->outcome, "refused");
    memtrace_free(rows);
    options.device = "sim:32MiB";
    assert_ok(memtrace_program_fit(&options, &rows, &count));
    assert_true(rows[0]->fits);
    memtrace_free(rows);
}

/* The script's run takes 24 MiB with each value, and fails with odd ones. */
static void a_search_has_a_row_for_each_value_that_was_tried(void **state)
{
    (void)state;
    const char *const words[] = {"sh", "-c", "test $((${1} % 2)) = 0 || exit 3;" ANSWER, "sh", "@batch", "@seq", NULL};
    const char *const lists[] = {"seq=128,256"};
    const memtrace_value_trial *const *rows;
    memtrace_program_options options = options_of(words);
    size_t count;
    record_run(MEMTRACE_RUN_DONE);
    options.device = "sim:32MiB";
    assert_ok(memtrace_program_largest(&options, "batch=1,4,8", lists, 1, &rows, &count));
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(rows[i]->values, i < 3 ? "128" : "256");
        assert_int_equal(rows[i]->is_largest, i % 3 == 2);
    }
    assert_string_equal(rows[0]->state, "failed");
    assert_string_equal(rows[0]->words, "exit code 3");
    assert_int_equal(rows[2]->value, 8);
    assert_string_equal(rows[2]->state, "fits");
    assert_int_equal(rows[2]->allocated_bytes, 24 * MIB);
    assert_true(rows[2]->needed_bytes >= 24 * MIB && rows[2]->card_bytes == 32 * MIB);
    memtrace_free(rows);
}

static void a_search_without_an_answer_says_so(void **state)
{
    (void)state;
    const char *const words[] = {"sh", "-c", ANSWER, "sh", "@batch", NULL};
    const char *const failing[] = {"sh", "-c", "exit 3", "sh", "@batch", NULL};
    const memtrace_value_trial *const *rows;
    memtrace_program_options options = options_of(words);
    size_t count;
    record_run(MEMTRACE_RUN_DONE);
    options.device = "sim:16MiB";
    assert_ok(memtrace_program_largest(&options, "batch=7..7", NULL, 0, &rows, &count));
    assert_int_equal(count, 1);
    assert_string_equal(rows[0]->state, "short");
    assert_false(rows[0]->is_largest);
    memtrace_free(rows);
    assert_fails(memtrace_program_largest(&options, "batch=8..7", NULL, 0, &rows, &count), MEMTRACE_USAGE,
                 "below its begin");
    assert_fails(memtrace_program_largest(&options, "seq=1..7", NULL, 0, &rows, &count), MEMTRACE_USAGE,
                 "@batch does not vary");
    assert_fails(memtrace_program_largest(&options, NULL, NULL, 0, &rows, &count), MEMTRACE_USAGE, "missing");
    options = options_of(failing);
    assert_fails(memtrace_program_largest(&options, "batch=1..512", NULL, 0, &rows, &count), MEMTRACE_FAILED,
                 "exit code 3");
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    const memtrace_trial *const *rows;
    size_t count;
    const char *const none[] = {NULL}, *const unknown[] = {"no-such-program", NULL};
    memtrace_program_options options = options_of(none);
    assert_fails(start(&options), MEMTRACE_USAGE, "words");
    options.size = 0;
    assert_fails(start(&options), MEMTRACE_USAGE, "size of a memtrace_program_options is 0");
    options = options_of(unknown);
    assert_fails(start(&options), MEMTRACE_FAILED, "no-such-program: No such file");
    options = options_of(SHELL("true"));
    options.device = "cpu";
    assert_fails(start(&options), MEMTRACE_USAGE, "simulated card");
    options = options_of(SHELL("true"));
    options.only_ranks = "1";
    assert_fails(start(&options), MEMTRACE_USAGE, "how many");
    options = options_of(SHELL("true"));
    options.ranks = -1;
    assert_fails(start(&options), MEMTRACE_USAGE, "ranks are -1");
    options = options_of(SHELL("true"));
    options.assumed = "0x10"; /* a number in C, not in Python */
    assert_fails(start(&options), MEMTRACE_USAGE, "0x10");
    options = options_of(SHELL("true"));
    options.weights = "none";
    assert_fails(start(&options), MEMTRACE_USAGE, "from-config");
    options = options_of(SHELL("echo KeyError >&2; exit 3"));
    assert_fails(memtrace_program_fit(&options, &rows, &count), MEMTRACE_FAILED, "as it is: exit code 3, KeyError");
    options.mode = MEMTRACE_RUN_RECORDED;
    assert_fails(memtrace_program_fit(&options, &rows, &count), MEMTRACE_USAGE, "dry runs");
}

static void an_output_that_is_not_open_is_refused(void **state)
{
    (void)state;
    enum { NOT_OPEN = 999 };
    memtrace_program_options options = options_of(SHELL("true"));
    for (int mode = MEMTRACE_RUN_DRY; mode <= MEMTRACE_RUN_RECORDED; mode++) {
        options.mode = (memtrace_program_mode)mode;
        options.output = NOT_OPEN;
        assert_fails(start(&options), MEMTRACE_USAGE, "output 999");
        options.output = -5;
        assert_fails(start(&options), MEMTRACE_USAGE, "output -5");
    }
}

/* Waits for any child, as some programs do in a thread. */
static void *take_children(void *is_over)
{
    while (!atomic_load((atomic_bool *)is_over))
        (void)waitpid(-1, NULL, 0);
    return NULL;
}

static void a_program_that_another_thread_waited_for_is_no_success(void **state)
{
    (void)state;
    enum { TIMES = 10 };
    atomic_bool is_over = false;
    pthread_t taker;
    assert_int_equal(pthread_create(&taker, NULL, take_children, &is_over), 0);
    for (int i = 0; i < TIMES; i++) {
        run(SHELL("exit 7"));
        assert_true(program.code == 7 || program.code == 127);
        release();
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(taker, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(an_output_that_is_not_open_is_refused),
        LIBRARY_TEST(a_program_that_another_thread_waited_for_is_no_success),
        LIBRARY_TEST(the_exit_code_is_the_program_s),
        LIBRARY_TEST(a_run_of_the_program_is_a_row),
        LIBRARY_TEST(a_trace_that_can_t_be_read_is_noted),
        LIBRARY_TEST(output_and_ranks_are_those_of_the_options),
        LIBRARY_TEST(this_process_keeps_its_environment),
        LIBRARY_TEST(a_sweep_has_a_row_for_each_combination),
        LIBRARY_TEST(a_fit_has_a_row_for_each_trial),
        LIBRARY_TEST(a_search_has_a_row_for_each_value_that_was_tried),
        LIBRARY_TEST(a_search_without_an_answer_says_so),
        LIBRARY_TEST(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
