/* Floor 0: failures and their text, arithmetic that does not wrap, random numbers that repeat, and host memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void a_failure_keeps_its_status_and_its_text(void **state)
{
    (void)state;
    assert_int_equal(mt_fail(MT_OUT_OF_MEMORY, "asked %d, had %d", 7, 3), MT_OUT_OF_MEMORY);
    assert_string_equal(mt_last_error(), "asked 7, had 3");
    assert_int_equal(mt_fail_context(MT_OUT_OF_MEMORY, "layer %d", 2), MT_OUT_OF_MEMORY);
    assert_string_equal(mt_last_error(), "layer 2: asked 7, had 3");
    assert_int_equal(mt_fail(MT_FAILED, "again: %s", mt_last_error()), MT_FAILED);
    assert_string_equal(mt_last_error(), "again: layer 2: asked 7, had 3");
}

static void the_first_failure_wins_over_those_of_the_cleanup(void **state)
{
    (void)state;
    assert_int_equal(mt_status_keep(MT_OK, MT_OK), MT_OK);
    assert_int_equal(mt_status_keep(MT_OK, MT_FAILED), MT_FAILED);
    assert_int_equal(mt_status_keep(MT_OUT_OF_MEMORY, MT_FAILED), MT_OUT_OF_MEMORY);
    assert_int_equal(mt_status_keep(MT_BAD_TRACE, MT_OK), MT_BAD_TRACE);
}

static void a_saved_failure_outlives_the_cleanup_with_its_text(void **state)
{
    (void)state;
    struct mt_error first = mt_error_save(mt_fail(MT_BAD_TRACE, "the first"));
    assert_int_equal(mt_error_restore(&first, mt_fail(MT_FAILED, "of the cleanup")), MT_BAD_TRACE);
    assert_string_equal(mt_last_error(), "the first");
    first = mt_error_save(MT_OK);
    assert_int_equal(mt_error_restore(&first, mt_fail(MT_FAILED, "of the cleanup")), MT_FAILED);
    assert_string_equal(mt_last_error(), "of the cleanup");
    assert_int_equal(mt_error_restore(&first, MT_OK), MT_OK);
}

static void long_failure_texts_are_cut_and_not_overrun(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mt_fail(MT_FAILED, "%s", text);
    size_t length = strlen(mt_last_error());
    assert_true(length > 500 && length < sizeof text - 1);
    mt_fail_context(MT_FAILED, "%s", text);
    assert_true(strlen(mt_last_error()) <= length);
}

static void *fail_elsewhere(void *untouched)
{
    *(bool *)untouched = mt_last_error()[0] == '\0';
    mt_fail(MT_FAILED, "of the other thread");
    return NULL;
}

static void each_thread_has_its_own_failure_text(void **state)
{
    (void)state;
    mt_fail(MT_FAILED, "of this thread");
    bool began_empty = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &began_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(began_empty);
    assert_string_equal(mt_last_error(), "of this thread");
}

static void products_and_sums_that_wrap_are_refused(void **state)
{
    (void)state;
    uint64_t out = 5;
    assert_true(mt_checked_mul(UINT32_MAX, UINT32_MAX, &out));
    assert_true(out == (uint64_t)UINT32_MAX * UINT32_MAX);
    assert_false(mt_checked_mul((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
    assert_true(mt_checked_add(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_false(mt_checked_add(UINT64_MAX, 1, &out));
    assert_true(mt_checked_round_up(513, 512, &out));
    assert_true(out == 1024);
    assert_true(mt_checked_round_up(512, 512, &out));
    assert_true(out == 512);
    assert_false(mt_checked_round_up(UINT64_MAX - 3, 512, &out));
    assert_true(out == 512);
}

/* The first outputs of the published generator from seed 0. */
static void the_generator_is_splitmix64(void **state)
{
    (void)state;
    assert_true(mt_splitmix64(0) == 0xE220A8397B1DCDAFu);
    assert_true(mt_splitmix64(0x9E3779B97F4A7C15u) == 0x6E789E6AA1B965F4u);
    assert_true(mt_random_unit(0, 0) == (double)(0xE220A8397B1DCDAFu >> 11) * 0x1p-53);
    assert_true(mt_random_unit(3, 9) == (double)(mt_splitmix64(9 + ((uint64_t)3 << 40)) >> 11) * 0x1p-53);
}

