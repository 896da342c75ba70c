/* The gate on a run that leaks, whose name needs escapes, and what the files for pipelines say of it. */
#include "base/status.h"
#include "program.h"
#include "synthetic.h"

#include <ctype.h>

/* Makes a run of the model that runs in no time. */
static int set_up(void **state)
{
    *state = enter_folder("test_check_files");
    assert_int_equal(
        MEMTRACE("run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 --seq 8"
                 " --steps 4 --name large")
            ->code,
        0);
    return 0;
}

/* A run of `steps` steps that keeps the blocks of each. */
static void record_leaky(const char *path, uint64_t steps)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, path, "a <leaky> & \"odd\" | 'name'\x01", 1, 5), MT_OK);
    for (uint64_t step = 0; step < steps; step++) {
        synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN, .value = step});
        synthetic_take(&run);
        synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_END, .value = step});
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static void a_leak_fails_and_its_bytes_add_up(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("check --no-leaks")->code, MT_OK);
    record_leaky("leaky.db", 6);
    assert_int_equal(MEMTRACE("check --trace leaky.db --max-allocated 1TiB")->code, MT_OK);
    json_t *check = json_of_code(MEMTRACE("check --trace leaky.db --no-leaks --json"), MT_FAILED);
    json_t *leaks = json_object_get(check, "leaks"), *rows = json_object_get(leaks, "rows");
    json_int_t sum = 0;
    assert_int_equal(integer_of(leaks, "first_step"), 1);
    assert_int_equal(integer_of(leaks, "last_step"), 5);
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += integer_of(json_array_get(rows, i), "last_bytes") - integer_of(json_array_get(rows, i), "first_bytes");
    assert_true(sum > 0);
    assert_int_equal(integer_of(json_array_get(json_object_get(check, "criteria"), 1), "over_bytes"), sum);
    json_decref(check);
    record_leaky("short.db", 2);
    const struct said *said = MEMTRACE("check --trace short.db --no-leaks");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "has 2 full steps");
}

/* Returns the length of the XML name at the beginning of `text`. */
static size_t name_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || strchr("_-.:", text[length]) != NULL)
        if (text[length++] == '\0')
            return length - 1;
    return length;
}

/* Text up to one of `ends`: no bare "<", every "&" an entity, no control character. */
static const char *skip_text(const char *text, const char *ends)
{
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (; *text != '\0' && strchr(ends, *text) == NULL; text++) {
        bool known = *text != '&';
        for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
            known |= strncmp(text, entities[i], strlen(entities[i])) == 0;
        assert_true(known);
        assert_true(*text != '<' && ((unsigned char)*text >= 0x20 || *text == '\n'));
    }
    return text;
}

/* Attributes up to the end of the tag. */
static const char *skip_attributes(const char *text)
{
    while (*text == ' ') {
        size_t length = name_length(++text);
        assert_true(length > 0);
        assert_memory_equal(text + length, "=\"", 2);
        text = skip_text(text + length + 2, "\"");
        assert_int_equal(*text++, '"');
    }
    return text;
}

/* Walks the elements: every one is closed, in order. Returns how many `name` there were. */
static size_t count_elements(const char *text, const char *name)
{
    const char *open[8];
    size_t depth = 0, count = 0, elements = 0;
    text = strstr(text, "?>\n") + 3;
    while (*(text = skip_text(text, "<")) != '\0') {
        bool closes = text[1] == '/';
        text += closes ? 2 : 1;
        size_t length = name_length(text);
        assert_true(length > 0);
        if (closes) {
            assert_true(depth > 0);
            assert_memory_equal(open[--depth], text, length);
            text += length;
        } else {
            count += length == strlen(name) && memcmp(text, name, length) == 0;
            elements++;
            open[depth++] = text;
            assert_true(depth < 8);
            text = skip_attributes(text + length);
            depth -= *text == '/';
            text += *text == '/';
        }
        assert_int_equal(*text++, '>');
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 0);
    return count;
}

static void junit_is_xml_with_a_case_for_each_criterion(void **state)
{
    (void)state;
    record_leaky("names.db", 6);
    const struct said *said =
        MEMTRACE("check --trace names.db --no-leaks --max-allocated 1B --max-reserved 1TiB --junit junit.xml");
    assert_int_equal(said->code, MT_FAILED);
    said = shell("cat junit.xml");
    assert_int_equal(count_elements(said->out, "testcase"), 4);
    assert_int_equal(count_elements(said->out, "failure"), 2);
    assert_says(said->out, "tests=\"4\" failures=\"2\"");
    assert_says(said->out, "a &lt;leaky&gt; &amp; &quot;odd&quot; | &apos;name&apos;\\x01");
    assert_int_equal(MEMTRACE("check --max-allocated 1TiB --junit junit.xml")->code, MT_OK);
    said = shell("cat junit.xml");
    assert_says(said->out, "<testsuite name=\"memtrace check\" tests=\"2\"");
    assert_int_equal(count_elements(said->out, "testcase"), 2);
    assert_int_equal(count_elements(said->out, "failure"), 0);
    said = MEMTRACE("check --max-allocated 1TiB --junit nowhere/junit.xml");
    assert_int_equal(said->code, MT_NOT_WRITTEN);
    assert_says(said->err, "run 1 (large) passes, but --junit: can't write nowhere/junit.xml");
    said = MEMTRACE("check --max-allocated 1B --junit nowhere/junit.xml --summary nowhere/summary.md");
    assert_int_equal(said->code, MT_NOT_WRITTEN);
    assert_says(said->err, "run 1 (large) does not pass, and --junit: can't write nowhere/junit.xml");
}

static void the_summary_is_appended_and_escaped(void **state)
{
    (void)state;
    record_leaky("summary.db", 4);
    assert_int_equal(MEMTRACE("check --trace summary.db --max-allocated 1B --summary summary.md")->code, MT_FAILED);
    assert_int_equal(MEMTRACE("check --max-allocated 1TiB --summary summary.md")->code, MT_OK);
    const struct said *said = shell("cat summary.md");
    assert_says(said->out, "### memtrace check: run 1 (a \\<leaky\\> \\& \"odd\" \\| 'name'\\\\x01) fails 1 of 1 ");
    assert_says(said->out, "| **fails** | max-allocated |");
    assert_says(said->out, "### memtrace check: run 1 (large) passes 1 criterion");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_fails_and_its_bytes_add_up),
        cmocka_unit_test(junit_is_xml_with_a_case_for_each_criterion),
        cmocka_unit_test(the_summary_is_appended_and_escaped),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
