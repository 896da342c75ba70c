/* Changes of programs, replayed: against stories whose peaks are added up by hand. */
#include "analysis/advise/program_changes.h"

#include "advised_story.h"

#include <string.h>

/* Labels of two layers, behind those of the story. */
enum { LAYER_LABELS = 6, FIRST_OF_LAYERS = STORY_LABELS };
enum { KEPT_0 = FIRST_OF_LAYERS, KEPT_1, BESIDE_0, BESIDE_1, BACK_0, BACK_1 };

static struct mt_label_row labels[STORY_LABELS + LAYER_LABELS];

static void make_labels(void)
{
    static const struct mt_label_row layers[LAYER_LABELS] = {
        {"FFN", "activation", "mul", "forward", "fp32", "", "m.layers.0.ffn", "m.layers.*.ffn", 0, "inferred"},
        {"FFN", "activation", "mul", "forward", "fp32", "", "m.layers.1.ffn", "m.layers.*.ffn", 1, "inferred"},
        {"FFN", "temporary", "mul", "forward", "fp32", "", "m.layers.0.ffn", "m.layers.*.ffn", 0, "inferred"},
        {"FFN", "temporary", "mul", "forward", "fp32", "", "m.layers.1.ffn", "m.layers.*.ffn", 1, "inferred"},
        {"FFN", "temporary", "mul", "backward", "fp32", "", "m.layers.0.ffn", "m.layers.*.ffn", 0, "inferred"},
        {"FFN", "temporary", "mul", "backward", "fp32", "", "m.layers.1.ffn", "m.layers.*.ffn", 1, "inferred"},
    };
    memcpy(labels, story_labels, sizeof story_labels);
    memcpy(labels + FIRST_OF_LAYERS, layers, sizeof layers);
}

static struct mt_program_changes changes_of(const struct story *story)
{
    struct mt_advice_input input = story_input(story, "policy=torch");
    struct mt_program_changes changes;
    make_labels();
    input.labels = labels;
    input.label_count = STORY_LABELS + LAYER_LABELS;
    assert_int_equal(mt_program_changes_create(&input, &changes), MT_OK);
    return changes;
}

/* Returns the one change of a kind and, of less state, of an optimizer; NULL if there is none. */
static const struct mt_program_change *change_of(const struct mt_program_changes *changes, mt_change_kind kind,
                                                 mt_lean_optimizer optimizer)
{
    const struct mt_program_change *found = NULL;
    for (size_t i = 0; i < changes->count; i++) {
        if (changes->items[i].kind != kind || changes->items[i].optimizer != optimizer)
            continue;
        assert_null(found);
        found = &changes->items[i];
    }
    return found;
}

static size_t take(struct story *story, int label, uint64_t bytes)
{
    return story_take(story, (enum story_label)label, bytes);
}

static void begin_step(struct story *story, uint64_t number)
{
    story_mark(story, MT_EVENT_STEP_BEGIN, number);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
}

/* A layer's forward: 10 MiB are kept, 4 are taken besides, and 2 come out. Sets kept[0] and the output, kept[1]. */
static void run_layer(struct story *story, int layer, size_t kept[2])
{
    kept[0] = take(story, KEPT_0 + layer, 10 * MIB);
    size_t beside = take(story, BESIDE_0 + layer, 4 * MIB);
    kept[1] = take(story, KEPT_0 + layer, 2 * MIB);
    story_give(story, beside);
}

/* A layer's backward, which takes 1 MiB. */
static void run_back(struct story *story, int layer, const size_t kept[2])
{
    size_t gradient = take(story, BACK_0 + layer, MIB);
    story_give(story, kept[1]);
    story_give(story, kept[0]);
    story_give(story, gradient);
}

static struct story *two_layers(void)
{
    struct story *story = story_begin();
    size_t first[2], second[2];
    begin_step(story, 0);
    run_layer(story, 0, first);
    run_layer(story, 1, second);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    run_back(story, 1, second);
    run_back(story, 0, first);
    story_mark(story, MT_EVENT_STEP_END, 0);
    return story;
}

