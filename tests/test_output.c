/* What goes to a terminal, a pipe, a full disk or nowhere; and a run that is cut off. */
#include "two_runs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

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

/* What the command prints on a terminal of so many columns; free(). */
static char *on_terminal(unsigned short columns, const char *command)
{
    const struct winsize size = {.ws_row = 50, .ws_col = columns};
    char *said = NULL, byte;
    size_t bytes;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(side >= 0 && ioctl(side, TIOCSWINSZ, &size) == 0);
    pid_t child = fork();
    if (child == 0) {
        unsetenv("COLUMNS");
        dup2(side, STDOUT_FILENO);
        close(terminal);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    close(side);
    FILE *copy = open_memstream(&said, &bytes);
    while (read(terminal, &byte, 1) == 1) /* fails once nobody has the other side open */
        if (byte != '\r')
            putc(byte, copy);
    fclose(copy);
    close(terminal);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return said;
}

static size_t longest_line(const char *text)
{
    size_t longest = 0, width = 0;
    for (; *text != '\0'; text++) {
        width = *text == '\n' ? 0 : width + (((unsigned char)*text & 0xC0) != 0x80);
        longest = width > longest ? width : longest;
    }
    return longest;
}

/* Text is shortened and numbers are not; where nothing helps, and in a pipe, all is there. */
static void a_table_fits_a_narrow_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {"peak", "categories", "top --each", "events --step 0",
                                           "sql \"SELECT 'a text that is long' AS a, printf('%020d', 1) AS b\""};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char command[200];
        char *whole = strdup(shell("\"$M\" %s", commands[i])->out);
        size_t width = longest_line(whole);
        snprintf(command, sizeof command, "TERM=dumb " MT_PROGRAM " %s", commands[i]);
        char *wide = on_terminal(500, command), *narrow = on_terminal((unsigned short)(width - 2), command);
        char *tiny = on_terminal(20, command);
        assert_string_equal(wide, whole);
        assert_string_equal(tiny, whole);
        if (i != 1) /* which is hardly more than numbers */
            assert_true(longest_line(narrow) <= width - 2);
        if (i == 2 || i == 4) { /* the others leave columns out before */
            assert_int_equal(longest_line(narrow), width - 2);
            assert_non_null(strstr(narrow, "\xE2\x80\xA6"));
        }
        free(whole);
        free(wide);
        free(narrow);
        free(tiny);
    }
    char *dates =
        on_terminal(60, "TERM=dumb " MT_PROGRAM
                        " sql \"SELECT started_at, '2026-01-01 is a day that is shortened' AS day FROM run\"");
    assert_non_null(strstr(dates, "2026-01-01 is a\xE2\x80\xA6"
                                  "at is shortened"));
    assert_non_null(strstr(dates, "Z  2026"));
    free(dates);
    char *numbers = on_terminal(60, "TERM=dumb " MT_PROGRAM
                                    " sql \"SELECT NULL AS a, 'first' AS b, printf('%060d', 1) AS c UNION ALL"
                                    " SELECT 12345678901234567, 'a text that is long', printf('%060d', 2)\"");
    assert_non_null(strstr(numbers, "12345678901234567"));
    assert_non_null(strstr(numbers, "00000000000000000000000000000000000000000000000000000000002"));
    free(numbers);
}

/* As the timeline's page says them, too (tests/viewer). */
static void a_share_of_more_than_nothing_is_not_shown_as_nothing(void **state)
{
    (void)state;
    char row[100];
    size_t tiny = 0;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 3 --trace shares.db")->code, 0);
    json_t *peak = json_of(MEMTRACE("peak --json --trace shares.db")), *shares = json_object_get(peak, "by_category");
    const struct said *said = MEMTRACE("peak --trace shares.db");
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const json_t *share = json_array_get(shares, i);
        double percent =
            100 * (double)integer_of(share, "allocated_bytes") / (double)integer_of(peak, "allocated_bytes");
        snprintf(row, sizeof row, percent < 0.05 ? "B   <0.1 %%" : "B %6.1f %%", percent);
        const char *line = strstr(said->out, json_string_value(json_object_get(share, "category")));
        assert_non_null(line);
        if (memmem(line, strcspn(line, "\n"), row, strlen(row)) == NULL)
            fail_msg("no \"%s\": %.80s", row, line);
        tiny += percent < 0.05;
    }
    assert_true(tiny >= 2 && tiny < json_array_size(shares));
    json_decref(peak);
}

/* The longest line of a table or of a row like one: of a sentence there are no two blanks inside. */
static size_t longest_row(const char *text)
{
    size_t longest = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        char *row = strndup(line, strcspn(line, "\n"));
        size_t width = strstr(row + strspn(row, " "), "  ") != NULL ? longest_line(row) : 0;
        longest = width > longest ? width : longest;
        free(row);
    }
    return longest;
}

