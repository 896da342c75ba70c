/* The reader of TOML: what it reads, and that it refuses the rest, by line. */
#include "base/toml_file.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Writes what is read in one line: "[a] s=x n=3 b=true l=p|q ". */
static mt_status write_table(void *context, const char *name)
{
    mt_text_add(context, "[%s] ", name);
    return MT_OK;
}

static mt_status write_value(void *context, const char *key, const struct mt_toml_value *value)
{
    if (strcmp(key, "refused") == 0)
        return mt_fail(MT_USAGE, "not this");
    mt_text_add(context, "%s=", key);
    for (size_t i = 0; i < value->count; i++)
        mt_text_add(context, "%s%s", i > 0 ? "|" : "", value->texts[i]);
    if (value->kind == MT_TOML_INTEGER)
        mt_text_add(context, "%" PRId64, value->number);
    if (value->kind == MT_TOML_BOOLEAN)
        mt_text_add(context, value->number != 0 ? "true" : "false");
    mt_text_add(context, " ");
    return MT_OK;
}

static mt_status read(const char *text, struct mt_text *out)
{
    const struct mt_toml_taker taker = {out, write_table, write_value};
    return mt_toml_parse("a.toml", text, &taker);
}

static void tables_and_values_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found;
    } cases[] = {
        {"", ""},
        {"# only a comment", ""},
        {"a = \"x\"", "a=x "},
        {"\n\n[one]\r\na = 'C:\\x' # literal\r\n", "[one] a=C:\\x "},
        {"[ one ]\nA-b_1=\"\\\"\\\\\\t\"\nn = -12\nz=0\nt = true\nf = false",
         "[one] A-b_1=\"\\\t n=-12 z=0 t=true f=false "},
        {"l = []\nm = [ 'a', \"b\" ]\n", "l= m=a|b "},
        {"l = [ # why\n  'a', # first\n\n  'b',\n]\nk = 'c'", "l=a|b k=c "},
        {"e = \"\"", "e= "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_text out = {0};
        assert_int_equal(read(cases[i].text, &out), MT_OK);
        assert_string_equal(mt_text_get(&out), cases[i].found);
        mt_text_release(&out);
    }
}

static void what_is_not_supported_is_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"a", "line 1: a key is followed by ="},
        {"\na = ", "line 2: \"\" is no value"},
        {"a = 1\na.b = 2", "line 2: a key with dots is not supported"},
        {"\"a\" = 1", "line 1: a key is letters, digits"},
        {"[a.b]", "line 1: a table's name with dots"},
        {"[[a]]", "line 1: lists of tables"},
        {"[a", "line 1: a table's name ends with ]"},
        {"[a] b = 1", "line 1: unexpected \"b = 1\""},
        {"a = 'x' y", "line 1: unexpected \"y\""},
        {"a = \"x", "line 1: a string has no closing \""},
        {"a = \"x\n\"", "line 1: a string has no closing \""},
        {"a = \"\"\"x\"\"\"", "line 1: strings of several lines"},
        {"a = \"\\u0041\"", "line 1: \\u in a string"},
        {"a = \"\x01\"", "line 1: a string has a control character"},
        {"a = 1.5", "line 1: \"1.5\" is no value"},
        {"a = 01", "line 1: \"01\" is no value"},
        {"a = 1979-05-27", "line 1: \"1979-05-27\" is no value"},
        {"a = {b = 1}", "line 1: \"{b\" is no value"},
        {"a = 99999999999999999999", "line 1: "},
        {"\n\nl = ['a'\n'b']", "line 3: a list has strings"},
        {"l = [1]", "line 1: a list has strings"},
        {"l = ['a'", "line 1: a list has strings"},
        {"b = 1\nrefused = 1", "line 2: not this"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_text out = {0};
        assert_int_equal(read(cases[i].text, &out), MT_USAGE);
        if (strstr(mt_last_error(), cases[i].error) == NULL)
            fail_msg("%s: %s", cases[i].text, mt_last_error());
        assert_memory_equal(mt_last_error(), "a.toml: line ", strlen("a.toml: line "));
        mt_text_release(&out);
    }
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    const struct mt_toml_taker taker = {NULL, write_table, write_value};
    assert_int_equal(mt_toml_read("/no/such.toml", &taker), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "/no/such.toml can't be read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_and_values_are_read),
        cmocka_unit_test(what_is_not_supported_is_refused_by_line),
        cmocka_unit_test(a_file_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
