/* `memtrace record` from outside: a program behaves as without it, and its device memory is a run of the trace. If
 * CUPTI was found by the build, tests/fake_cuda.c is the program. */
#include "bench/reserved_now.h"
#include "record_fixture.h"

#include <poll.h>
#include <pty.h>
#include <time.h>

static void output_input_and_exit_code_are_the_programs_own(void **state)
{
    (void)state;
    const struct said *said = shell("printf 'a\\nb' | \"$M\" record -- sh -c 'cat; echo words >&2; exit 7'");
    assert_int_equal(said->code, 7);
    assert_string_equal(said->out, "a\nb");
    assert_says(said->err, "words\n");
}

static void a_signal_that_ends_the_program_is_told_as_shells_do(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("record -- sh -c 'kill -TERM $$'")->code, 128 + SIGTERM);
    assert_int_equal(MEMTRACE("record -- sh -c 'kill -KILL $$'")->code, 128 + SIGKILL);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("record -- ./nothing --version")->code, 127);
    const struct said *said = shell(": >file; \"$M\" record ./file");
    assert_int_equal(said->code, 126);
    assert_says(said->err, "./file: Permission denied");
}

static void arguments_are_left_as_they_are(void **state)
{
    (void)state;
    assert_string_equal(MEMTRACE("record -- printf '[%%s]' --trace -- 'a b' '' --help")->out,
                        "[--trace][--][a b][][--help]");
    assert_string_equal(MEMTRACE("record --name x printf '[%%s]' --name")->out, "[--name]");
}

/* Compares with the same program on its own. Another program lists the open files, which it inherits: in the program
 * itself, pipes to such programs come and go. */
static void folder_files_and_signals_are_those_of_a_program_on_its_own(void **state)
{
    (void)state;
    static const char looks[] =
        "pwd; readlink /proc/$$/fd/1; ls -l /proc/self/fd >files; sed \"s/.* \\([0-9]* -> \\)/\\1/\" files | grep -v "
        "\"files\\|/proc\"; "
        "grep \"Sig[BIC]\" /proc/$$/status | sed \"s/.........\\(.......\\)$/ \\1/\"; ulimit -a";
    char *alone = strdup(shell("sh -c '%s'", looks)->out);
    assert_says(alone, "SigBlk");
    assert_string_equal(shell("\"$M\" record -- sh -c '%s'", looks)->out, alone);
    free(alone);
    alone = strdup(shell("trap '' INT CHLD; sh -c '%s'", looks)->out);
    assert_string_equal(shell("trap '' INT CHLD; \"$M\" record -- sh -c '%s'", looks)->out, alone);
    free(alone);
}

static void a_signal_to_memtrace_alone_reaches_the_program(void **state)
{
    (void)state;
    const struct said *said =
        shell("\"$M\" record -- sh -c 'trap \"echo got it; exit 5\" TERM; : >ready; while :; do sleep 0.01; done' & "
              "while [ ! -e ready ]; do sleep 0.01; done; kill -TERM $!; wait $!");
    assert_int_equal(said->code, 5);
    assert_string_equal(said->out, "got it\n");
}

/* Reads from the terminal until the words appear. False after 5 s without them. */
static bool read_until(int terminal, char *text, size_t bytes, const char *words)
{
    size_t length = strlen(text);
    for (int i = 0; i < 500 && strstr(text, words) == NULL; i++) {
        struct pollfd ready = {.fd = terminal, .events = POLLIN};
        if (poll(&ready, 1, 10) <= 0)
            continue;
        ssize_t got = read(terminal, text + length, bytes - length - 1);
        if (got <= 0)
            break;
        length += (size_t)got;
        text[length] = '\0';
    }
    return strstr(text, words) != NULL;
}

