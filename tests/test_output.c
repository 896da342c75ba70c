/* Tests of output to a terminal, a pipe, a full disk or nowhere, and of a run that is cut off. */
#include "terminal.h"
#include "two_runs.h"

#include <signal.h>

static void no_line_of_a_table_ends_in_blanks(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 3")->code, 0);
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 128 --steps 3")->code, 0);
    static const char *const commands[] = {"runs",       "peak",   "top",  "diff 1 2",
                                           "categories", "events", "used", "top --at peak --each",
                                           "steps",      "advise", "help", "sql 'SELECT name, NULL AS b FROM run'"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct said *said = shell("\"$M\" %s | grep -n ' $'", commands[i]);
        if (said->out[0] != '\0')
            fail_msg("%s: %.200s", commands[i], said->out);
    }
}

/* As the timeline's page says them, too (tests/viewer). */
static void a_share_of_more_than_nothing_is_not_shown_as_nothing(void **state)
{
    (void)state;
    char row[100];
    size_t tiny = 0;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 3 --trace shares.db")->code, 0);
    json_t *peak = json_of(MEMTRACE("peak --json --trace shares.db")), *shares = json_object_get(peak, "by_category");
    const struct said *said = MEMTRACE("peak --by category --trace shares.db");
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const json_t *share = json_array_get(shares, i);
        double percent =
            100 * (double)integer_of(share, "allocated_bytes") / (double)integer_of(peak, "allocated_bytes");
        snprintf(row, sizeof row, percent < 0.05 ? "B   <0.1 %%" : "B %6.1f %%", percent);
        const char *line =
            strstr(strstr(said->out, "\ncategory "), json_string_value(json_object_get(share, "category")));
        assert_non_null(line);
        if (memmem(line, strcspn(line, "\n"), row, strlen(row)) == NULL)
            fail_msg("no \"%s\": %.80s", row, line);
        tiny += percent < 0.05;
    }
    assert_true(tiny >= 2 && tiny < json_array_size(shares));
    json_decref(peak);
}

static void help_is_as_wide_as_the_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {"help", "help run", "help check", "help steps", "help attention"};
    for (size_t i = 0; i < 2 * sizeof commands / sizeof commands[0]; i++) {
        size_t columns = i % 2 == 0 ? 60 : 80;
        char command[100];
        snprintf(command, sizeof command, "TERM=dumb '" MT_PROGRAM "' %s", commands[i / 2]);
        char *narrow = on_terminal((unsigned short)columns, command);
        *strstr(narrow, "\nExamples:") = '\0'; /* which are to be copied as they are */
        for (char *line = strtok(narrow, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if (longest_line(line) > columns && (line[0] != ' ' || strspn(line, " ") >= 14) &&
                strchr(line + strspn(line, " "), ' ') != NULL) /* a sentence of more than a word */
                fail_msg("%s: %s", commands[i / 2], line);
        free(narrow);
    }
}

static void the_variable_columns_is_believed_on_a_terminal_only(void **state)
{
    (void)state;
    char *narrow = on_terminal(500, "COLUMNS=80 TERM=dumb '" MT_PROGRAM "' runs 2>note");
    assert_true(longest_line(narrow) <= 80);
    for (size_t i = 0; i < 4; i++) {
        static const char *const wrong[] = {"", "0", "-3", "many"};
        char command[100];
        snprintf(command, sizeof command, "COLUMNS=%s TERM=dumb '" MT_PROGRAM "' runs 2>note", wrong[i]);
        char *said = on_terminal(80, command);
        assert_string_equal(said, narrow);
        free(said);
    }
    free(narrow);
    assert_true(longest_line(shell("COLUMNS=80 \"$M\" runs")->out) > 80);
}

static void names_from_a_trace_do_not_reach_a_terminal_raw(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" " TINY "--device sim --name \"$(printf 'a\\033[31mb\\302\\233c\\377d')\"")->code, 0);
    assert_says(MEMTRACE("runs")->out, "a\\x1b[31mb\\xc2\\x9bc\\xffd");
    json_t *runs = json_of(MEMTRACE("runs --json"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 2);
    assert_string_equal(json_string_value(json_object_get(run, "name")), "a\033[31mb\302\233c\357\277\275d");
    json_decref(runs);
}

