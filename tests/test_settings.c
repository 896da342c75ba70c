/* The table of settings: every row can be parsed, formatted, stored, compared and repeated. */
#include "analysis/run_settings.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_VALUES = 8 };

/* Texts that a setting takes, and their count; of a text, spelled as it is formatted. */
static size_t values_of(mt_setting setting, const char *out[MOST_VALUES])
{
    static const char *const numbers[] = {"0", "1", "48", "9223372036854775807", NULL};
    static const char *const devices[] = {"auto", "sim:16GiB", NULL};
    static const char *const allocs[] = {
        "policy=tight", "policy=torch,max_split=off,roundup_power2_divisions=0,gc_threshold=0,expandable_segments=on",
        "policy=torch,max_split=67108864,roundup_power2_divisions=4,gc_threshold=0.7,expandable_segments=off", NULL};
    const struct mt_setting_entry *entry = &mt_setting_table[setting];
    const char *const *values = entry->choices;
    size_t count = 0;
    if (entry->kind == MT_SETTING_IS_INTEGER)
        values = numbers;
    if (setting == MT_SETTING_ALLOC)
        values = allocs;
    if (setting == MT_SETTING_DEVICE)
        values = devices;
    assert_non_null(values);
    for (; values[count] != NULL; count++)
        out[count] = values[count];
    if (setting == MT_SETTING_DATA)
        out[count++] = "/some/file";
    assert_true(count > 0 && count < MOST_VALUES);
    return count;
}

static void assert_formats_as(mt_setting setting, const struct mt_run_plan *plan, const char *expected)
{
    struct mt_text text = {0};
    mt_setting_format(setting, plan, &text);
    assert_string_equal(mt_text_get(&text), expected);
    mt_text_release(&text);
}

static void every_value_is_formatted_as_it_is_parsed(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const char *values[MOST_VALUES];
        size_t count = values_of(setting, values);
        for (size_t i = 0; i < count; i++) {
            struct mt_run_plan plan = mt_run_plan_usual(), again = plan;
            struct mt_text brief = {0};
            assert_int_equal(mt_setting_parse(setting, values[i], &plan), MT_OK);
            assert_formats_as(setting, &plan, values[i]);
            mt_setting_format_short(setting, &plan, &brief);
            assert_int_equal(mt_setting_parse(setting, mt_text_get(&brief), &again), MT_OK);
            assert_formats_as(setting, &again, values[i]);
            mt_text_release(&brief);
        }
    }
}

/* True of a setting that is stored together with another one's value: a model has sizes. */
static bool shares_its_field(mt_setting setting, mt_setting other)
{
    return setting == MT_SETTING_MODEL && mt_setting_table[other].is_size;
}

static void a_value_changes_no_other_setting(void **state)
{
    (void)state;
    const struct mt_run_plan usual = mt_run_plan_usual();
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const char *values[MOST_VALUES];
        size_t count = values_of(setting, values);
        for (size_t i = 0; i < count; i++) {
            struct mt_run_plan plan = usual;
            assert_int_equal(mt_setting_parse(setting, values[i], &plan), MT_OK);
            for (mt_setting other = 0; other < MT_SETTING_COUNT; other++)
                if (other != setting && !shares_its_field(setting, other) && !mt_setting_is_usual(other, &plan))
                    fail_msg("%s %s changes %s", mt_setting_table[setting].name, values[i],
                             mt_setting_table[other].name);
        }
    }
}

static void what_is_no_value_is_refused_with_the_name_and_the_choices(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const struct mt_setting_entry *entry = &mt_setting_table[setting];
        struct mt_run_plan plan = mt_run_plan_usual();
        if (entry->kind == MT_SETTING_IS_TEXT)
            continue;
        assert_int_equal(mt_setting_parse(setting, "no such value", &plan), MT_USAGE);
        assert_non_null(strstr(mt_last_error(), entry->name));
        assert_true(mt_setting_is_usual(setting, &plan));
        for (size_t i = 0; entry->choices != NULL && entry->choices[i] != NULL; i++)
            assert_non_null(strstr(mt_last_error(), entry->choices[i]));
    }
}

static void names_are_unique_and_found(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        assert_non_null(mt_setting_table[setting].name);
        assert_int_equal(mt_setting_find_name(mt_setting_table[setting].name), setting);
        assert_true(strspn(mt_setting_table[setting].name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
                    strlen(mt_setting_table[setting].name));
    }
    assert_int_equal(mt_setting_find_name("memtrace"), MT_SETTING_COUNT);
    assert_int_equal(mt_setting_find_name(""), MT_SETTING_COUNT);
}