static void checkpoint_keeps_outputs_and_computes_again(void **state)
{
    (void)state;
    struct story *story = two_layers();
    struct mt_program_changes changes = changes_of(story);
    const struct mt_program_change *change = change_of(&changes, MT_CHANGE_CHECKPOINT, 0);
    assert_int_equal(changes.as_it_was.requested_bytes, 28 * MIB); /* 12 of the first layer, 16 of the second */
    assert_non_null(change);
    assert_string_equal(change->place, "m.layers.*.ffn");
    assert_int_equal(change->calls, 2);
    assert_int_equal(change->recomputed_bytes, 6 * MIB); /* of the 16 that forward took, 10 are kept */
    /* Two outputs of 2, and 16 of the second layer. */
    assert_int_equal(change->replay.requested_bytes, 20 * MIB);
    mt_program_changes_release(&changes);
    free(story);
}

/* Returns the checkpoint of a place. */
static const struct mt_program_change *checkpoint_of(const struct mt_program_changes *changes, const char *place)
{
    for (size_t i = 0; i < changes->count; i++)
        if (changes->items[i].kind == MT_CHANGE_CHECKPOINT && strcmp(changes->items[i].place, place) == 0)
            return &changes->items[i];
    fail_msg("no checkpoint of %s", place);
    return NULL;
}

static void put_in(int label, const char *span)
{
    labels[label].span = labels[label].place = span;
}

static bool has_checkpoint_of(const struct mt_program_changes *changes, const char *place)
{
    for (size_t i = 0; i < changes->count; i++)
        if (changes->items[i].kind == MT_CHANGE_CHECKPOINT && strcmp(changes->items[i].place, place) == 0)
            return true;
    return false;
}

static void begin_span(struct story *story, const char *span)
{
    story_mark(story, MT_EVENT_SPAN_BEGIN, 0);
    story->marks[story->mark_count - 1].span = span;
}

/* Finds the changes of a model m with two modules in m.t, a ModuleDict if it is not called. */
static void find_changes_of_dict(bool is_called, struct mt_program_changes *out)
{
    struct story *story = story_begin();
    size_t first[2], second[2];
    begin_step(story, 0);
    begin_span(story, "m");
    if (is_called)
        begin_span(story, "m.t");
    begin_span(story, "m.t.a");
    run_layer(story, 0, first);
    begin_span(story, "m.t.h.12");
    run_layer(story, 1, second);
    story_give(story, story_take(story, LOSS, 20 * MIB)); /* the peak, at which a checkpoint of all has freed most */
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    run_back(story, 1, second);
    run_back(story, 0, first);
    story_mark(story, MT_EVENT_STEP_END, 0);
    struct mt_advice_input input = story_input(story, "policy=torch");
    make_labels();
    for (int layer = 0; layer < 2; layer++) {
        const char *span = layer == 0 ? "m.t.a" : "m.t.h.*";
        put_in(KEPT_0 + layer, span);
        put_in(BESIDE_0 + layer, span);
        put_in(BACK_0 + layer, span);
    }
    input.labels = labels;
    input.label_count = STORY_LABELS + LAYER_LABELS;
    assert_int_equal(mt_program_changes_create(&input, out), MT_OK);
    free(story);
}

static void modules_that_are_not_called_have_no_checkpoint(void **state)
{
    (void)state;
    struct mt_program_changes changes;
    find_changes_of_dict(true, &changes);
    assert_true(has_checkpoint_of(&changes, "m.t"));
    mt_program_changes_release(&changes);
    find_changes_of_dict(false, &changes);
    assert_false(has_checkpoint_of(&changes, "m.t"));
    assert_false(has_checkpoint_of(&changes, "m.t.h"));
    assert_true(has_checkpoint_of(&changes, "m.t.h.*") || has_checkpoint_of(&changes, "m.t.a"));
    mt_program_changes_release(&changes);
}

