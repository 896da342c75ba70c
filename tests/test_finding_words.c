/* The table of findings: each kind has a change that mends it, and both have words. */
#include "words/finding_words.h"

#include "analysis/advise/observed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool is_of_reserved(mt_pattern pattern)
{
    return (mt_finding_kinds[pattern].properties & MT_FINDS_RESERVED) != 0;
}

static void every_kind_has_a_name_of_its_own_and_words(void **state)
{
    (void)state;
    for (mt_pattern pattern = 0; pattern < MT_PATTERN_COUNT; pattern++) {
        const struct mt_finding_words *words = &mt_finding_words[pattern];
        for (mt_pattern other = 0; other < pattern; other++)
            assert_string_not_equal(mt_finding_kinds[pattern].name, mt_finding_kinds[other].name);
        assert_non_null(words->waste);
        if (is_of_reserved(pattern))
            continue;
        assert_non_null(words->before);
        assert_non_null(words->after);
        assert_non_null(words->mended);
    }
}

/* The change for blocks of several roles is the one for any. */
static void every_kind_has_a_change_for_blocks_of_any_role(void **state)
{
    (void)state;
    bool is_mended[MT_PATTERN_COUNT] = {false};
#define X(change, kind, roles, cost) is_mended[MT_PATTERN_##kind] |= (roles) == 0;
    MT_REMEDIES(X)
#undef X
    for (mt_pattern pattern = 0; pattern < MT_PATTERN_COUNT; pattern++)
        assert_true(is_mended[pattern]);
}

static void every_change_has_words_for_each_program(void **state)
{
    (void)state;
    static const mt_program_kind kinds[] = {MT_PROGRAM_MODEL, MT_PROGRAM_PYTORCH, MT_PROGRAM_LIBRARY,
                                            MT_PROGRAM_WATCHED};
    for (mt_hint hint = 0; hint < MT_HINT_COUNT; hint++)
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            const struct mt_program program = {.kind = kinds[i]};
            struct mt_text words = {0};
            mt_hint_add(hint, &program, &words);
            assert_true(words.length > 0);
            mt_text_release(&words);
        }
}

/* Autocast's cache keeps copies of weights, and del of a variable does not free them. */
static void weight_casts_that_are_freed_late_have_a_change_of_their_own(void **state)
{
    (void)state;
    struct mt_finding finding = {.pattern = MT_PATTERN_LATE_FREE, .role = mt_role_name(MT_ROLE_WEIGHT_CAST)};
    assert_int_equal(mt_finding_hint(&finding), MT_HINT_END_AUTOCAST);
    finding.role = mt_role_name(MT_ROLE_TEMPORARY);
    assert_int_equal(mt_finding_hint(&finding), MT_HINT_FREE_AFTER_USE);
}

/* No variable has what autograd computes in backward. */
static void memory_of_autograd_is_not_to_be_deleted_by_the_program(void **state)
{
    (void)state;
    const struct mt_program program = {.kind = MT_PROGRAM_PYTORCH};
    struct mt_finding finding = {
        .pattern = MT_PATTERN_LATE_FREE, .role = "temporary", .op = "AddmmBackward0", .phase = "backward"};
    struct mt_text autograd = {0}, variable = {0};
    mt_finding_add_hint(&finding, &program, &autograd);
    finding.op = "aten::addmm";
    mt_finding_add_hint(&finding, &program, &variable);
    assert_null(strstr(mt_text_get(&autograd), "del the variable"));
    assert_non_null(strstr(mt_text_get(&variable), "del the variable"));
    mt_text_release(&autograd);
    mt_text_release(&variable);
}

/* Returns whether the words for a PyTorch program have a part. */
static bool hint_has(mt_hint hint, struct mt_program program, const char *part)
{
    struct mt_text words = {0};
    program.kind = MT_PROGRAM_PYTORCH;
    mt_hint_add(hint, &program, &words);
    const bool found = strstr(mt_text_get(&words), part) != NULL;
    mt_text_release(&words);
    return found;
}

