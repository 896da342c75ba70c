/* Floor 0: sizes as people write and read them, words that are nearly known, failures and their text, arithmetic that
 * may not wrap, and the interner of labels and spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/category_set.h"
#include "base/checked.h"
#include "base/interner.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 4711 };

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- text ---- */

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
    printf("seed %d\n", SEED);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t bytes = (mt_splitmix64(SEED + i) % 1023 + 1) << (i % 4 * 10), back;
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

/* ---- status ---- */

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

/* ---- arithmetic, random numbers ---- */

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

/* ---- names ---- */

static const char *category_text(int value)
{
    return mt_category_name((mt_category)value);
}

static const char *role_text(int value)
{
    return mt_role_name((mt_role)value);
}

static const char *phase_text(int value)
{
    return mt_phase_name((mt_phase)value);
}

static const char *event_text(int value)
{
    return mt_event_kind_name((mt_event_kind)value);
}

static const char *dtype_text(int value)
{
    return mt_dtype_name((mt_dtype)value);
}

static void every_value_has_a_name_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *(*name)(int value);
        int count;
    } lists[] = {{category_text, MT_CATEGORY_COUNT},
                 {role_text, MT_ROLE_COUNT},
                 {phase_text, MT_PHASE_COUNT},
                 {event_text, MT_EVENT_KIND_COUNT},
                 {dtype_text, MT_DTYPE_COUNT}};
    for (size_t l = 0; l < COUNT(lists); l++) {
        for (int a = 0; a < lists[l].count; a++)
            for (int b = 0; b <= a; b++)
                assert_int_equal(strcmp(lists[l].name(a), lists[l].name(b)) == 0, a == b);
        assert_string_equal(lists[l].name(lists[l].count), "?");
    }
    assert_string_equal(mt_category_name(MT_CATEGORY_ATTN_SCORES), "AttnScores");
    assert_int_equal(mt_dtype_bytes(MT_BF16), 2);
}

/* ---- interner ---- */

/* Label number i of many: all differ, each in few fields from others. */
static struct mt_label make_label(uint32_t i)
{
    static const char *const ops[] = {"einsum", "cast", "softmax.exp"};
    return (struct mt_label){
        .category = (mt_category)(i % MT_CATEGORY_COUNT),
        .role = MT_ROLE_SAVED,
        .phase = MT_PHASE_FORWARD,
        .dtype = i / MT_CATEGORY_COUNT % 2 == 0 ? MT_F32 : MT_BF16,
        .op = ops[i / MT_CATEGORY_COUNT / 2 % 3],
        .span = 1,
        .layer = -1,
        .dims = 2,
        .shape = {i / MT_CATEGORY_COUNT / 6, 3},
    };
}

static void equal_labels_get_equal_ids_and_others_dense_ones(void **state)
{
    (void)state;
    enum { LABELS = 5000 };
    struct mt_interner *interner = mt_interner_create();
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < LABELS; i++) {
            struct mt_label label = make_label(i);
            char op[16];
            label.op = strcpy(op, label.op); /* equality is of the text, not of the pointer */
            bool is_new;
            mt_label_id id = mt_interner_label(interner, &label, &is_new);
            assert_int_equal(mt_label_number(id), i + 1);
            assert_int_equal(mt_label_category(id), label.category);
            assert_int_equal(is_new, round == 0);
            const struct mt_label *found = mt_interner_find_label(interner, id);
            assert_string_equal(found->op, make_label(i).op);
            assert_true(found->shape[0] == label.shape[0] && found->dtype == label.dtype && found->layer == -1);
        }
    assert_null(mt_interner_find_label(interner, 0));
    assert_null(mt_interner_find_label(interner, LABELS + 1));
    mt_interner_destroy(interner);
}

/* A change of any one field makes another label. */
static void every_field_of_a_label_counts(void **state)
{
    (void)state;
    struct mt_label base = make_label(0);
    struct mt_label changed[] = {base, base, base, base, base, base, base, base, base};
    changed[0].category = MT_CATEGORY_NORM;
    changed[1].role = MT_ROLE_TEMPORARY;
    changed[2].phase = MT_PHASE_BACKWARD;
    changed[3].dtype = MT_F64;
    changed[4].op = "other";
    changed[5].span = 2;
    changed[6].layer = 0;
    changed[7].dims = 1;
    changed[8].shape[1] = 4;
    struct mt_interner *interner = mt_interner_create();
    mt_interner_label(interner, &base, NULL);
    for (uint32_t i = 0; i < COUNT(changed); i++)
        assert_int_equal(mt_label_number(mt_interner_label(interner, &changed[i], NULL)), i + 2);
    struct mt_label same = base;
    same.shape[3] = 9; /* beyond dims: no part of it */
    assert_int_equal(mt_label_number(mt_interner_label(interner, &same, NULL)), 1);
    mt_interner_destroy(interner);
}

static void a_span_has_the_path_from_the_root(void **state)
{
    (void)state;
    struct mt_interner *interner = mt_interner_create();
    mt_span_id model = mt_interner_span(interner, 0, "model", NULL);
    mt_span_id layer = mt_interner_span(interner, model, "layers.7", NULL);
    mt_span_id linear = mt_interner_span(interner, layer, "w1", NULL);
    assert_true(model == 1 && layer == 2 && linear == 3);
    const struct mt_span *span = mt_interner_find_span(interner, linear);
    assert_string_equal(span->path, "model.layers.7.w1");
    assert_string_equal(span->name, "w1");
    assert_true(span->parent == layer);
    assert_null(mt_interner_find_span(interner, 0));
    assert_null(mt_interner_find_span(interner, 4));
    mt_interner_destroy(interner);
}