/* Of a table with columns that can be spared, some are left out, and a note says which. */
static void columns_are_left_out_where_there_is_no_room(void **state)
{
    (void)state;
    static const char of_a_sweep[] = "sweep --device sim --model small --seq 8,16 --trace swept.db";
    static const struct {
        const char *command;
        unsigned short columns;
        const char *spared;
    } cases[] = {{"runs", 80, "events"},
                 {"steps", 80, "warm-up"},
                 {"steps --full", 80, "warm-up"},
                 {"top", 80, "role"},
                 {"top --each", 80, "role"},
                 {"top --at peak", 80, "role"},
                 {"diff 1 4", 80, "blocks A, blocks B"},
                 {"advise", 80, "blocks"},
                 {"runs", 60, "events"},
                 {"steps", 60, "name, device"},
                 {"steps --full", 60, "precision"},
                 {"peak", 60, "blocks"},
                 {"events --step 0", 60, "phase"},
                 {"diff 1 4", 60, "blocks A, blocks B"},
                 {"advise", 60, "blocks"},
                 {"oom --run 3", 60, "size"},
                 {of_a_sweep, 60, "model, mode"}};
    assert_int_equal(MEMTRACE("run --device sim:24GiB --model 2.7B")->code, MT_OUT_OF_MEMORY);
    assert_int_equal(shell("\"$M\" run --device sim --model 2.7B --name \"a name that is long\"")->code, 0);
    assert_int_equal(shell("\"$M\" %s", of_a_sweep)->code, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[200], room[100];
        char *whole = strdup(shell("\"$M\" %s", cases[i].command)->out);
        snprintf(command, sizeof command, "TERM=dumb " MT_PROGRAM " %s 2>note", cases[i].command);
        char *wide = on_terminal(500, command);
        assert_string_equal(wide, whole);
        assert_null(strstr(shell("cat note")->out, "no room"));
        char *narrow = on_terminal(cases[i].columns, command);
        if (longest_row(narrow) > cases[i].columns)
            fail_msg("%s: %s", cases[i].command, narrow);
        snprintf(room, sizeof room, "memtrace: no room in %d columns for ", cases[i].columns);
        assert_says(shell("cat note")->out, room);
        assert_says(shell("cat note")->out, cases[i].spared);
        assert_says(shell("cat note")->out, " (--json has all)\n");
        free(whole);
        free(wide);
        free(narrow);
    }
}

/* What stands side by side comes one below the other. */
static void a_study_fits_a_narrow_terminal(void **state)
{
    (void)state;
    static const char study[] = "attention --device sim --no-trace --d 16,128 --seq 256,16384 --precision bf16";
    char command[200];
    char *whole = strdup(shell("\"$M\" %s", study)->out);
    snprintf(command, sizeof command, "TERM=dumb " MT_PROGRAM " %s 2>note", study);
    char *wide = on_terminal(500, command), *narrow = on_terminal(80, command), *narrower = on_terminal(60, command);
    assert_string_equal(wide, whole);
    assert_says(whole, "bf16: live before backward / peak\n");
    assert_says(narrow, "bf16: peak\n");
    if (longest_row(narrow) > 80 || longest_row(narrower) > 60)
        fail_msg("%s%s", narrow, narrower);
    assert_says(narrower, "28.44 GiB  12.50 GiB  12.19 GiB  353.16 MiB\n");
    free(whole);
    free(wide);
    free(narrow);
    free(narrower);
}

static void help_is_as_wide_as_the_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {"help", "help run", "help check", "help steps", "help attention"};
    for (size_t i = 0; i < 2 * sizeof commands / sizeof commands[0]; i++) {
        size_t columns = i % 2 == 0 ? 60 : 80;
        char command[100];
        snprintf(command, sizeof command, "TERM=dumb " MT_PROGRAM " %s", commands[i / 2]);
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
    char *narrow = on_terminal(500, "COLUMNS=80 TERM=dumb " MT_PROGRAM " runs 2>note");
    assert_true(longest_line(narrow) <= 80);
    for (size_t i = 0; i < 4; i++) {
        static const char *const wrong[] = {"", "0", "-3", "many"};
        char command[100];
        snprintf(command, sizeof command, "COLUMNS=%s TERM=dumb " MT_PROGRAM " runs 2>note", wrong[i]);
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

/* What was asked is known, but nowhere to read: that has a code of its own, whoever writes. */
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

/* Cuts off a run once it has events: its exit code is the signal's, and it says that it was interrupted or it does not. */
static void cut_off(const char *signal, int number, bool says)
{
    const struct said *said = shell("rm -f cut.db; env --default-signal=INT \"$M\" run --device sim --model small"
                                    " --steps 100000 --trace cut.db & pid=$!; until \"$M\" sql --trace cut.db --csv"
                                    " 'SELECT count(*) > 1000 FROM event' 2>&1 | grep -qx 1; do sleep 0.05; done;"
                                    " kill -%s $pid; wait $pid",
                                    signal);
    assert_int_equal(said->code, 128 + number);
    assert_int_equal(strstr(said->err, "what was traced by then can be asked for") != NULL, says);
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
        TEST_WITH_TWO_RUNS(a_table_fits_a_narrow_terminal),
        TEST_WITH_TWO_RUNS(a_share_of_more_than_nothing_is_not_shown_as_nothing),
        TEST_WITH_TWO_RUNS(columns_are_left_out_where_there_is_no_room),
        TEST_WITH_TWO_RUNS(a_study_fits_a_narrow_terminal),
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