/* Options come first, so that they can be counted from 0; a column has a title, a change a way to be made. */
static void rows_are_whole(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const struct mt_setting_entry *entry = &mt_setting_table[setting];
        bool has_choices = entry->kind == MT_SETTING_IS_CHOICE || entry->kind == MT_SETTING_IS_SWITCH;
        assert_true((entry->help != NULL) == (setting < MT_SETTING_DEVICE));
        assert_true(entry->help == NULL || has_choices || entry->value != NULL);
        assert_true(!has_choices || entry->choices != NULL);
        assert_true((entry->title != NULL) == (entry->rank[MT_ORDER_OF_REPORT] != 0));
        assert_true(entry->axis == MT_AXIS_NONE || entry->help != NULL);
        assert_true((entry->parse != NULL) == (entry->format != NULL));
        if (entry->former != NULL) {
            struct mt_run_plan plan = mt_run_plan_usual();
            assert_int_equal(mt_setting_parse(setting, entry->former, &plan), MT_OK);
        }
    }
}

static void no_two_settings_have_one_place_in_an_order(void **state)
{
    (void)state;
    for (mt_setting_order order = 0; order < MT_ORDER_COUNT; order++) {
        mt_setting settings[MT_SETTING_COUNT];
        size_t count = mt_settings_in_order(order, settings), ranked = 0;
        for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
            ranked += mt_setting_table[setting].rank[order] != 0;
        assert_int_equal(count, ranked);
        for (size_t i = 1; i < count; i++)
            assert_true(mt_setting_table[settings[i - 1]].rank[order] < mt_setting_table[settings[i]].rank[order]);
    }
}

/* Every setting of a run that has an option is in a command that repeats it. */
static void every_option_is_in_the_command(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        assert_true(mt_setting_table[setting].help == NULL || mt_setting_table[setting].rank[MT_ORDER_OF_COMMAND] != 0);
}

/* Draws some values of a run that can be made, NULL for those that are not given. */
static void draw(uint64_t seed, uint64_t *drawn, const char *given[MT_SETTING_COUNT])
{
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const char *values[MOST_VALUES];
        size_t count = values_of(setting, values);
        bool is_free = mt_setting_table[setting].kind != MT_SETTING_IS_INTEGER;
        size_t chosen = (size_t)(mt_random_unit(seed, (*drawn)++) * (double)(count + 1));
        given[setting] = is_free && chosen < count ? values[chosen] : NULL;
    }
}

/* Adds what a command tells of the plan to `told`, by setting, and the texts to `texts`. */
static void tell(const struct mt_run_plan *plan, struct mt_text texts[], const char *told[MT_SETTING_COUNT])
{
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        texts[setting] = (struct mt_text){0};
        told[setting] = NULL;
        if (mt_setting_table[setting].rank[MT_ORDER_OF_COMMAND] == 0 || !mt_setting_is_told(setting, plan))
            continue;
        mt_setting_format_short(setting, plan, &texts[setting]);
        told[setting] = mt_text_get(&texts[setting]);
    }
}

/* Kernels have no option of a setting, and casts that nothing needs are not told. */
static bool is_repeated(mt_setting setting, const struct mt_run_plan *plan)
{
    return setting != MT_SETTING_KERNELS && (setting != MT_SETTING_WEIGHT_CAST || plan->config.autocast);
}

static void what_a_command_tells_makes_the_same_plan(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), drawn = 0;
    size_t made = 0;
    for (int i = 0; i < 2000; i++) {
        const char *given[MT_SETTING_COUNT], *told[MT_SETTING_COUNT];
        struct mt_text texts[MT_SETTING_COUNT];
        struct mt_run_plan plan = mt_run_plan_usual(), again = plan;
        draw(seed, &drawn, given);
        if (mt_run_plan_set(&plan, given) != MT_OK)
            continue;
        made++;
        tell(&plan, texts, told);
        assert_int_equal(mt_run_plan_set(&again, told), MT_OK);
        for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
            struct mt_text value = {0};
            mt_setting_format(setting, &plan, &value);
            if (is_repeated(setting, &plan))
                assert_formats_as(setting, &again, mt_text_get(&value));
            mt_text_release(&value);
            mt_text_release(&texts[setting]);
        }
    }
    assert_true(made > 20);
}

static struct mt_device *open_device(void)
{
    struct mt_device *device;
    assert_int_equal(mt_device_open("sim:1GiB", &device), MT_OK);
    return device;
}

static void settings_of_a_plan_are_stored_by_name_with_the_version(void **state)
{
    (void)state;
    const struct mt_run_plan plan = mt_run_plan_usual();
    struct mt_device *device = open_device();
    struct mt_settings settings = mt_settings_of_plan(&plan, device);
    assert_int_equal(settings.count, MT_SETTING_COUNT + 1);
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        assert_string_not_equal(mt_settings_value(&settings, mt_setting_table[setting].name), "");
    assert_string_equal(mt_settings_value(&settings, "device"), device->name);
    assert_string_not_equal(mt_settings_value(&settings, "memtrace"), "");
    mt_settings_release(&settings);
    mt_device_close(device);
}

