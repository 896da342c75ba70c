/* Allocator settings: reading, writing back, and refusing. */
#include "alloc/alloc.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void empty_text_is_tight(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse("", &settings), MT_OK);
    assert_int_equal(settings.policy, MT_POLICY_TIGHT);
    assert_true(settings.max_split_bytes == UINT64_MAX);
    assert_int_equal(settings.roundup_power2_divisions, 0);
    assert_true(settings.gc_threshold == 0);
}

static void every_key_is_read(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    const char *text = "max_split=200MiB,gc_threshold=0.8,policy=torch,roundup_power2_divisions=4";
    assert_int_equal(mt_alloc_settings_parse(text, &settings), MT_OK);
    assert_int_equal(settings.policy, MT_POLICY_TORCH);
    assert_true(settings.max_split_bytes == UINT64_C(200) << 20);
    assert_int_equal(settings.roundup_power2_divisions, 4);
    assert_true(settings.gc_threshold == 0.8);
}

static void what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "",
        "policy=tight",
        "policy=torch",
        "policy=torch,max_split=1.5GiB",
        "policy=torch,expandable_segments=on",
        "policy=torch,gc_threshold=0.123456789012345",
        "policy=torch,max_split=20971521,roundup_power2_divisions=64,gc_threshold=1e-9"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        struct mt_alloc_settings first, second;
        struct mt_text text = {0}, again = {0};
        assert_int_equal(mt_alloc_settings_parse(spellings[i], &first), MT_OK);
        mt_alloc_settings_format(&first, &text);
        assert_int_equal(mt_alloc_settings_parse(text.data, &second), MT_OK);
        mt_alloc_settings_format(&second, &again);
        assert_string_equal(text.data, again.data);
        assert_true(first.max_split_bytes == second.max_split_bytes);
        assert_true(first.gc_threshold == second.gc_threshold);
        assert_int_equal(first.policy, second.policy);
        assert_int_equal(first.expandable_segments, second.expandable_segments);
        assert_int_equal(first.roundup_power2_divisions, second.roundup_power2_divisions);
        mt_text_release(&text);
        mt_text_release(&again);
    }
}

static void every_setting_of_the_policy_is_named(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    struct mt_text text = {0};
    assert_int_equal(mt_alloc_settings_parse("policy=torch,max_split=64MiB", &settings), MT_OK);
    mt_alloc_settings_format(&settings, &text);
    assert_string_equal(text.data, "policy=torch,max_split=67108864,roundup_power2_divisions=0,gc_threshold=0,"
                                   "expandable_segments=off");
    mt_text_release(&text);
}

static void wrong_settings_are_refused_and_leave_the_old_ones(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"policy=trch", "did you mean \"torch\""},
        {"max_spilt=64MiB", "did you mean \"max_split\""},
        {"policy", "key=value"},
        {"policy=torch,", "comma"},
        {"policy=torch,,gc_threshold=0.5", "key=value"},
        {"policy=torch,max_split=20MiB", "more than 20 MiB"},
        {"policy=torch,expandable_segments=yes", "on or off"},
        {"policy=tight,expandable_segments=on", "settings of policy=torch"},
        {"policy=torch,max_split=lots", "max_split"},
        {"policy=torch,roundup_power2_divisions=3", "power of two"},
        {"policy=torch,roundup_power2_divisions=128", "0 to 64"},
        {"policy=torch,gc_threshold=1", "below 1"},
        {"policy=torch,gc_threshold=nan", "gc_threshold"},
        {"policy=torch,gc_threshold=0.5x", "gc_threshold"},
        {"max_split=64MiB", "policy=torch"},
        {"policy=tight,gc_threshold=0.5", "policy=torch"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mt_alloc_settings settings = {.roundup_power2_divisions = 77};
        assert_int_equal(mt_alloc_settings_parse(wrong[i].text, &settings), MT_USAGE);
        assert_int_equal(settings.roundup_power2_divisions, 77);
        if (strstr(mt_last_error(), wrong[i].says) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i].text, mt_last_error(), wrong[i].says);
    }
}

static void endless_setting_is_refused(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse(text, &settings), MT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_text_is_tight),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(every_setting_of_the_policy_is_named),
        cmocka_unit_test(wrong_settings_are_refused_and_leave_the_old_ones),
        cmocka_unit_test(endless_setting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
