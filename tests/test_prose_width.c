/* Sentences on a terminal: lines break between words, at any width, and nothing is lost. */
#include "terminal.h"
#include "two_runs.h"

#include <ctype.h>

static const unsigned short widths[] = {40, 60, 80, 200};
enum { WIDTH_COUNT = sizeof widths / sizeof widths[0] };

static int set_up(void **state)
{
    assert_int_equal(set_up_two_runs(state), 0);
    assert_int_equal(shell("\"$M\" run --device sim:1GiB --model small --batch 16 --name full --trace full.db")->code,
                     MT_OUT_OF_MEMORY);
    return 0;
}

/* True if the line may be wider than the terminal: a row of a table, which has gaps, a command or an example that is to
 * be copied in one piece, or a single word. */
static bool may_be_wide(const char *line)
{
    const char *words = line + strspn(line, " ");
    if (isdigit((unsigned char)words[0]) && strncmp(words + 1, ". ", 2) == 0)
        words += 3;
    bool is_example = line[0] == ' ' && strchr("{\"", words[0]) != NULL;
    return strstr(words, "  ") != NULL || strchr(words, ' ') == NULL || strncmp(words, "memtrace ", 9) == 0 ||
           is_example;
}

static void expect_lines_to_fit(const char *command, const char *text, size_t width)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        char *one = strndup(line, strcspn(line, "\n"));
        if (longest_line(one) > width && !may_be_wide(one))
            fail_msg("%s at %zu: %s", command, width, one);
        free(one);
    }
}

static char *say_at(unsigned short width, const char *command)
{
    char whole[300];
    snprintf(whole, sizeof whole, "TERM=dumb '" MT_PROGRAM "' %s", command);
    return on_terminal(width, whole);
}

static void sentences_fit_every_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "peak",
        "diff first second",
        "used",
        "steps",
        "kernels",
        "advise --all",
        "fit --run first --device sim:8MiB",
        "oom --trace full.db",
        "check --max-allocated 1B --against first",
        ("run --no-trace --device sim --vocab 16 --d-model 4 --d-ff 8 --layers 1 "
         "--heads 1 --plan on --warmup 1"),
        "sweep --device sim --vocab 16 --d-model 4 --d-ff 8 --layers 1 --heads 1",
        "attention --device sim --no-trace --d 16 --seq 256,512 --precision bf16 --peer"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] * WIDTH_COUNT; i++) {
        const char *command = commands[i / WIDTH_COUNT];
        char *said = say_at(widths[i % WIDTH_COUNT], command);
        expect_lines_to_fit(command, said, widths[i % WIDTH_COUNT]);
        free(said);
    }
}

/* Leaves one blank between words. */
static void squeeze(char *text)
{
    char *end = text;
    for (const char *at = text; *at != '\0'; at++)
        if (!isspace((unsigned char)*at))
            *end++ = *at;
        else if (end > text && end[-1] != ' ')
            *end++ = ' ';
    *end = '\0';
}

static void help_loses_no_word_on_a_narrow_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {"help",       "help run",    "help export", "help check",
                                           "help sweep", "help import", "help oom",    "help record"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *whole = strdup(shell("\"$M\" %s", commands[i])->out);
        squeeze(whole);
        for (size_t w = 0; w < WIDTH_COUNT; w++) {
            char *said = say_at(widths[w], commands[i]);
            expect_lines_to_fit(commands[i], said, widths[w]);
            squeeze(said);
            assert_string_equal(said, whole);
            free(said);
        }
        free(whole);
    }
}

/* Notes go to stderr, which is wrapped by its own width, and in a file is one line. */
static void notes_break_between_words_on_a_terminal(void **state)
{
    (void)state;
    static const char *const commands[] = {"run --stps 3", "sql \"SELECT * FROM runs\"", "used --run 99",
                                           "export -o x.xyz"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] * WIDTH_COUNT; i++) {
        char command[200];
        const char *asked = commands[i / WIDTH_COUNT];
        char *whole = strdup(shell("\"$M\" %s", asked)->err);
        assert_int_equal(count_lines(whole), 1);
        snprintf(command, sizeof command, "%s 2>&1 >/dev/null", asked);
        char *said = say_at(widths[i % WIDTH_COUNT], command);
        expect_lines_to_fit(asked, said, widths[i % WIDTH_COUNT]);
        squeeze(said);
        squeeze(whole);
        assert_string_equal(said, whole);
        free(said);
        free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_fit_every_terminal),
        cmocka_unit_test(help_loses_no_word_on_a_narrow_terminal),
        cmocka_unit_test(notes_break_between_words_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
