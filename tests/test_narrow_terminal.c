/* Tests of output that is wider than the terminal: it is shortened, left out, or put one below the other. They run
 * many commands, each several times. */
#include "terminal.h"
#include "two_runs.h"

/* Returns what follows the sentence that some answers begin with. */
static const char *table_in(const char *text)
{
    const char *blank = strstr(text, "\n\n");
    return blank != NULL ? blank : text;
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
        snprintf(command, sizeof command, "TERM=dumb '" MT_PROGRAM "' %s", commands[i]);
        char *wide = on_terminal(500, command), *narrow = on_terminal((unsigned short)(width - 2), command);
        char *tiny = on_terminal(20, command);
        assert_string_equal(wide, whole);
        assert_string_equal(table_in(tiny), table_in(whole));
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
        on_terminal(60, "TERM=dumb \'" MT_PROGRAM
                        "\' sql \"SELECT started_at, '2026-01-01 is a day that is shortened' AS day FROM run\"");
    assert_non_null(strstr(dates, "2026-01-01 is a\xE2\x80\xA6"
                                  "at is shortened"));
    assert_non_null(strstr(dates, "Z  2026"));
    free(dates);
    char *numbers = on_terminal(60, "TERM=dumb \'" MT_PROGRAM
                                    "\' sql \"SELECT NULL AS a, 'first' AS b, printf('%060d', 1) AS c UNION ALL"
                                    " SELECT 12345678901234567, 'a text that is long', printf('%060d', 2)\"");
    assert_non_null(strstr(numbers, "12345678901234567"));
    assert_non_null(strstr(numbers, "00000000000000000000000000000000000000000000000000000000002"));
    free(numbers);
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
                 {"peak", 50, "time"},
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
        snprintf(command, sizeof command, "TERM=dumb '" MT_PROGRAM "' %s 2>note", cases[i].command);
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

/* Checks that tables side by side come one below the other on a narrow terminal. */
static void a_study_fits_a_narrow_terminal(void **state)
{
    (void)state;
    static const char study[] = "attention --device sim --no-trace --d 16,128 --seq 256,16384 --precision bf16";
    char command[200];
    char *whole = strdup(shell("\"$M\" %s", study)->out);
    snprintf(command, sizeof command, "TERM=dumb '" MT_PROGRAM "' %s 2>note", study);
    char *wide = on_terminal(500, command), *narrow = on_terminal(80, command), *narrower = on_terminal(60, command);
    assert_string_equal(wide, whole);
    assert_says(whole, "bf16: live before backward / peak\n");
    assert_says(narrow, "bf16: peak\n");
    if (longest_row(narrow) > 80 || longest_row(narrower) > 60)
        fail_msg("%s%s", narrow, narrower);
    assert_says(narrower, "28.44 GiB  16.44 GiB  12.19 GiB  353.16 MiB\n");
    free(whole);
    free(wide);
    free(narrow);
    free(narrower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(a_table_fits_a_narrow_terminal),
        TEST_WITH_TWO_RUNS(columns_are_left_out_where_there_is_no_room),
        TEST_WITH_TWO_RUNS(a_study_fits_a_narrow_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