/* Sends Ctrl-C on a terminal, as a person does: both processes get it, and the program sees one. */
static void an_interrupt_from_the_terminal_reaches_the_program_once(void **state)
{
    (void)state;
    static const char counts[] = "n=0; trap 'n=$((n+1))' INT; echo ready; i=0; while [ $i -lt 30 ]; do sleep 0.01; "
                                 "i=$((i+1)); done; echo $n interrupts; exit 3";
    char text[4096] = "";
    int terminal, status;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0) {
        signal(SIGINT, SIG_DFL); /* a job in the background inherits that it is ignored */
        execl(MT_PROGRAM, MT_PROGRAM, "record", "--", "sh", "-c", counts, (char *)NULL);
        _exit(99);
    }
    assert_true(read_until(terminal, text, sizeof text, "ready"));
    assert_int_equal(write(terminal, "\x03", 1), 1);
    if (!read_until(terminal, text, sizeof text, "1 interrupts"))
        fail_msg("%s", text);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(exit_code(status), 3);
    close(terminal);
}

#ifdef MT_FAKE_CUDA

static void memory_of_every_kind_is_a_run_of_the_trace(void **state)
{
    (void)state;
    const struct said *said =
        shell(RECORD "take 0 1000 pool 1 2000 make 9 4000 static 3 8000 give 0 drop 9 say done exit 4");
    assert_int_equal(said->code, 4);
    assert_string_equal(said->out, "done\n");
    assert_says(said->err, "run 1 of memtrace.db: peak 9.77 KiB (failed); see memtrace peak --run 1\n");
    assert_string_equal(ask_trace("SELECT group_concat(requested_bytes) FROM event, event_kind AS k"
                                  " WHERE kind = k.id AND name = 'alloc'"),
                        "1000,2000,4000,8000");
    assert_peak("1", 10000, "Static");
}

/* Then that library has the run. */
static void who_watches_pytorch_is_told_of_memory_once(void **state)
{
    (void)state;
    const struct said *said = shell("FAKE_TORCH=1 " RECORD "take 0 1000 pool 1 2000 refuse 9 give 0 unpool 1");
    assert_string_equal(said->out, "cudaMalloc took 1000 at 100000000 of 0\n"
                                   "cudaMallocAsync took 2000 at 200000000 of 0\n"
                                   "100000000 is given back\n"
                                   "200000000 is given back\n");
    assert_int_not_equal(access("memtrace.db", F_OK), 0);
}

/* The driver is asked while another thread creates a context. */
static void what_the_driver_keeps_for_a_pool_is_reserved(void **state)
{
    (void)state;
    const struct said *said =
        shell("FAKE_DRIVER='" MT_FAKE_DRIVER "' " RECORD "pool 2 1000000 unpool 2 pool 3 500000 say done");
    assert_string_equal(said->err, "memtrace: run 1 of memtrace.db: peak 976.56 KiB; see memtrace peak --run 1\n");
    assert_string_equal(said->out, "done\n");
    assert_says(shell("\"$M\" peak --json")->out, "3145728");
}

static void the_page_of_the_first_run_is_written(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" record --page page.html -- " FAKE "take 0 1000 give 0");
    assert_int_equal(said->code, 0);
    assert_says(said->err, "wrote page.html, ");
    assert_int_equal(shell("grep -q '<html' page.html")->code, 0);
    said = shell("\"$M\" record --page none/page.html -- " FAKE "take 0 1000 exit 4");
    assert_int_equal(said->code, 4);
    assert_says(said->err, "there is no page: ");
}

static void blocks_tell_the_function_and_the_ranges(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "push model push layer take 0 1000 pop take 1 500 pop")->code, 0);
    assert_says(MEMTRACE("top --each")->out, "model.layer");
    assert_says(MEMTRACE("top --each")->out, "cudaMalloc");
}

static void ranges_have_names_of_every_kind(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "names")->code, 0);
    assert_string_equal(ask_trace("SELECT group_concat(s.path) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " JOIN label AS l ON l.id = e.label JOIN span AS s ON s.id = l.span"
                                  " WHERE k.name = 'alloc' ORDER BY e.id"),
                        "plain,wide ?,attribute,wide attribute,registered,?,?");
}

static void kernels_are_recorded_where_they_are_asked_for(void **state)
{
    (void)state;
    assert_int_equal(
        shell("\"$M\" record --kernels --step it -- " FAKE "push it push model launch sum launch sum pop pop")->code,
        0);
    assert_says(MEMTRACE("kernels")->out, "sum");
    assert_string_equal(ask_trace("SELECT count(*) FROM kernel"), "2");
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "streams")->code, 0);
    assert_string_equal(ask_trace("SELECT group_concat(stream) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " WHERE k.name = 'alloc' ORDER BY e.id"),
                        "0,0,1,1,2");
}