/* True if the scope takes the setting, by a run that has a second value of it. */
static bool is_compared(mt_setting setting, mt_settings_scope scope)
{
    const char *values[MOST_VALUES];
    struct mt_device *device = open_device();
    struct mt_run_plan plan = mt_run_plan_usual();
    struct mt_settings a = mt_settings_of_plan(&plan, device);
    struct mt_settings_difference difference;
    size_t count = values_of(setting, values);
    for (size_t i = 0; i < count && mt_setting_is_usual(setting, &plan); i++)
        assert_int_equal(mt_setting_parse(setting, values[i], &plan), MT_OK);
    struct mt_settings b = mt_settings_of_plan(&plan, device);
    mt_settings_compare(&a, &b, scope, &difference);
    assert_int_equal(difference.unknown_count, 0);
    mt_settings_release(&a);
    mt_settings_release(&b);
    mt_device_close(device);
    return difference.different_count > 0;
}

static void a_comparison_takes_the_settings_of_its_scope(void **state)
{
    (void)state;
    for (mt_setting setting = 0; setting < MT_SETTING_DEVICE; setting++) {
        mt_setting_effect effect = mt_setting_table[setting].effect;
        assert_true(is_compared(setting, MT_SETTINGS_ALL));
        assert_int_equal(is_compared(setting, MT_SETTINGS_OF_MEMORY),
                         effect == MT_EFFECT_ALL || effect == MT_EFFECT_OF_MEMORY);
        assert_int_equal(is_compared(setting, MT_SETTINGS_OF_STEPS),
                         effect == MT_EFFECT_ALL || effect == MT_EFFECT_OF_STEPS);
    }
}

static void a_run_from_before_a_setting_has_its_former_value(void **state)
{
    (void)state;
    struct mt_setting_row rows[] = {{"memtrace", "0.0.1"}, {"mode", "fwd"}};
    struct mt_settings ours = {rows, 2, false}, other = {rows + 1, 1, false};
    assert_string_equal(mt_settings_value(&ours, "attention"), "custom");
    assert_string_equal(mt_settings_value(&ours, "mode"), "fwd");
    assert_string_equal(mt_settings_value(&ours, "zero_grad"), "");
    assert_string_equal(mt_settings_value(&other, "attention"), "");
}

/* A change that is one changes something, and then is none any more; but precision has another value to go to, and a
 * sequence can be cut again. */
static void a_change_is_made_once(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), drawn = 0;
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_CHANGES, settings), made = 0;
    for (int i = 0; i < 2000; i++) {
        const char *given[MT_SETTING_COUNT];
        struct mt_run_plan plan = mt_run_plan_usual();
        draw(seed, &drawn, given);
        if (mt_run_plan_set(&plan, given) != MT_OK)
            continue;
        for (size_t change = 0; change < count; change++) {
            struct mt_run_plan changed = plan;
            if (!mt_setting_can_change(settings[change], &plan))
                continue;
            mt_setting_change(settings[change], &changed);
            made++;
            bool goes_on = settings[change] == MT_SETTING_AUTOCAST || settings[change] == MT_SETTING_SEQ;
            assert_true(goes_on || !mt_setting_can_change(settings[change], &changed));
        }
    }
    assert_true(made > 20);
}

/* Without autocast its end is nothing to change, and of what ends early already, too. */
static void an_end_of_autocast_is_changed_only_under_autocast(void **state)
{
    (void)state;
    struct mt_run_plan plan = mt_run_plan_usual();
    plan.config.autocast_end = MT_REGION_END_AFTER_BACKWARD;
    assert_false(mt_setting_can_change(MT_SETTING_AUTOCAST_END, &plan));
    plan.config.autocast = MT_AUTOCAST_BF16;
    assert_true(mt_setting_can_change(MT_SETTING_AUTOCAST_END, &plan));
    plan.config.autocast_end = MT_REGION_END_BEFORE_BACKWARD;
    assert_false(mt_setting_can_change(MT_SETTING_AUTOCAST_END, &plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_formatted_as_it_is_parsed),
        cmocka_unit_test(a_value_changes_no_other_setting),
        cmocka_unit_test(what_is_no_value_is_refused_with_the_name_and_the_choices),
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(no_two_settings_have_one_place_in_an_order),
        cmocka_unit_test(every_option_is_in_the_command),
        cmocka_unit_test(what_a_command_tells_makes_the_same_plan),
        cmocka_unit_test(settings_of_a_plan_are_stored_by_name_with_the_version),
        cmocka_unit_test(a_comparison_takes_the_settings_of_its_scope),
        cmocka_unit_test(a_run_from_before_a_setting_has_its_former_value),
        cmocka_unit_test(a_change_is_made_once),
        cmocka_unit_test(an_end_of_autocast_is_changed_only_under_autocast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