/* A loop calls two layers in line 51, and nothing but the lines in them tells them apart. */
static void calls_of_a_loop_are_told_apart_by_lines(void **state)
{
    (void)state;
    struct story *story = story_begin();
    size_t kept[2], outputs[2];
    begin_step(story, 0);
    for (int layer = 0; layer < 2; layer++) {
        kept[layer] = take(story, KEPT_0, 10 * MIB);
        size_t beside = take(story, BESIDE_0, 4 * MIB);
        outputs[layer] = take(story, KEPT_1, 2 * MIB);
        story_give(story, beside);
    }
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    for (int layer = 2; layer-- > 0;) {
        story_give(story, outputs[layer]);
        story_give(story, kept[layer]);
    }
    struct mt_advice_input input = story_input(story, "policy=torch");
    struct mt_program_changes changes;
    make_labels();
    put_in(KEPT_0, "run/main:8.model/forward:40.forward:51.forward:10");
    put_in(BESIDE_0, "run/main:8.model/forward:40.forward:51.forward:11");
    put_in(KEPT_1, "run/main:8.model/forward:40.forward:51.forward:12");
    input.labels = labels;
    input.label_count = STORY_LABELS + LAYER_LABELS;
    assert_int_equal(mt_program_changes_create(&input, &changes), MT_OK);
    const struct mt_program_change *change = checkpoint_of(&changes, "run/main:8.model/forward:40.forward:51");
    assert_int_equal(change->calls, 2);
    assert_int_equal(changes.as_it_was.requested_bytes, 28 * MIB);
    assert_int_equal(change->replay.requested_bytes, 18 * MIB); /* an output of 2, and 16 of the second layer */
    mt_program_changes_release(&changes);
    free(story);
}

/* The last block goes on to what comes next, which lets go of it: so the call keeps nothing that is its output. */
static void output_that_is_passed_on_is_no_activation(void **state)
{
    (void)state;
    struct story *story = story_begin();
    begin_step(story, 0);
    size_t kept = take(story, KEPT_0, 10 * MIB), output = take(story, BESIDE_0, 2 * MIB);
    size_t loss = story_take(story, LOSS, 6 * MIB);
    story_give(story, output);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    story_give(story, loss);
    story_give(story, kept);
    struct mt_program_changes changes = changes_of(story);
    const struct mt_program_change *change = change_of(&changes, MT_CHANGE_CHECKPOINT, 0);
    assert_int_equal(changes.as_it_was.requested_bytes, 18 * MIB);
    assert_non_null(change);
    assert_int_equal(change->replay.requested_bytes, 12 * MIB);
    mt_program_changes_release(&changes);
    free(story);
}

/* A step in which two gradients are made one after the other, beside 5 MiB of parameters. */
static struct story *two_gradients(bool accumulates)
{
    struct story *story = story_begin();
    story_take(story, PARAM, 5 * MIB);
    begin_step(story, 0);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    size_t first = story_take(story, GRAD, 3 * MIB);
    if (accumulates) {
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD);
        story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    }
    size_t second = story_take(story, GRAD, 2 * MIB), third = story_take(story, GRAD, MIB);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_OPTIMIZER);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_FORWARD); /* for the data of the next step */
    story_give(story, first);
    story_give(story, second);
    story_give(story, third);
    story_mark(story, MT_EVENT_STEP_END, 0);
    return story;
}

static void gradients_go_when_the_next_one_comes(void **state)
{
    (void)state;
    struct story *story = two_gradients(false);
    struct mt_program_changes changes = changes_of(story);
    const struct mt_program_change *change = change_of(&changes, MT_CHANGE_IN_BACKWARD, 0);
    assert_int_equal(changes.as_it_was.requested_bytes, 11 * MIB);
    assert_non_null(change);
    assert_int_equal(change->replay.requested_bytes, 10 * MIB);
    assert_int_equal(changes.gaps[MT_CHANGE_IN_BACKWARD], MT_GAP_NONE);
    mt_program_changes_release(&changes);
    free(story);
}

static void gradients_that_are_added_up_stay(void **state)
{
    (void)state;
    struct story *story = two_gradients(true);
    struct mt_program_changes changes = changes_of(story);
    assert_null(change_of(&changes, MT_CHANGE_IN_BACKWARD, 0));
    assert_int_equal(changes.gaps[MT_CHANGE_IN_BACKWARD], MT_GAP_ACCUMULATED);
    mt_program_changes_release(&changes);
    free(story);
}