/* Launches call back only in programs with ranges, whichever of CUDA and NVTX they use first. */
static void launches_are_heard_once_there_are_ranges(void **state)
{
    (void)state;
    const struct said *said =
        shell("\"$M\" record --kernels -- " FAKE "launch early hears push model hears launch late pop");
    assert_string_equal(said->out, "launches are not heard\nlaunches are heard\n");
    assert_string_equal(ask_trace("SELECT n.name FROM kernel AS k JOIN kernel_name AS n ON n.id = k.name"
                                  " JOIN label AS l ON l.id = k.label WHERE l.span = 0"),
                        "early");
    assert_string_equal(
        ask_trace("SELECT n.name FROM kernel AS k JOIN kernel_name AS n ON n.id = k.name"
                  " JOIN label AS l ON l.id = k.label JOIN span AS s ON s.id = l.span WHERE path = 'model'"),
        "late");
    said = shell("FAKE_NVTX_FIRST=1 \"$M\" record --kernels -- " FAKE "hears launch sum");
    assert_string_equal(said->out, "launches are heard\n");
    assert_string_equal(shell(RECORD "push model hears pop")->out, "launches are not heard\n");
}

static void what_threads_do_at_once_is_all_there(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" record --kernels -- " FAKE "storm 4");
    assert_int_equal(said->code, 0);
    char kernels[32];
    snprintf(kernels, sizeof kernels, "%.*s", (int)strcspn(said->out, "\n"), said->out);
    assert_string_equal(ask_trace("SELECT count(*) FROM kernel"), kernels);
    assert_string_equal(ask_trace("SELECT count(*) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " JOIN label AS l ON l.id = e.label JOIN span AS s ON s.id = l.span"
                                  " WHERE k.name = 'alloc' AND s.path = 'storm'"),
                        "4000");
    assert_string_equal(ask_trace("SELECT count(*) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " WHERE k.name = 'free'"),
                        "4000");
}

/* Threads are inside calls when the process forks, and when it exits. */
static void a_program_forks_and_exits_while_its_threads_go_on(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            shell("rm -f memtrace.db; \"$M\" record --kernels -- " FAKE "toil 2 sleep 3 fork fork exit 3")->code, 3);
        assert_string_equal(ask_trace("SELECT state FROM run"), "failed");
        assert_string_equal(ask_trace("SELECT total(CASE k.name WHEN 'alloc' THEN 1 ELSE -1 END) BETWEEN 0 AND 2 FROM"
                                      " event AS e JOIN event_kind AS k ON k.id = e.kind"
                                      " WHERE k.name IN ('alloc', 'free')"),
                            "1");
    }
}

/* The benchmark compares this with the driver's figure. */
static void a_trace_tells_what_a_program_that_goes_on_holds(void **state)
{
    (void)state;
    shell(RECORD "take 0 1000 take 1 500 give 0 pool 2 70 make 9 4000 say held sleep 1000 give 1 & "
                 "until grep -q held out.txt; do sleep 0.01; done; sleep %g; \"$M\" sql --json \"%s\" >now.json; wait",
          RESERVED_SETTLES_US * 1e-6, RESERVED_NOW_SQL);
    json_t *answer = json_of(shell("cat now.json"));
    assert_int_equal(json_integer_value(json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0)), 4570);
    json_decref(answer);
}

/* Later events would lie in its ranges otherwise, or be no events at all. */
static void a_thread_that_ends_within_its_ranges_leaves_them(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "haunt push model take 0 7 pop")->code, 0);
    assert_string_equal(ask_trace("SELECT group_concat(told, ', ') FROM (SELECT k.name || ' ' || s.path AS told FROM"
                                  " event AS e JOIN event_kind AS k ON k.id = e.kind JOIN span AS s ON s.id = e.span"
                                  " WHERE k.name LIKE 'span%' AND s.path <> 'ghost' ORDER BY e.id)"),
                        "span_begin left, span_begin left.behind, span_end left.behind, span_end left,"
                        " span_begin model, span_end model");
    assert_string_equal(ask_trace("SELECT count(*) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " JOIN span AS s ON s.id = e.span WHERE k.name = 'span_end' AND s.path LIKE"
                                  " '%ghost'"),
                        "2");
}