/* Even after the count decreased, like a stack's. */
static void an_array_that_grows_one_by_one_keeps_its_items(void **state)
{
    (void)state;
    uint64_t *items = NULL;
    size_t count = 0;
    for (uint64_t round = 0; round < 5; round++) {
        for (size_t most = count + 700; count < most; count++) {
            items = mt_host_room(items, count, sizeof *items);
            items[count] = count * 3;
        }
        for (size_t i = 0; i < count; i++)
            assert_int_equal(items[i], i * 3);
        count = round * 173;
    }
    free(items);
}

static void host_memory_is_zeroed_and_keeps_its_content_when_resized(void **state)
{
    (void)state;
    unsigned char *memory = mt_host_alloc(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(memory[i], 0);
    memset(memory, 7, 1000);
    memory = mt_host_resize(memory, 500, 4);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(memory[i], 7);
    free(memory);
    char *copy = mt_host_strdup("a word");
    assert_string_equal(copy, "a word");
    free(copy);
}

static void numbers_and_texts_compare_as_their_values_do(void **state)
{
    (void)state;
    const uint64_t few = 3, many = UINT64_MAX;
    const int64_t negative = INT64_MIN, positive = 1;
    const double low = -0.5, high = 1e300;
    const char *apple = "apple", *pear = "pear";
    assert_int_equal(mt_compare_uint64(&few, &many), -1);
    assert_int_equal(mt_compare_uint64(&many, &few), 1);
    assert_int_equal(mt_compare_uint64(&many, &many), 0);
    assert_int_equal(mt_compare_int64(&negative, &positive), -1);
    assert_int_equal(mt_compare_double(&high, &low), 1);
    assert_true(mt_compare_text(&apple, &pear) < 0);
}

static void texts_are_compared_as_wanted(void **state)
{
    (void)state;
    assert_true(mt_is_text("a", "a") && mt_is_text(NULL, "a"));
    assert_false(mt_is_text("a", "ab"));
    assert_true(mt_ends_with("ffn.w1", ".w1") && mt_ends_with("w1", "w1") && mt_ends_with("", NULL));
    assert_false(mt_ends_with("w1", ".w1"));
    assert_false(mt_ends_with("w1.w2", "w1"));
}

static void the_median_is_the_middle_or_the_mean_of_two(void **state)
{
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};
    assert_true(mt_median(odd, 3) == 3);
    assert_true(mt_median(even, 4) == 2.5);
    assert_true(isnan(mt_median(NULL, 0)));
    assert_true(mt_minimum(even, 4) == 1);
    assert_true(isnan(mt_minimum(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_keeps_its_status_and_its_text),
        cmocka_unit_test(the_first_failure_wins_over_those_of_the_cleanup),
        cmocka_unit_test(a_saved_failure_outlives_the_cleanup_with_its_text),
        cmocka_unit_test(long_failure_texts_are_cut_and_not_overrun),
        cmocka_unit_test(each_thread_has_its_own_failure_text),
        cmocka_unit_test(products_and_sums_that_wrap_are_refused),
        cmocka_unit_test(the_generator_is_splitmix64),
        cmocka_unit_test(host_memory_is_zeroed_and_keeps_its_content_when_resized),
        cmocka_unit_test(numbers_and_texts_compare_as_their_values_do),
        cmocka_unit_test(texts_are_compared_as_wanted),
        cmocka_unit_test(the_median_is_the_middle_or_the_mean_of_two),
        cmocka_unit_test(an_array_that_grows_one_by_one_keeps_its_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
