/* Checks the documents: a `console` block shows exactly the output of its commands, and every
 * option in it belongs to its command. A shown line "…" stands for omitted lines.
 * The commands of a document run in one folder, in order; they need no GPU. `tests` there is the project's. */
#include "base/text.h"
#include "program.h"

#include <ctype.h>
#include <glob.h>

/* README.md, CONTRIBUTING.md and docs/. */
static glob_t documents;

static int set_up(void **state)
{
    (void)state;
    return glob(MT_TEST_DATA "/../../*.md", 0, NULL, &documents) == 0 &&
                   glob(MT_TEST_DATA "/../../docs/*.md", GLOB_APPEND, NULL, &documents) == 0
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    globfree(&documents);
    return 0;
}

static const char *next_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end != NULL ? end + 1 : text + strlen(text);
}

/* True if both texts begin with the same line. */
static bool is_same_line(const char *a, const char *b)
{
    size_t length = (size_t)(next_line(a) - a);
    return length > 0 && length == (size_t)(next_line(b) - b) && strncmp(a, b, length) == 0;
}

static bool is_gap(const char *line)
{
    return strncmp(line, "…\n", strlen("…\n")) == 0;
}

/* True if the lines are equal, in order, except for lines of `printed` that a gap in `shown` stands for. */
static bool is_as_shown(const char *shown, const char *printed)
{
    const char *after_gap = NULL, *gap_ends = NULL;
    while (*printed != '\0') {
        if (is_gap(shown)) {
            after_gap = shown = next_line(shown);
            gap_ends = printed;
        } else if (is_same_line(shown, printed)) {
            shown = next_line(shown);
            printed = next_line(printed);
        } else if (after_gap != NULL) {
            shown = after_gap;
            printed = gap_ends = next_line(gap_ends);
        } else {
            return false;
        }
    }
    while (is_gap(shown))
        shown = next_line(shown);
    return *shown == '\0';
}

static void a_gap_stands_for_lines_and_nothing_else(void **state)
{
    (void)state;
    assert_true(is_as_shown("a\nb\n", "a\nb\n"));
    assert_false(is_as_shown("a\nb\n", "a\nb\nc\n"));
    assert_false(is_as_shown("a\nb\n", "a\n"));
    assert_false(is_as_shown("a\n", "ab\n"));
    assert_true(is_as_shown("…\nb\n…\n", "a\nb\nc\n"));
    assert_true(is_as_shown("a\n…\n", "a\n"));
    assert_true(is_as_shown("…\nb\nc\n", "b\nb\nc\n"));
    assert_false(is_as_shown("…\nb\nc\n", "b\nc\nb\n"));
    assert_false(is_as_shown("a\n…\nb\n", "a\nb \n"));
}

/* A command of a document, and the lines that are shown for it. */
struct example {
    const char *document;
    const char *command; /* NULL: none yet */
    struct mt_text shown;
};

/* Runs the command, unless there is none. A command without shown lines may print anything. Ends the example. */
static int run_example(struct example *example)
{
    if (example->command == NULL)
        return 0;
    const struct said *said = shell("PATH=$PWD:$PATH; %s", example->command);
    bool is_true = example->shown.length == 0 || is_as_shown(example->shown.data, said->out);
    if (said->code != 0 || !is_true) {
        print_error("%s: $ %s\n-- shows:\n%s-- prints, with exit code %d:\n%s%s", example->document, example->command,
                    mt_text_get(&example->shown), said->code, said->out, said->err);
        fail();
    }
    example->command = NULL;
    example->shown.length = 0;
    return 1;
}

/* Handles a line of a `console` block: a command, which ends the one before it, or a shown line. Returns the number of
 * commands that ran. */
static int take_line(struct example *example, const char *line)
{
    if (strncmp(line, "$ ", 2) != 0) {
        mt_text_add(&example->shown, "%s\n", line);
        return 0;
    }
    int count = run_example(example);
    example->command = line + 2;
    return count;
}

/* Runs the commands of the document and returns how many there are. `text` is cut into lines. */
static int run_examples(const char *document, char *text)
{
    struct example example = {.document = document};
    bool is_block = false, is_console = false;
    int count = 0;
    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        if (strncmp(line, "```", 3) == 0) {
            count += run_example(&example);
            is_block = !is_block;
            is_console = is_block && strcmp(line, "```console") == 0;
            continue;
        }
        if (is_console)
            count += take_line(&example, line);
    }
    mt_text_release(&example.shown);
    return count;
}