/* Equal names in different parents differ, and what was borrowed stays where it is while the tables grow. */
static void spans_are_told_apart_by_parent_and_stay_in_place(void **state)
{
    (void)state;
    enum { SPANS = 3000 };
    struct mt_interner *interner = mt_interner_create();
    const struct mt_span *first = NULL;
    for (mt_span_id round = 0; round < 2; round++)
        for (mt_span_id parent = 0; parent < SPANS; parent++) {
            bool is_new;
            assert_int_equal(mt_interner_span(interner, parent, "x", &is_new), parent + 1);
            assert_int_equal(is_new, round == 0);
            if (parent == 0 && round == 0)
                first = mt_interner_find_span(interner, 1);
        }
    assert_ptr_equal(mt_interner_find_span(interner, 1), first);
    assert_string_equal(first->path, "x");
    assert_string_equal(mt_interner_find_span(interner, 4)->path, "x.x.x.x");
    mt_interner_destroy(interner);
}

static void a_discarding_sink_interns_and_wants_no_events(void **state)
{
    (void)state;
    struct mt_interner *interner = mt_interner_create();
    struct mt_sink sink = mt_sink_discarding(interner);
    mt_span_id span = sink.intern_span(sink.context, 0, "model");
    struct mt_label label = make_label(3);
    mt_label_id id = sink.intern_label(sink.context, &label);
    assert_null(sink.emit);
    assert_int_equal(mt_interner_label(interner, &label, NULL), id);
    assert_string_equal(mt_interner_find_span(interner, span)->path, "model");
    mt_interner_destroy(interner);
}

/* Also after the count fell, as of a stack. */
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

static void a_category_has_one_number_whoever_names_it(void **state)
{
    (void)state;
    struct mt_category_set set = {0};
    char name[32], longer[100], cut[MT_CATEGORY_NAME_BYTES];
    assert_int_equal(mt_category_set_add(&set, "einsum"), MT_CATEGORY_EINSUM);
    assert_int_equal(mt_category_set_add(&set, ""), MT_CATEGORY_OTHER);
    for (int again = 0; again < 2; again++)
        for (int i = MT_CATEGORY_COUNT; i < MT_MOST_CATEGORIES - 1; i++) {
            snprintf(name, sizeof name, "named %d", i);
            assert_int_equal(mt_category_set_add(&set, name), i);
            assert_string_equal(mt_category_set_name(&set, (mt_category)i), name);
        }
    snprintf(longer, sizeof longer, "%061d%s", 0, "\xE2\x82\xAC and more"); /* the euro sign does not fit whole */
    snprintf(cut, sizeof cut, "%061d", 0);
    assert_int_equal(mt_category_set_add(&set, longer), MT_MOST_CATEGORIES - 1);
    assert_int_equal(mt_category_set_add(&set, cut), MT_MOST_CATEGORIES - 1);
    assert_string_equal(mt_category_set_name(&set, (mt_category)(MT_MOST_CATEGORIES - 1)), cut);
    assert_int_equal(mt_category_set_add(&set, "one too many"), MT_CATEGORY_OTHER);
    assert_int_equal(mt_category_set_count(&set), MT_MOST_CATEGORIES);
    mt_category_set_release(&set);
}

static void a_sink_without_names_knows_ours(void **state)
{
    (void)state;
    const struct mt_sink nameless = {0};
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    mt_category tower = mt_sink_category(&sink, "Tower");
    assert_int_equal(tower, MT_CATEGORY_COUNT);
    assert_string_equal(mt_sink_category_name(&sink, tower), "Tower");
    assert_int_equal(mt_sink_category(&nameless, "Tower"), MT_CATEGORY_OTHER);
    assert_string_equal(mt_sink_category_name(&nameless, tower), "Other");
    assert_string_equal(mt_sink_category_name(&nameless, MT_CATEGORY_LOSS), "Loss");
    mt_interner_destroy(interner);
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
        cmocka_unit_test(growing_text_is_what_was_added),
        cmocka_unit_test(a_failure_keeps_its_status_and_its_text),
        cmocka_unit_test(the_first_failure_wins_over_those_of_the_cleanup),
        cmocka_unit_test(long_failure_texts_are_cut_and_not_overrun),
        cmocka_unit_test(each_thread_has_its_own_failure_text),
        cmocka_unit_test(products_and_sums_that_wrap_are_refused),
        cmocka_unit_test(the_generator_is_splitmix64),
        cmocka_unit_test(every_value_has_a_name_of_its_own),
        cmocka_unit_test(equal_labels_get_equal_ids_and_others_dense_ones),
        cmocka_unit_test(every_field_of_a_label_counts),
        cmocka_unit_test(a_span_has_the_path_from_the_root),
        cmocka_unit_test(spans_are_told_apart_by_parent_and_stay_in_place),
        cmocka_unit_test(a_discarding_sink_interns_and_wants_no_events),
        cmocka_unit_test(host_memory_is_zeroed_and_keeps_its_content_when_resized),
        cmocka_unit_test(an_array_that_grows_one_by_one_keeps_its_items),
        cmocka_unit_test(a_category_has_one_number_whoever_names_it),
        cmocka_unit_test(a_sink_without_names_knows_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
