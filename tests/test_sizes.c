/* Sizes, percentages and numbers as people write and read them, words that are nearly known, and text that grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "seed.h"

#include <stdio.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void bytes_are_shown_in_the_largest_unit_that_keeps_a_whole(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {20 * MIB, "20.00 MiB"},
        {GIB + GIB / 2, "1.50 GiB"},
        {MIB - 1, "1.00 MiB"},
        {143771 * MIB, "140.40 GiB"},
        {UINT64_MAX, "16.00 EiB"},
    };
    char text[MT_BYTES_TEXT];
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(mt_format_bytes(cases[i].bytes, text), cases[i].text);
}

static void a_difference_shows_its_sign(void **state)
{
    (void)state;
    char text[MT_BYTES_TEXT];
    assert_string_equal(mt_format_difference(0, text), "0 B");
    assert_string_equal(mt_format_difference((int64_t)(GIB + GIB / 2), text), "+1.50 GiB");
    assert_string_equal(mt_format_difference(-(int64_t)(20 * MIB), text), "-20.00 MiB");
    assert_string_equal(mt_format_difference(INT64_MIN, text), "-8.00 EiB");
}

static void sizes_are_read_in_every_usual_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"512", 512},
        {"512B", 512},
        {"64k", 64 * KIB},
        {"64 KiB", 64 * KIB},
        {"24GiB", 24 * GIB},
        {"24gb", 24 * GIB},
        {"1.5 GB", GIB * 3 / 2},
        {"2T", 2048 * GIB},
        {"0", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t bytes = 1;
        assert_int_equal(mt_parse_bytes(cases[i].text, &bytes), MT_OK);
        assert_true(bytes == cases[i].bytes);
    }
}

static void what_is_no_size_is_refused_and_quoted(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "GiB", "-1",    "+1",    "24XB", "24GiBs", "1e400",
                                        "nan", "inf", "16EiB", "9e18T", " 5",   "0x10",   "0X1p3GiB"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        uint64_t bytes = 77;
        assert_int_equal(mt_parse_bytes(texts[i], &bytes), MT_USAGE);
        assert_true(bytes == 77);
        char quoted[32];
        snprintf(quoted, sizeof quoted, "\"%s\"", texts[i]);
        assert_non_null(strstr(mt_last_error(), quoted));
    }
}

static void a_percentage_reads_with_and_without_its_sign(void **state)
{
    (void)state;
    static const char *const good[] = {"1%", "1", "1 %"}, *const bad[] = {"", "-1%", "1%%", "%", "one", "1e7%", "nan"};
    for (size_t i = 0; i < COUNT(good); i++) {
        double percent = 0;
        assert_int_equal(mt_parse_percent(good[i], &percent), MT_OK);
        assert_true(percent == 1);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        double percent = 77;
        assert_int_equal(mt_parse_percent(bad[i], &percent), MT_USAGE);
        assert_true(percent == 77);
    }
}

/* Whole multiples of a unit keep their value through both directions. */
static void a_shown_size_reads_back_as_itself(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t bytes = (mt_splitmix64(seed + i) % 1023 + 1) << (i % 4 * 10), back;
        char text[MT_BYTES_TEXT];
        assert_int_equal(mt_parse_bytes(mt_format_bytes(bytes, text), &back), MT_OK);
        assert_true(back == bytes);
    }
}

static void integers_are_whole_and_in_range(void **state)
{
    (void)state;
    int64_t value = 99;
    assert_int_equal(mt_parse_integer("--batch", "1", 1, 8, &value), MT_OK);
    assert_int_equal(value, 1);
    assert_int_equal(mt_parse_integer("--batch", "8", 1, 8, &value), MT_OK);
    assert_int_equal(value, 8);
    static const char *const wrong[] = {"0", "9", "", "4x", "1.5", "99999999999999999999", "four"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(mt_parse_integer("--batch", wrong[i], 1, 8, &value), MT_USAGE);
        assert_non_null(strstr(mt_last_error(), "--batch"));
        assert_non_null(strstr(mt_last_error(), "from 1 to 8"));
    }
    assert_int_equal(value, 8);
    assert_int_equal(mt_parse_integer("--seq", "-4", 0, INT64_MAX, &value), MT_USAGE);
    assert_string_equal(mt_last_error(), "--seq -4: expected a whole number, 0 or more");
    assert_int_equal(mt_parse_integer("--seq", "99999999999999999999", 0, INT64_MAX, &value), MT_USAGE);
    assert_string_equal(mt_last_error(),
                        "--seq 99999999999999999999: expected a whole number from 0 to 9223372036854775807");
}

