/* The timeline page for unusual input: names that look like markup, numbers that do not fit, and files that can't be
 * written. */
#include "program.h"

#include "page_fixture.h"

enum { FEW_EVENTS = 3000 };

static const char *const hostile[] = {"</script><script>alert(1)</script>",
                                      "\"'><img src=x onerror=alert(2)>",
                                      "<!-- chunks -->\n",
                                      "&lt;b&gt;\\\\",
                                      "\xff\xfe broken",
                                      "line\nbreak\ttab"};
enum { HOSTILE_COUNT = sizeof hostile / sizeof hostile[0], LONG_NAME = 10000 };

static void record_hostile(const char *long_name)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    uint64_t sequence = 0;
    sink->emit(sink->context,
               &(struct mt_event){.sequence = sequence++, .kind = MT_EVENT_SEGMENT_MAP, .block_bytes = 1 << 20});
    for (size_t i = 0; i <= HOSTILE_COUNT; i++) {
        const char *name = i < HOSTILE_COUNT ? hostile[i] : long_name;
        mt_span_id span = sink->intern_span(sink->context, 0, name);
        mt_label_id label = sink->intern_label(sink->context, &(struct mt_label){.op = name, .span = span});
        sink->emit(sink->context, &(struct mt_event){.sequence = sequence++,
                                                     .kind = MT_EVENT_ALLOC,
                                                     .requested_bytes = 1,
                                                     .block_bytes = 512,
                                                     .offset = i * 512,
                                                     .label = label,
                                                     .span = span});
    }
    fixture_close(recorder, MT_RUN_DONE);
}

/* True if the page has the text, repaired to valid UTF-8. */
static bool has_text(const struct page *page, const char *text)
{
    const json_t *texts = json_object_get(page->description, "texts");
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (strcmp(page_text(page, "texts", i), text) == 0)
            return true;
    return false;
}

static void names_of_a_trace_never_stand_in_the_clear(void **state)
{
    (void)state;
    static char long_name[LONG_NAME + 1];
    memset(long_name, 'x', LONG_NAME);
    record_hostile("short");
    char *sql = sqlite3_mprintf("UPDATE label SET op = '%q' WHERE op = 'short';"
                                "UPDATE label SET category = '%q' WHERE op = '%q';"
                                "UPDATE run SET name = '%q', device = '%q'; UPDATE setting SET value = '%q'",
                                long_name, hostile[0], hostile[1], hostile[0], hostile[1], hostile[0]);
    edit_trace(path, sql);
    sqlite3_free(sql);
    struct mt_page_plan plan = plan_of(open_run(NULL));
    plan.sources[0].path = hostile[0];
    struct page page = page_of(&plan);
    assert_null(strstr(page.text, "alert("));
    assert_null(strstr(page.text, "onerror="));
    assert_null(strstr(page.text, "broken"));
    assert_null(strstr(page.text, "xxxxxxxxxxxxxxxx"));
    assert_null(strstr(page.text, "<!-- chunks -->"));
    for (size_t i = 0; i < HOSTILE_COUNT; i++)
        if (i != 4)
            assert_true(has_text(&page, hostile[i]));
    assert_true(has_text(&page, "\uFFFD\uFFFD broken"));
    assert_true(has_text(&page, long_name));
    assert_string_equal(page_text(&page, "categories", MT_CATEGORY_COUNT), hostile[0]);
    assert_string_equal(json_string_value(json_object_get(page_run(&page, 0), "trace")), hostile[0]);
    assert_string_equal(json_string_value(json_object_get(page_run(&page, 0), "name")), hostile[0]);
    page_release(&page);
}

/* Checks that the page is refused, with these words. */
static void expect_refused(const char *sql, const char *words)
{
    struct written written;
    fixture_record(path, 1, FEW_EVENTS);
    edit_trace(path, sql);
    const struct mt_page_plan plan = plan_of(open_run(NULL));
    if (write_plan(&plan, &written) != MT_BAD_TRACE)
        fail_msg("not refused: %s", sql);
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("\"%s\" is not in: %s", words, mt_last_error());
    free(written.text);
    mt_trace_close(trace);
    trace = NULL;
    unlink(path);
}

static void numbers_that_no_page_holds_are_refused(void **state)
{
    (void)state;
    expect_refused("UPDATE event SET offset = 9007199254740992 WHERE id = (SELECT max(id) FROM event WHERE kind = 2)",
                   "has 9007199254740992 as its offset, more than a browser counts to");
    expect_refused("UPDATE event SET requested_bytes = 281474976710657, block_bytes = 281474976710657"
                   " WHERE id = (SELECT max(id) FROM event WHERE kind = 2)",
                   "has 281474976710657 as its requested, more than six bytes hold");
    expect_refused("UPDATE segment SET mapped_event = 1 WHERE id = 2",
                   "segment 2 has 0 as its mapped, less than the one before it");
    expect_refused("UPDATE segment SET address = -4096 WHERE id = 1",
                   "segment 1 has 18446744073709547520 as its address");
}

static void more_categories_than_a_page_tells_apart_are_refused(void **state)
{
    (void)state;
    static const char crowd[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 255) "
                                "INSERT INTO label SELECT run, (SELECT max(id) FROM label) + i, 'c' || i, role, op, "
                                "span, phase, layer, dtype, shape, role_source FROM label, n WHERE id = 1";
    expect_refused(crowd, " categories, more than 255");
}

static void what_could_not_be_written_leaves_no_file(void **state)
{
    (void)state;
    void *folder = enter_folder("page");
    assert_int_equal(MEMTRACE("run --device sim --model small --steps 1")->code, 0);
    assert_int_equal(MEMTRACE("timeline -o good.html")->code, 0);
    assert_int_equal(shell("(trap '' XFSZ; ulimit -f 40; \"$M\" timeline -o cut.html)")->code, MT_NOT_WRITTEN);
    assert_int_equal(MEMTRACE("timeline --run 7 -o none.html")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("timeline -o /dev/full")->code, MT_NOT_WRITTEN);
    assert_string_equal(shell("ls *.html* | tr '\\n' ' '")->out, "good.html ");
    assert_int_equal(leave_folder(&folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_of_a_trace_never_stand_in_the_clear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_that_no_page_holds_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_categories_than_a_page_tells_apart_are_refused, set_up, tear_down),
        cmocka_unit_test(what_could_not_be_written_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