static void what_a_document_shows_is_what_is_printed(void **state)
{
    (void)state;
    static char text[OUTPUT_BYTES];
    int count = 0;
    for (size_t i = 0; i < documents.gl_pathc; i++) {
        void *folder = enter_folder("test_docs");
        read_file(documents.gl_pathv[i], text);
        assert_int_equal(shell("ln -s \"$M\" memtrace && ln -s '" MT_TEST_DATA "/..' tests")->code, 0);
        count += run_examples(documents.gl_pathv[i], text);
        leave_folder(&folder);
    }
    assert_true(count >= 6);
}

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '-' || letter == '_';
}

static bool takes(const json_t *command, const char *option)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(command, "options"), i, entry)
    {
        if (strcmp(text_of(entry, "name"), option) == 0)
            return true;
    }
    return false;
}

/* Returns the command that the text begins with; NULL: none. */
static const json_t *command_at(const json_t *table, const char *text)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(table, "rows"), i, entry)
    {
        const char *name = text_of(entry, "name");
        if (strncmp(text, name, strlen(name)) == 0 && !is_word(text[strlen(name)]))
            return entry;
    }
    return NULL;
}

/* Checks the options between the command's name and its end, and returns their number. A command ends at an unescaped
 * end of line, at a pipe or another separator, at `--`, and at a script, whose options are its own. */
static int check_options(const char *document, const json_t *command, const char *text)
{
    int count = 0;
    for (; *text != '\0' && strchr("`|#;&>\n", *text) == NULL; text++) {
        if (strncmp(text, "\\\n", 2) == 0)
            text++;
        if (strncmp(text, ".py ", 4) == 0)
            return count;
        if (strncmp(text, " --", 3) != 0)
            continue;
        char option[64] = "";
        for (size_t length = 0; is_word(text[1 + length]) && length + 1 < sizeof option; length++)
            option[length] = text[1 + length];
        if (strcmp(option, "--") == 0)
            return count;
        if (!takes(command, option))
            fail_msg("%s: memtrace %s has no %s", document, text_of(command, "name"), option);
        count++;
    }
    return count;
}

static void every_option_that_is_named_is_one(void **state)
{
    (void)state;
    static char text[OUTPUT_BYTES];
    static const char program[] = "memtrace ";
    void *folder = enter_folder("test_docs");
    json_t *table = json_of(MEMTRACE("help --json"));
    int count = 0;
    for (size_t i = 0; i < documents.gl_pathc; i++) {
        read_file(documents.gl_pathv[i], text);
        for (const char *at = text; (at = strstr(at, program)) != NULL;) {
            at += strlen(program);
            const json_t *command = command_at(table, at);
            if (command != NULL)
                count += check_options(documents.gl_pathv[i], command, at);
        }
    }
    assert_true(count >= 50);
    json_decref(table);
    leave_folder(&folder);
}

/* Returns the figure as in the README: with three digits, or for a relative figure in percent with two. */
static const char *figure_of(const char *measured, const char *unit, char text[32])
{
    double value = strtod(measured, NULL);
    bool is_relative = strcmp(unit, "relative") == 0;
    snprintf(text, 32, is_relative ? " %.2g " : " %.3g", is_relative ? 100 * value : value);
    return text;
}

static void targets_that_are_missed_stand_in_the_readme(void **state)
{
    (void)state;
    static char readme[OUTPUT_BYTES], rows[OUTPUT_BYTES];
    int missed = 0;
    read_file(MT_TEST_DATA "/../../README.md", readme);
    read_file(MT_TEST_DATA "/../../docs/data/h200.tsv", rows);
    const char *table = strstr(readme, "Targets that are not met:");
    assert_non_null(table);
    for (char *line = strtok(rows, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        enum { WHAT = 2, UNIT, MEASURED, MET = 8, COLUMNS };
        char *columns[COLUMNS] = {NULL}, figure[32];
        for (int i = 0; i < COLUMNS && line != NULL; i++)
            columns[i] = strsep(&line, "\t");
        if (columns[MET] == NULL || strcmp(columns[MET], "no") != 0)
            continue;
        if (strstr(table, figure_of(columns[MEASURED], columns[UNIT], figure)) == NULL)
            fail_msg("%s: no%s in the README", columns[WHAT], figure);
        missed++;
    }
    assert_true(missed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_stands_for_lines_and_nothing_else),
        cmocka_unit_test(what_a_document_shows_is_what_is_printed),
        cmocka_unit_test(every_option_that_is_named_is_one),
        cmocka_unit_test(targets_that_are_missed_stand_in_the_readme),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