static void a_reader_who_leaves_is_no_failure_and_a_full_disk_is_one(void **state)
{
    (void)state;
    const struct said *said = shell("{ \"$M\" events; echo $? >&2; } | head -n 1");
    assert_string_equal(said->err, "0\n");
    assert_int_equal(count_lines(said->out), 1);
    assert_int_equal(shell("\"$M\" peak >/dev/full")->code, MT_NOT_WRITTEN);
    assert_int_equal(shell("\"$M\" peak >&-")->code, MT_NOT_WRITTEN);
}

/* Checks that every command has the same exit code of its own if it has an answer but can't write it. */
static void what_cannot_be_written_has_one_exit_code(void **state)
{
    (void)state;
    static const char *const commands[] = {"export blocks -o",
                                           "export --format nsys -o",
                                           "export --format torch -o",
                                           "timeline -o",
                                           "report -o",
                                           "check --max-allocated 1TiB --junit",
                                           "check --max-allocated 1TiB --summary"};
    static const char *const files[] = {"nowhere/answer", "/dev/full"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (size_t file = 0; file < sizeof files / sizeof files[0]; file++) {
            const struct said *said = shell("\"$M\" %s %s", commands[i], files[file]);
            if (said->code != MT_NOT_WRITTEN)
                fail_msg("%s %s: exit code %d: %s", commands[i], files[file], said->code, said->err);
        }
    static const char *const answers[] = {"peak --json",    "top",    "runs",          "events --csv",
                                          "events --json",  "report", "export blocks", "timeline -o -",
                                          "sql 'SELECT 1'", "help",   "help --man"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const struct said *said = shell("\"$M\" %s >/dev/full", answers[i]);
        if (said->code != MT_NOT_WRITTEN)
            fail_msg("%s: exit code %d: %s", answers[i], said->code, said->err);
    }
}

/* A run with its stdout closed must not write its answer into a file that got its number. */
static void a_closed_stdout_does_not_damage_the_trace(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" " TINY "--device sim --trace closed.db >&- 2>&-")->code, MT_NOT_WRITTEN);
    assert_string_equal(MEMTRACE("sql --trace closed.db --csv 'PRAGMA integrity_check'")->out, "integrity_check\nok\n");
}

/* Cuts off a run once it has events: its exit code is the signal's, and it says that it was interrupted or it does
 * not. */
static void cut_off(const char *signal, int number, bool says)
{
    const struct said *said = shell("rm -f cut.db; env --default-signal=INT \"$M\" run --device sim --model small"
                                    " --steps 100000 --trace cut.db & pid=$!; until \"$M\" sql --trace cut.db --csv"
                                    " 'SELECT count(*) > 1000 FROM event' 2>&1 | grep -qx 1; do sleep 0.05; done;"
                                    " kill -%s $pid; wait $pid",
                                    signal);
    assert_int_equal(said->code, 128 + number);
    assert_int_equal(strstr(said->err, "the trace has everything until now") != NULL, says);
    json_t *runs = json_of(MEMTRACE("runs --json --trace cut.db"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "interrupted");
    assert_true(integer_of(run, "events") > 1000);
    json_t *peak = json_of(MEMTRACE("peak --json --trace cut.db"));
    assert_true(integer_of(peak, "allocated_bytes") > 0);
    json_decref(peak);
    json_decref(runs);
}

static void ctrl_c_leaves_a_trace_that_can_be_read(void **state)
{
    (void)state;
    cut_off("INT", SIGINT, true);
    cut_off("TERM", SIGTERM, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(no_line_of_a_table_ends_in_blanks),
        TEST_WITH_TWO_RUNS(a_share_of_more_than_nothing_is_not_shown_as_nothing),
        TEST_WITH_TWO_RUNS(help_is_as_wide_as_the_terminal),
        TEST_WITH_TWO_RUNS(the_variable_columns_is_believed_on_a_terminal_only),
        TEST_WITH_TWO_RUNS(names_from_a_trace_do_not_reach_a_terminal_raw),
        TEST_WITH_TWO_RUNS(a_reader_who_leaves_is_no_failure_and_a_full_disk_is_one),
        TEST_WITH_TWO_RUNS(what_cannot_be_written_has_one_exit_code),
        TEST_WITH_TWO_RUNS(a_closed_stdout_does_not_damage_the_trace),
        TEST_WITH_TWO_RUNS(ctrl_c_leaves_a_trace_that_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
