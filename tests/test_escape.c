/* Names as a trace may hold them, in each form of output: none of them acts on whoever reads it. */
#include "answer/escape.h"
#include "program.h"

static void check(void (*add)(struct mt_text *out, const char *text), const char *text, const char *expected)
{
    struct mt_text out = {0};
    add(&out, text);
    assert_string_equal(mt_text_get(&out), expected);
    mt_text_release(&out);
}

static void what_nobody_sees_is_shown_as_its_bytes(void **state)
{
    (void)state;
    check(mt_text_add_visible, "model.layers.7 \u00e9\u4e2d\U0001f600", "model.layers.7 \u00e9\u4e2d\U0001f600");
    check(mt_text_add_visible, "a\x1b[31m\n\x7f", "a\\x1b[31m\\x0a\\x7f");
    check(mt_text_add_visible, "\xc2\x9b\xff", "\\xc2\\x9b\\xff");
    check(mt_text_add_visible, "\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa9",
          "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c\\xe2\\x80\\xa9");
    check(mt_text_add_visible, "\xe2\x80\x94", "\xe2\x80\x94"); /* a dash, between them */
}

static void what_xml_refuses_is_shown_as_its_bytes(void **state)
{
    (void)state;
    check(mt_text_add_markup, "\xef\xbf\xbf\xef\xbf\xbe\xed\xa0\x80\xef\xbf\xbd",
          "\\xef\\xbf\\xbf\\xef\\xbf\\xbe\\xed\\xa0\\x80\xef\xbf\xbd");
    check(mt_text_add_markup, "<a href='x'>&", "&lt;a href=&apos;x&apos;&gt;&amp;");
}

static void markdown_has_no_links_and_mentions_of_its_own(void **state)
{
    (void)state;
    check(mt_text_add_markdown, "@someone #12 layers.0.q_proj", "\\@someone \\#12 layers.0.q_proj");
    check(mt_text_add_markdown, "see https://x.y or WWW.x.y: [a](b)", "see https\\://x.y or WWW\\.x.y: \\[a\\](b)");
}

static void a_spreadsheet_computes_nothing(void **state)
{
    (void)state;
    check(mt_text_add_csv, "=cmd()", "\"'=cmd()\"");
    check(mt_text_add_csv, "@SUM(A1)", "\"'@SUM(A1)\"");
    check(mt_text_add_csv, "-1+\"x\"", "\"'-1+\"\"x\"\"\"");
    check(mt_text_add_csv, "-12.5e3", "-12.5e3");
    check(mt_text_add_csv, "a,b", "\"a,b\"");
    check(mt_text_add_csv, "", "");
}

/* A line that a service for continuous integration takes for a command, an escape, and an override of the direction. */
#define NAME "\"$(printf 'x\\n::error::passes\\033[31m\\342\\200\\256')\""

static void assert_harmless(const char *command, const char *text)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line + strspn(line, " "), "::", 2) == 0)
            fail_msg("%s prints a line that the name made", command);
    if (strchr(text, '\033') != NULL || strstr(text, "\xe2\x80\xae") != NULL)
        fail_msg("%s prints what the name has as it is", command);
}

static int enter(void **state)
{
    *state = enter_folder("escape");
    return 0;
}

static void the_name_of_a_run_acts_on_no_reader_of_a_file(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "run --device sim:1GiB --model small --seq 64 --steps 1 --name " NAME,
        "runs",
        "peak",
        "top 3",
        "categories",
        "used",
        "steps",
        "advise",
        "oom",
        "diff 1 1",
        "events --csv",
        "check --max-allocated 8GiB",
        "check --max-allocated 1KiB --summary /dev/stdout --junit /dev/stderr",
        "peak --run none",
        "runs --run " NAME,
        "sql \"SELECT name, '=1+1' AS x FROM run\"",
        "sql --csv \"SELECT name FROM run\"",
        "watch",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct said *said = shell("\"$M\" %s", commands[i]);
        assert_harmless(commands[i], said->out);
        assert_harmless(commands[i], said->err);
        if (said->out[0] == '\0' && said->err[0] == '\0')
            fail_msg("%s says nothing", commands[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_sees_is_shown_as_its_bytes),
        cmocka_unit_test(what_xml_refuses_is_shown_as_its_bytes),
        cmocka_unit_test(markdown_has_no_links_and_mentions_of_its_own),
        cmocka_unit_test(a_spreadsheet_computes_nothing),
        cmocka_unit_test_setup_teardown(the_name_of_a_run_acts_on_no_reader_of_a_file, enter, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