/* The end of a range in one domain does not end a range of another, whichever began last. */
static void ranges_of_each_domain_end_by_themselves(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "push model push-in 5 library pop-in 5 pop-in 5 take 0 7 push-in 6 other pop take 1 8"
                                  " pop-in 6")
                         ->code,
                     0);
    assert_string_equal(ask_trace("SELECT group_concat(s.path) FROM event AS e JOIN event_kind AS k ON k.id = e.kind"
                                  " JOIN label AS l ON l.id = e.label JOIN span AS s ON s.id = l.span"
                                  " WHERE k.name = 'alloc' ORDER BY e.id"),
                        "model,other");
}

static void ranges_of_a_name_are_steps(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" record --step it -- " FAKE "push it0 take 0 7 pop push it1 give 0 pop")->code, 0);
    assert_string_equal(ask_trace("SELECT count(*) FROM step"), "2");
}

static void what_is_missing_is_counted_and_said(void **state)
{
    (void)state;
    assert_says(shell(RECORD "take 0 7 lose 12")->err, ": 12 records of CUPTI are missing\n");
}

static void a_refused_request_that_ends_the_program_is_the_end_of_memory(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "take 0 7 refuse 1000000 exit 1")->code, 1);
    assert_string_equal(ask_trace("SELECT state FROM run"), "oom");
    assert_int_equal(MEMTRACE("oom")->code, 0);
}

/* For instance a number of bytes that was counted below 0. */
static void a_refused_request_of_any_size_leaves_a_whole_trace(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "take 0 7 refuse 18446744073709551615 exit 1")->code, 1);
    const struct said *said = MEMTRACE("oom");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, " -")); /* no number below 0 */
    assert_int_equal(MEMTRACE("export --format perfetto -o trace.json")->code, 0);
}

/* After a kill, or an exit without exit handlers, the trace has everything that calls reported. */
static void what_a_program_did_before_it_died_is_there(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "take 0 1000 take 1 500 die 9")->code, 128 + SIGKILL);
    assert_peak("1", 1500, "Device");
    assert_string_equal(ask_trace("SELECT state FROM run"), "interrupted");
    assert_int_equal(shell(RECORD "take 0 3000 leave 3")->code, 3);
    assert_peak("2", 3000, "Device");
}

static void a_child_that_exits_ends_nothing(void **state)
{
    (void)state;
    assert_int_equal(shell(RECORD "take 0 1000 fork take 1 500")->code, 0);
    assert_peak("1", 1500, "Device");
    assert_string_equal(ask_trace("SELECT state FROM run"), "done");
}

/* The child has the parent's files, and their locks. */
static void a_child_that_outlives_the_program_holds_no_trace(void **state)
{
    (void)state;
    const struct said *said = shell(RECORD "take 0 1000 linger 3000 take 1 500 die 9");
    assert_says(said->err, "run 1 of memtrace.db: peak 1.46 KiB (interrupted);");
    assert_int_equal(shell(RECORD "take 0 2000")->code, 0);
    assert_peak("2", 2000, "Device");
}

/* The request came through the environment. */
static void a_program_may_write_over_its_environment(void **state)
{
    (void)state;
    assert_int_equal(
        shell("FAKE_TITLE=1 \"$M\" record --name titled --step it -- " FAKE "push it0 take 0 1000 pop")->code, 0);
    assert_string_equal(ask_trace("SELECT name FROM run"), "titled");
    assert_string_equal(ask_trace("SELECT count(*) FROM step"), "1");
    assert_peak("1", 1000, "Device");
}

static void processes_side_by_side_have_traces_of_their_own(void **state)
{
    (void)state;
    const struct said *said =
        shell(SET_FAKE "\"$M\" record -- sh -c '\"$F\" take 0 1000 say first sleep 30000 >first & "
                       "until grep -q first first; do sleep 0.01; done; \"$F\" take 0 2000; kill $!; wait'");
    assert_int_equal(said->code, 0);
    assert_says(said->err, "run 1 of memtrace.db: peak 1000 B (interrupted); see memtrace peak --run 1\n");
    assert_says(said->err, "run 1 of memtrace.db-");
    assert_says(said->err, "peak 1.95 KiB; see memtrace peak --run 1 --trace memtrace.db-");
}