static void changes_fit_a_program_that_infers_and_one_that_trains(void **state)
{
    (void)state;
    const struct mt_program infers = {.only_infers = true}, trains = {.runs_backward = true}, unknown = {0},
                            evaluates = {.runs_backward = true, .keeps_graphs = true};
    assert_true(hint_has(MT_HINT_END_AUTOCAST, infers, "cast the weights once"));
    assert_true(hint_has(MT_HINT_END_AUTOCAST, trains, "call backward() after"));
    assert_true(hint_has(MT_HINT_NO_BACKWARD, infers, "no backward pass reads it"));
    assert_true(hint_has(MT_HINT_NO_BACKWARD, unknown, "if no backward follows"));
    assert_false(hint_has(MT_HINT_NO_BACKWARD, trains, "no_grad"));
    assert_true(hint_has(MT_HINT_NO_BACKWARD, evaluates, "no_grad"));
    assert_true(hint_has(MT_HINT_OFFLOAD_PARAMETERS, trains, "average of the weights"));
    assert_false(hint_has(MT_HINT_CHECKPOINT, trains, "average of the weights"));
    assert_false(hint_has(MT_HINT_COPY_AGAIN, trains, "average of the weights"));
}

static void a_holder_has_the_change_of_its_kind(void **state)
{
    (void)state;
    const char *train = "train", *generate = "generate";
    struct mt_holder_row holder = {
        .kind = "variable", .name = "feats", .owner = "", .file = "/home/me/embed.py", .role = "key-value cache"};
    assert_int_equal(mt_holder_change(&holder, generate), MT_OBSERVED_CHANGE_MOVE_TO_HOST);
    holder.is_in_module = true;
    assert_int_equal(mt_holder_change(&holder, generate), MT_OBSERVED_CHANGE_BOUND_CACHE);
    holder.file = "/x/site-packages/torch/optim/lbfgs.py";
    assert_int_equal(mt_holder_change(&holder, train), MT_OBSERVED_CHANGE_HISTORY_SIZE);
    holder.file = "/x/site-packages/transformers/trainer_pt_utils.py";
    assert_int_equal(mt_holder_change(&holder, train), MT_OBSERVED_CHANGE_EVAL_STEPS);
    holder.file = "/x/site-packages/transformers/generation/utils.py";
    assert_int_equal(mt_holder_change(&holder, train), MT_OBSERVED_CHANGE_MOVE_TO_HOST);
    holder.name = "ctx.y";
    assert_int_equal(mt_holder_change(&holder, train), MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD);
}

/* Returns whether the words about blocks of a role that a holder keeps after their last use have a part. */
static bool late_hint_has(const char *role, const struct mt_holder_row *holder, const char *part)
{
    const struct mt_program program = {.kind = MT_PROGRAM_PYTORCH, .runs_backward = true};
    const struct mt_finding finding = {
        .pattern = MT_PATTERN_LATE_FREE, .role = role, .op = "aten::relu", .phase = "forward", .holder = holder};
    struct mt_text words = {0};
    mt_finding_add_hint(&finding, &program, &words);
    const bool found = strstr(mt_text_get(&words), part) != NULL;
    mt_text_release(&words);
    return found;
}

static void what_a_holder_keeps_after_its_last_use_is_to_be_dropped_there(void **state)
{
    (void)state;
    struct mt_holder_row holder = {.kind = "attribute", .name = "self.last", .owner = "T", .file = "", .loop_file = ""};
    holder.role = holder.op = holder.phase = holder.taken_at = "";
    assert_true(late_hint_has("activation", &holder, "set self.last of T to None after its last use, or keep"));
    assert_false(late_hint_has("parameter", &holder, "detach"));
    assert_true(late_hint_has("gradient", NULL, "zero_grad"));
    holder.loop_file = "train.py";
    assert_true(late_hint_has("activation", &holder, "move its tensors to the host"));
    holder.loop_file = "";
    holder.name = "loss";
    assert_true(late_hint_has("activation", &holder, "del the variable"));
    holder.kind = "graph";
    assert_true(late_hint_has("activation", &holder, "keep only the value in loss in T, with tensor.detach()"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_name_of_its_own_and_words),
        cmocka_unit_test(every_kind_has_a_change_for_blocks_of_any_role),
        cmocka_unit_test(every_change_has_words_for_each_program),
        cmocka_unit_test(weight_casts_that_are_freed_late_have_a_change_of_their_own),
        cmocka_unit_test(changes_fit_a_program_that_infers_and_one_that_trains),
        cmocka_unit_test(a_holder_has_the_change_of_its_kind),
        cmocka_unit_test(what_a_holder_keeps_after_its_last_use_is_to_be_dropped_there),
        cmocka_unit_test(memory_of_autograd_is_not_to_be_deleted_by_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