static void leaner_optimizers_keep_what_they_need(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_take(story, PARAM, 8 * MIB);
    story_take(story, OPT_STATE, 4); /* the count of steps */
    story_take(story, OPT_STATE, 8 * MIB);
    story_take(story, OPT_STATE, 8 * MIB);
    struct mt_program_changes changes = changes_of(story);
    const struct mt_program_change *eight = change_of(&changes, MT_CHANGE_LESS_STATE, MT_OPTIMIZER_8BIT);
    const struct mt_program_change *one = change_of(&changes, MT_CHANGE_LESS_STATE, MT_OPTIMIZER_MOMENTUM);
    const struct mt_program_change *none = change_of(&changes, MT_CHANGE_LESS_STATE, MT_OPTIMIZER_STATELESS);
    assert_non_null(eight);
    assert_non_null(one);
    assert_non_null(none);
    /* 2 Mi elements in each: a byte for each, and 4 for each 256 of them. */
    assert_int_equal(eight->replay.requested_bytes, 8 * MIB + 4 + 2 * (2 * MIB + 2 * MIB / 256 * 4));
    assert_int_equal(one->replay.requested_bytes, 16 * MIB + 4);
    assert_int_equal(none->replay.requested_bytes, 8 * MIB);
    assert_int_equal(eight->bytes, 16 * MIB + 4);
    assert_int_equal(eight->blocks, 3);
    mt_program_changes_release(&changes);
    free(story);
}

static void what_a_trace_lacks_is_a_gap(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_take(story, PARAM, 8 * MIB);
    struct mt_program_changes changes = changes_of(story);
    assert_int_equal(changes.gaps[MT_CHANGE_ALLOCATOR], MT_GAP_NONE);
    assert_int_equal(changes.gaps[MT_CHANGE_ZERO_GRAD], MT_GAP_NO_GRADIENTS);
    assert_int_equal(changes.gaps[MT_CHANGE_IN_BACKWARD], MT_GAP_NO_GRADIENTS);
    assert_int_equal(changes.gaps[MT_CHANGE_CHECKPOINT], MT_GAP_NO_MODULES);
    assert_int_equal(changes.gaps[MT_CHANGE_LESS_STATE], MT_GAP_NO_STATE);
    mt_program_changes_release(&changes);
    free(story);
}

/* Half the batch would reserve less, but its gradient stays during the second half, so that more is allocated. */
static void a_change_that_raises_a_peak_is_left_out(void **state)
{
    (void)state;
    struct story *story = story_begin();
    story_take(story, PARAM, 12 * MIB);
    begin_step(story, 0);
    size_t first = take(story, KEPT_0, 40 * MIB), second = take(story, KEPT_1, 40 * MIB);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_BACKWARD);
    story_give(story, first);
    story_give(story, second);
    size_t gradient = story_take(story, GRAD, 60 * MIB);
    story_mark(story, MT_EVENT_PHASE, MT_PHASE_OPTIMIZER);
    story_give(story, gradient);
    story_mark(story, MT_EVENT_STEP_END, 0);
    struct mt_program_changes changes = changes_of(story);
    assert_int_equal(changes.as_it_was.requested_bytes, 92 * MIB);
    assert_null(change_of(&changes, MT_CHANGE_MICRO_BATCH, 0));
    mt_program_changes_release(&changes);
    free(story);
}

/* All that is reserved is allocated, or nearly. */
static void settings_of_the_allocator_that_save_nothing_are_left_out(void **state)
{
    (void)state;
    struct story *story = two_layers();
    struct mt_program_changes changes = changes_of(story);
    assert_true(changes.count > 0);
    for (size_t i = 0; i < changes.count; i++)
        assert_int_not_equal(changes.items[i].kind, MT_CHANGE_ALLOCATOR);
    mt_program_changes_release(&changes);
    free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_keeps_outputs_and_computes_again),
        cmocka_unit_test(modules_that_are_not_called_have_no_checkpoint),
        cmocka_unit_test(calls_of_a_loop_are_told_apart_by_lines),
        cmocka_unit_test(output_that_is_passed_on_is_no_activation),
        cmocka_unit_test(gradients_go_when_the_next_one_comes),
        cmocka_unit_test(gradients_that_are_added_up_stay),
        cmocka_unit_test(leaner_optimizers_keep_what_they_need),
        cmocka_unit_test(what_a_trace_lacks_is_a_gap),
        cmocka_unit_test(a_change_that_raises_a_peak_is_left_out),
        cmocka_unit_test(settings_of_the_allocator_that_save_nothing_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
