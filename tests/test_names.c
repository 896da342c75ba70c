/* Names of values, categories that a program names, and labels and spans, each of which is interned once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/category_set.h"
#include "base/interner.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *category_text(int value)
{
    return mt_category_name((mt_category)value);
}

static const char *role_text(int value)
{
    return mt_role_name((mt_role)value);
}

static const char *role_source_text(int value)
{
    return mt_role_source_name((mt_role_source)value);
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
    } lists[] = {{category_text, MT_CATEGORY_COUNT},       {role_text, MT_ROLE_COUNT},
                 {role_source_text, MT_ROLE_SOURCE_COUNT}, {phase_text, MT_PHASE_COUNT},
                 {event_text, MT_EVENT_KIND_COUNT},        {dtype_text, MT_DTYPE_COUNT}};
    for (size_t l = 0; l < COUNT(lists); l++) {
        for (int a = 0; a < lists[l].count; a++)
            for (int b = 0; b <= a; b++)
                assert_int_equal(strcmp(lists[l].name(a), lists[l].name(b)) == 0, a == b);
        assert_string_equal(lists[l].name(lists[l].count), "?");
    }
    assert_string_equal(mt_category_name(MT_CATEGORY_ATTN_SCORES), "AttnScores");
    assert_int_equal(mt_dtype_bytes(MT_BF16), 2);
    assert_int_equal(mt_dtype_bytes(MT_C128), 16);
}

static void a_role_is_found_by_its_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *spelling;
        mt_role role;
    } known[] = {{"key-value cache", MT_ROLE_KEY_VALUE_CACHE},       {"key_value_cache", MT_ROLE_KEY_VALUE_CACHE},
                 {"optimizer-state", MT_ROLE_OPTIMIZER_STATE},       {"opt_state", MT_ROLE_OPTIMIZER_STATE},
                 {"gathered_parameter", MT_ROLE_GATHERED_PARAMETER}, {"unknown", MT_ROLE_UNKNOWN}};
    mt_role role;
    for (size_t i = 0; i < COUNT(known); i++) {
        assert_true(mt_role_find(known[i].spelling, &role));
        assert_int_equal(role, known[i].role);
    }
    for (int i = 0; i < MT_ROLE_COUNT; i++) {
        assert_true(mt_role_find(mt_role_name((mt_role)i), &role));
        assert_int_equal(role, i);
    }
    assert_false(mt_role_find("key value", &role));
    assert_false(mt_role_find("key value cache", &role));
    assert_false(mt_role_find("", &role));
}

/* The ring of a killed process has numbers, which another version of the program reads. */
static void roles_keep_their_numbers(void **state)
{
    (void)state;
    assert_int_equal(MT_ROLE_OTHER, 8);
    assert_int_equal(MT_ROLE_UNKNOWN, 13);
}

/* Returns label number i of many: all differ, each in few fields from others. */
static struct mt_label make_label(uint32_t i)
{
    static const char *const ops[] = {"einsum", "cast", "softmax.exp"};
    return (struct mt_label){
        .category = (mt_category)(i % MT_CATEGORY_COUNT),
        .role = MT_ROLE_ACTIVATION,
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
            label.op = strcpy(op, label.op); /* texts are compared, not pointers */
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
    struct mt_label changed[] = {base, base, base, base, base, base, base, base, base, base};
    changed[0].category = MT_CATEGORY_NORM;
    changed[1].role = MT_ROLE_TEMPORARY;
    changed[2].phase = MT_PHASE_BACKWARD;
    changed[3].dtype = MT_F64;
    changed[4].op = "other";
    changed[5].span = 2;
    changed[6].layer = 0;
    changed[7].dims = 1;
    changed[8].shape[1] = 4;
    changed[9].role_source = MT_ROLE_SOURCE_INFERRED;
    struct mt_interner *interner = mt_interner_create();
    mt_interner_label(interner, &base, NULL);
    for (uint32_t i = 0; i < COUNT(changed); i++)
        assert_int_equal(mt_label_number(mt_interner_label(interner, &changed[i], NULL)), i + 2);
    struct mt_label same = base;
    same.shape[3] = 9; /* beyond dims, so it does not count */
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

/* Stacks that begin alike share what they begin with. */
static void a_stack_is_its_innermost_frame_and_the_stack_of_its_caller(void **state)
{
    (void)state;
    struct mt_interner *interner = mt_interner_create();
    const struct mt_frame frames[] = {{"main", "train.py", 7}, {"main", "train.py", 8}, {"forward", "train.py", 7}};
    bool is_new;
    for (mt_frame_id i = 0; i < COUNT(frames); i++)
        for (int round = 0; round < 2; round++) {
            assert_int_equal(mt_interner_frame(interner, &frames[i], &is_new), i + 1);
            assert_int_equal(is_new, round == 0);
        }
    mt_stack_id outer = mt_interner_stack(interner, 0, 1, &is_new), inner = mt_interner_stack(interner, outer, 3, NULL);
    assert_true(is_new && outer == 1 && inner == 2);
    assert_int_equal(mt_interner_stack(interner, 1, 3, &is_new), inner);
    assert_false(is_new);
    assert_int_equal(mt_interner_stack(interner, 0, 3, NULL), 3);
    assert_int_equal(mt_interner_find_stack(interner, inner)->parent, outer);
    assert_string_equal(mt_interner_find_frame(interner, mt_interner_find_stack(interner, inner)->frame)->function,
                        "forward");
    assert_null(mt_interner_find_stack(interner, 0));
    assert_null(mt_interner_find_frame(interner, 4));
    mt_interner_destroy(interner);
}

/* Equal names in different parents differ, and borrowed values do not move while the tables grow. */
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
        cmocka_unit_test(every_value_has_a_name_of_its_own),
        cmocka_unit_test(a_role_is_found_by_its_spellings),
        cmocka_unit_test(roles_keep_their_numbers),
        cmocka_unit_test(equal_labels_get_equal_ids_and_others_dense_ones),
        cmocka_unit_test(every_field_of_a_label_counts),
        cmocka_unit_test(a_span_has_the_path_from_the_root),
        cmocka_unit_test(a_stack_is_its_innermost_frame_and_the_stack_of_its_caller),
        cmocka_unit_test(spans_are_told_apart_by_parent_and_stay_in_place),
        cmocka_unit_test(a_discarding_sink_interns_and_wants_no_events),
        cmocka_unit_test(a_category_has_one_number_whoever_names_it),
        cmocka_unit_test(a_sink_without_names_knows_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