static void the_nearest_word_is_found_whatever_its_case(void **state)
{
    (void)state;
    static const char *const names[] = {"small", "medium", "large", "xl", "2.7B"};
    assert_string_equal(mt_nearest("2.7b", names, COUNT(names)), "2.7B");
    assert_string_equal(mt_nearest("smal", names, COUNT(names)), "small");
    assert_string_equal(mt_nearest("meduim", names, COUNT(names)), "medium");
    assert_string_equal(mt_nearest("largest", names, COUNT(names)), "large");
    assert_null(mt_nearest("transformer", names, COUNT(names)));
    assert_null(mt_nearest("", names, COUNT(names)));
    assert_null(mt_nearest("small", names, 0));
    assert_string_equal(mt_nearest("me", names, COUNT(names)), "medium");
}

static void letters_that_changed_places_are_one_mistake(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "sim"}, *const options[] = {"--model", "--mode"};
    assert_string_equal(mt_nearest("smi", devices, COUNT(devices)), "sim");
    assert_string_equal(mt_nearest("cup", devices, COUNT(devices)), "cpu");
    assert_string_equal(mt_nearest("--modle", options, COUNT(options)), "--model");
    assert_null(mt_nearest("mis", devices, COUNT(devices)));
}

static void an_unknown_word_is_answered_with_what_there_is(void **state)
{
    (void)state;
    static const char *const names[] = {"sim", "cpu"};
    assert_int_equal(mt_fail_unknown("device", "cpus", names, 2), MT_USAGE);
    assert_string_equal(mt_last_error(), "unknown device \"cpus\"; did you mean \"cpu\"? There are sim, cpu");
    assert_int_equal(mt_fail_unknown("device", "quantum", names, 2), MT_USAGE);
    assert_string_equal(mt_last_error(), "unknown device \"quantum\": there are sim, cpu");
}

static void the_three_nearest_of_many_words_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"AttnOut", "Attn", "AttnScores", "FFN", "Attention"};
    assert_int_equal(mt_fail_unknown("category", "AttnScore", names, COUNT(names)), MT_USAGE);
    assert_string_equal(mt_last_error(), "unknown category \"AttnScore\"; did you mean \"AttnScores\" or \"AttnOut\"?"
                                         " There are AttnOut, Attn, AttnScores, FFN, Attention");
    const char *many[40];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = i == 30 ? "--steps" : i == 20 ? "--step" : i == 10 ? "--seq" : "--optimizer";
    assert_int_equal(mt_fail_unknown("option", "--stepss", many, COUNT(many)), MT_USAGE);
    assert_string_equal(mt_last_error(),
                        "unknown option \"--stepss\"; did you mean \"--steps\", \"--step\" or \"--seq\"?"
                        " There are 40");
    many[0] = "--optimizer-in-backward";
    assert_int_equal(mt_fail_unknown("option", "--optimizer-in", many, COUNT(many)), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "did you mean \"--optimizer-in-backward\", "));
}

static void growing_text_is_what_was_added(void **state)
{
    (void)state;
    struct mt_text text = {0};
    for (int i = 0; i < 1000; i++)
        mt_text_add(&text, "%03d,", i);
    mt_text_add(&text, "%s", "");
    assert_int_equal(text.length, 4000);
    assert_int_equal(strlen(text.data), 4000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(atoi(text.data + 4 * i), i);
    mt_text_release(&text);
    assert_null(text.data);
    assert_int_equal(text.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_shown_in_the_largest_unit_that_keeps_a_whole),
        cmocka_unit_test(a_difference_shows_its_sign),
        cmocka_unit_test(sizes_are_read_in_every_usual_spelling),
        cmocka_unit_test(what_is_no_size_is_refused_and_quoted),
        cmocka_unit_test(a_percentage_reads_with_and_without_its_sign),
        cmocka_unit_test(a_shown_size_reads_back_as_itself),
        cmocka_unit_test(integers_are_whole_and_in_range),
        cmocka_unit_test(the_nearest_word_is_found_whatever_its_case),
        cmocka_unit_test(letters_that_changed_places_are_one_mistake),
        cmocka_unit_test(an_unknown_word_is_answered_with_what_there_is),
        cmocka_unit_test(the_three_nearest_of_many_words_are_named),
        cmocka_unit_test(growing_text_is_what_was_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