static void processes_one_after_another_are_runs_of_one_trace(void **state)
{
    (void)state;
    assert_int_equal(shell(SET_FAKE "\"$M\" record -- sh -c '\"$F\" take 0 1000; \"$F\" take 0 2000'")->code, 0);
    assert_peak("1", 1000, "Device");
    assert_peak("2", 2000, "Device");
}

/* Threads of the recording take no signal of the program. */
static void a_signal_that_the_program_waits_for_is_the_programs(void **state)
{
    (void)state;
    const struct said *said = shell(RECORD "take 0 1000 await 15 await 10 exit 8");
    assert_string_equal(said->out, "it came\nit came\n");
    assert_int_equal(said->code, 8);
}

static void an_interrupt_is_the_recorded_programs_to_handle(void **state)
{
    (void)state;
    const struct said *said = shell(RECORD "take 0 1000 count-interrupts 300 exit 5 & "
                                           "until grep -q ready out.txt; do sleep 0.01; done; kill -INT $!; wait $!");
    assert_int_equal(said->code, 5);
    assert_string_equal(said->out, "ready\n1 interrupts\n");
    assert_peak("1", 1000, "Device");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECORD_TEST(output_input_and_exit_code_are_the_programs_own),
        RECORD_TEST(a_signal_that_ends_the_program_is_told_as_shells_do),
        RECORD_TEST(a_program_that_is_not_there_is_named),
        RECORD_TEST(arguments_are_left_as_they_are),
        RECORD_TEST(folder_files_and_signals_are_those_of_a_program_on_its_own),
        RECORD_TEST(a_signal_to_memtrace_alone_reaches_the_program),
        RECORD_TEST(an_interrupt_from_the_terminal_reaches_the_program_once),
#ifdef MT_FAKE_CUDA
        RECORD_TEST(memory_of_every_kind_is_a_run_of_the_trace),
        RECORD_TEST(who_watches_pytorch_is_told_of_memory_once),
        RECORD_TEST(what_the_driver_keeps_for_a_pool_is_reserved),
        RECORD_TEST(the_page_of_the_first_run_is_written),
        RECORD_TEST(blocks_tell_the_function_and_the_ranges),
        RECORD_TEST(each_thread_has_a_default_stream_of_its_own),
        RECORD_TEST(ranges_have_names_of_every_kind),
        RECORD_TEST(kernels_are_recorded_where_they_are_asked_for),
        RECORD_TEST(launches_are_heard_once_there_are_ranges),
        RECORD_TEST(what_threads_do_at_once_is_all_there),
        RECORD_TEST(a_program_forks_and_exits_while_its_threads_go_on),
        RECORD_TEST(a_trace_tells_what_a_program_that_goes_on_holds),
        RECORD_TEST(a_thread_that_ends_within_its_ranges_leaves_them),
        RECORD_TEST(ranges_of_each_domain_end_by_themselves),
        RECORD_TEST(ranges_of_a_name_are_steps),
        RECORD_TEST(what_is_missing_is_counted_and_said),
        RECORD_TEST(a_refused_request_that_ends_the_program_is_the_end_of_memory),
        RECORD_TEST(a_refused_request_of_any_size_leaves_a_whole_trace),
        RECORD_TEST(what_a_program_did_before_it_died_is_there),
        RECORD_TEST(a_child_that_exits_ends_nothing),
        RECORD_TEST(a_child_that_outlives_the_program_holds_no_trace),
        RECORD_TEST(a_program_may_write_over_its_environment),
        RECORD_TEST(processes_side_by_side_have_traces_of_their_own),
        RECORD_TEST(processes_one_after_another_are_runs_of_one_trace),
        RECORD_TEST(a_signal_that_the_program_waits_for_is_the_programs),
        RECORD_TEST(an_interrupt_is_the_recorded_programs_to_handle),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
