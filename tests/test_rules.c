/* Rules over who asked for a block, and what they rest on: patterns, call stacks, and the operators of forward that
 * nodes of backward undo. */
#include "producers/file/forward_tape.h"
#include "producers/file/glob.h"
#include "producers/file/rules.h"

#include "producers/file/json_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void patterns_fit_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool fits;
    } cases[] = {
        {"softmax", "softmax", true},
        {"softmax", "softmax_", false},
        {"*softmax", "log_softmax", true},
        {"*a*b", "xaxbxb", true},
        {"*a*b", "xbxa", false},
        {"a|b*|c", "bcd", true},
        {"a|b*|c", "cd", false},
        {"", "", true},
        {"", "x", false},
        {"*", "", true},
        {"a**b", "ab", true},
        {"|x", "x", true},
        {"*aaaa*aaab", "aaaaaaaaab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (mt_glob_fits(cases[i].pattern, cases[i].text) != cases[i].fits)
            fail_msg("%s, %s", cases[i].pattern, cases[i].text);
}

static void a_file_may_be_the_end_of_a_path(void **state)
{
    (void)state;
    assert_true(mt_glob_fits_file("model.py", "/home/me/model.py"));
    assert_true(mt_glob_fits_file("me/*.py", "/home/me/model.py"));
    assert_true(mt_glob_fits_file("model.py", "model.py"));
    assert_false(mt_glob_fits_file("model.py", "/home/me/mymodel.py"));
    assert_false(mt_glob_fits_file("home/me", "/home/me/model.py"));
}

/* A call stack in JSON. */
struct reading {
    struct mt_value_store *store;
    struct mt_call_frames *known;
    struct mt_value frames;
    struct mt_call_stack stack;
};

static void read_stack(struct reading *reading, const char *json)
{
    const struct mt_value_limits limits = mt_value_limits_of(strlen(json), UINT64_MAX);
    reading->store = mt_value_store_create(&limits);
    reading->known = mt_call_frames_create();
    assert_int_equal(mt_json_read((const unsigned char *)json, strlen(json), reading->store, &reading->frames), MT_OK);
    mt_call_stack_read(&reading->frames, reading->known, &reading->stack);
}

static void release_stack(struct reading *reading)
{
    mt_call_stack_release(&reading->stack);
    mt_call_frames_destroy(reading->known);
    mt_value_store_destroy(reading->store);
}

#define FRAME(name, file, line) "{\"name\":\"" name "\",\"filename\":\"" file "\",\"line\":" #line "}"
#define NATIVE(name) FRAME(name, "??", 0)

static void a_stack_tells_operator_and_node(void **state)
{
    (void)state;
    static const char product_in_backward[] =
        "[" NATIVE("at::_ops::mul_Tensor::redispatch(c10::DispatchKeySet)") ", "                             //
        NATIVE("torch::autograd::VariableType::(anonymous namespace)::mul_Tensor(c10::DispatchKeySet)") ", " //
        NATIVE("at::_ops::mul_Tensor::call(at::Tensor const&)") ", "                                         //
        NATIVE("torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)") ", "            //
        NATIVE("torch::autograd::Engine::evaluate_function(int)") "]";
    struct reading reading;
    read_stack(&reading, product_in_backward);
    assert_string_equal(reading.stack.operation, "mul_Tensor");
    assert_string_equal(reading.stack.recorded, "mul_Tensor");
    assert_string_equal(reading.stack.node, "MulBackward0");
    assert_string_equal(mt_call_stack_op(&reading.stack, mt_call_frames_names(reading.known)), "mul");
    assert_true(mt_call_stack_is_backward(&reading.stack));
    assert_false(mt_call_stack_is_between(&reading.stack));
    assert_false(mt_call_stack_is_forward(&reading.stack));
    release_stack(&reading);
}

/* Such as a gradient that the engine casts. */
static void the_engine_asks_between_nodes(void **state)
{
    (void)state;
    struct reading reading;
    read_stack(&reading, "[" NATIVE("torch::autograd::Engine::evaluate_function(int)") "]");
    assert_true(mt_call_stack_is_between(&reading.stack));
    release_stack(&reading);
}

/* Operators that a checkpoint repeats are forward, though the engine requests them. */
static void recomputation_is_forward(void **state)
{
    (void)state;
    struct reading reading;
    read_stack(&reading, "[" NATIVE("torch::autograd::VariableType::(anonymous namespace)::exp(int)") "," FRAME(
                             "recompute_fn", "lib/torch/utils/checkpoint.py",
                             7) "," NATIVE("torch::autograd::Engine::thread_main(int)") "]");
    assert_true(mt_call_stack_is_forward(&reading.stack));
    assert_false(mt_call_stack_is_backward(&reading.stack));
    release_stack(&reading);
}

static void nodes_undo_their_operators(void **state)
{
    (void)state;
    assert_true(mt_node_undoes("MulBackward0", "mul_Tensor"));
    assert_true(mt_node_undoes("ToCopyBackward0", "_to_copy"));
    assert_true(mt_node_undoes("NativeLayerNormBackward0", "native_layer_norm"));
    assert_true(mt_node_undoes("SumBackward1", "sum_dim_IntList"));
    assert_false(mt_node_undoes("AddBackward0", "addmm"));
    assert_false(mt_node_undoes("AddmmBackward0", "add_Tensor"));
    assert_false(mt_node_undoes("AccumulateGrad", "accumulate"));
    assert_false(mt_node_undoes("Backward", "x"));
    assert_false(mt_node_undoes("MulBackward0", ""));
}

/* A stack of forward, at model.py:10 in `forward`, with an operator. */
static const char stack_json[] = "[" NATIVE("at::_ops::pow_Tensor_Scalar::call(int)") "," FRAME(
    "forward", "code/model.py", 10) "," FRAME("train", "code/main.py", 20) "]";

/* Asks the rules about a block of 1000 bytes. */
static struct mt_rule_answer ask(const struct mt_rules *rules, const struct mt_rule_subject *subject)
{
    struct reading reading;
    struct mt_rule_choice choice;
    struct mt_rule_answer answer;
    read_stack(&reading, stack_json);
    struct mt_frame_matches *matches = mt_rules_match_frames(rules);
    mt_rules_choose(rules, matches, &reading.stack, &choice);
    mt_frame_matches_destroy(matches);
    mt_rules_ask(rules, &choice, subject, &answer);
    mt_rule_choice_release(&choice);
    release_stack(&reading);
    return answer;
}

/* Frames that differ in the line alone, and frames of both languages with one name, are told apart. */
static void frames_that_came_before_fit_the_same_rules(void **state)
{
    (void)state;
    static const char json[] = "[[" FRAME("f", "a.py", 1) "],[" FRAME("f", "a.py", 2) "],[" NATIVE("f") "],[" NATIVE(
        "f") "," FRAME("f", "a.py", 2) "],[" FRAME("f", "b.py", 1) "," FRAME("g", "a.py", 1) "]]";
    static const uint32_t fitting[] = {2, 1, 1, 2, 3};
    enum { COUNT = sizeof fitting / sizeof fitting[0] };
    struct reading all;
    struct mt_rules *rules = mt_rules_create();
    assert_int_equal(mt_rules_add(rules, "mine",
                                  "function=f -> op=a\nfile=a.py line=1 -> op=b\nnative=f -> op=c\n"
                                  "function=g -> op=d\n"),
                     MT_OK);
    struct mt_frame_matches *matches = mt_rules_match_frames(rules);
    read_stack(&all, json);
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        struct mt_call_stack stack;
        struct mt_rule_choice choice;
        mt_call_stack_read(mt_value_at(&all.frames, i % COUNT), all.known, &stack);
        mt_rules_choose(rules, matches, &stack, &choice);
        assert_int_equal(choice.count, fitting[i % COUNT]);
        mt_rule_choice_release(&choice);
        mt_call_stack_release(&stack);
    }
    release_stack(&all);
    mt_frame_matches_destroy(matches);
    mt_rules_destroy(rules);
}

/* Pickles of others have a dict for each frame of each stack. */
static void equal_frames_are_one(void **state)
{
    (void)state;
    struct reading reading;
    read_stack(&reading, "[" FRAME("f", "a.py", 1) ",{\"line\":1,\"filename\":\"a.py\",\"name\":\"f\"}," FRAME(
                             "f", "a.py", 2) ",7,\"f\"]");
    assert_int_equal(reading.stack.frame_count, 5);
    assert_ptr_equal(reading.stack.frames[0], reading.stack.frames[1]);
    assert_ptr_not_equal(reading.stack.frames[0], reading.stack.frames[2]);
    assert_string_equal(reading.stack.frames[3]->name, "");
    assert_ptr_equal(reading.stack.frames[3], reading.stack.frames[4]);
    release_stack(&reading);
}

static bool fits(const char *condition)
{
    char line[256];
    static const struct mt_call_frame gate = {.name = "gate", .file = "my/ffn.py", .line = 30, .is_python = true};
    const struct mt_call_frame *frames[] = {&gate};
    const struct mt_call_stack undone = {.frames = frames, .frame_count = 1, .node = ""};
    static const char *const said[] = {"step", "warm-up"};
    const struct mt_rule_subject subject = {.bytes = 1000,
                                            .metadata = "mine",
                                            .annotations = said,
                                            .annotation_count = 2,
                                            .phase = MT_PHASE_FORWARD,
                                            .undone = &undone};
    struct mt_rules *rules = mt_rules_create();
    snprintf(line, sizeof line, "%s -> op=x", condition);
    if (mt_rules_add(rules, "test", line) != MT_OK)
        fail_msg("%s: %s", line, mt_last_error());
    bool found = ask(rules, &subject).op != NULL;
    mt_rules_destroy(rules);
    return found;
}

static void each_condition_is_asked(void **state)
{
    (void)state;
    static const char *const fitting[] = {"function=forward",
                                          "file=model.py line=10",
                                          "line=5-10",
                                          "line=10-",
                                          "operator=pow_*",
                                          "native=at::_ops::*",
                                          "node=\"\"",
                                          "size=1000",
                                          "size=500-1KiB",
                                          "size=-1000",
                                          "metadata=mine",
                                          "annotation=warm*",
                                          "recorded",
                                          "phase=loss|forward",
                                          "temporary",
                                          "forward-unknown",
                                          "",
                                          "undone file=ffn.py line=30",
                                          "undone function=gate operator=pow_*",
                                          "function=train file=main.py"};
    static const char *const others[] = {"function=forwards",
                                         "file=model.py line=11",
                                         "line=21-",
                                         "operator=pow",
                                         "native=forward",
                                         "node=*Backward0",
                                         "size=1001-",
                                         "size=-999",
                                         "metadata=your*",
                                         "annotation=cold",
                                         "before",
                                         "phase=loss",
                                         "outlives",
                                         "forward-known",
                                         "halves-parameter",
                                         "undone file=model.py",
                                         "undone function=gate line=31",
                                         "undone function=gate operator=mul",
                                         "function=train file=model.py"};
    for (size_t i = 0; i < sizeof fitting / sizeof fitting[0]; i++)
        if (!fits(fitting[i]))
            fail_msg("does not fit: %s", fitting[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (fits(others[i]))
            fail_msg("fits: %s", others[i]);
}

static void of_each_thing_the_first_rule_counts(void **state)
{
    (void)state;
    const struct mt_rule_subject subject = {.bytes = 1000, .metadata = "", .phase = MT_PHASE_FORWARD};
    struct mt_rules *rules = mt_rules_create();
    assert_int_equal(mt_rules_add(rules, "first", "# a comment\n\nfunction=forward -> role=input # and its end\n"),
                     MT_OK);
    assert_int_equal(mt_rules_add(rules, "second",
                                  "function=other -> category=FFN\n"
                                  "function=forward -> category=\"My own\" role=gradient\r\n"
                                  "-> category=Norm op=last step phase=loss"),
                     MT_OK);
    struct mt_rule_answer answer = ask(rules, &subject);
    assert_string_equal(answer.category, "My own");
    assert_int_equal(answer.role, MT_ROLE_INPUT);
    assert_string_equal(answer.op, "last");
    assert_int_equal(answer.phase, MT_PHASE_LOSS);
    assert_true(answer.begins_step);
    assert_null(answer.span);
    mt_rules_destroy(rules);
}

static void what_is_no_rule_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "function=x",
        "function=x ->",
        "function=x -> -> op=y",
        "-> color=red",
        "-> category=",
        "-> role=king",
        "-> phase=breakfast",
        "color=red -> op=y",
        "line=9-3 -> op=y",
        "line=x -> op=y",
        "size=5-3 -> op=y",
        "size=big -> op=y",
        "phase= -> op=y",
        "phase=x -> op=y",
        "function=\"x -> op=y",
        "before=1 -> op=y",
        "-> op=x op=y",
        "file=a file=b -> op=y",
        "phase=loss -> phase=forward",
        "outlives -> phase=forward",
        "undone function=x -> phase=forward",
        "undone -> op=y",
        "undone operator=x -> op=y",
        "= -> op=x",
        "-> =x",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[128];
        struct mt_rules *rules = mt_rules_create();
        snprintf(text, sizeof text, "-> op=fine\n%s\n", wrong[i]);
        if (mt_rules_add(rules, "bad.rules", text) != MT_USAGE)
            fail_msg("accepted: %s", wrong[i]);
        if (strstr(mt_last_error(), "bad.rules, line 2") == NULL)
            fail_msg("%s: %s", wrong[i], mt_last_error());
        mt_rules_destroy(rules);
    }
}

/* A trace has 64 categories. A file that names more is refused, rather than leaving blocks without one. */
static void no_more_categories_are_said_than_there_can_be(void **state)
{
    (void)state;
    char line[64];
    struct mt_rules *rules = mt_rules_create();
    for (int i = MT_CATEGORY_COUNT; i < MT_MOST_CATEGORIES; i++) {
        snprintf(line, sizeof line, "size=%d -> category=C%d", i, i);
        assert_int_equal(mt_rules_add(rules, "mine", line), MT_OK);
    }
    assert_int_equal(mt_rules_add(rules, "mine", "size=1 -> category=C63"), MT_OK);
    assert_int_equal(mt_rules_add(rules, "mine", "size=1 -> category=Other"), MT_OK);
    assert_int_equal(mt_rules_add(rules, "mine", "size=1 -> category=Norm"), MT_OK);
    assert_int_equal(mt_rules_add(rules, "mine", "\nsize=1 -> category=\"One more\""), MT_USAGE);
    assert_string_equal(mt_last_error(), "mine, line 2: with \"One more\" there are more than 64 categories, memtrace's"
                                         " own included: name fewer");
    mt_rules_destroy(rules);
}

static void built_in_rules_are_rules(void **state)
{
    (void)state;
    struct mt_rules *rules = mt_rules_create();
    if (mt_rules_add_built_in(rules) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_true(mt_rules_count(rules) > 50);
    mt_rules_destroy(rules);
}

/* Returns the current operator's category after a node ran. */
static int undo(struct mt_forward_tape *tape, const char *node)
{
    if (!mt_forward_tape_undo(tape, node, 1024))
        return -1;
    return (int)mt_forward_tape_current(tape)->category;
}

/* A norm, two products in a row and a gate; then backward, twice. */
static void nodes_go_back_over_what_ran(void **state)
{
    (void)state;
    static const char mul[] = "mul_Tensor", rsqrt[] = "rsqrt", bmm[] = "bmm", sigmoid[] = "sigmoid";
    static const char mul_node[] = "MulBackward0", view_node[] = "ViewBackward0";
    const struct mt_forward_op ops[] = {
        {rsqrt, MT_CATEGORY_NORM, 1, 1, 64},    {mul, MT_CATEGORY_NORM, 2, 2, 1024},
        {mul, MT_CATEGORY_NORM, 2, 2, 1024},    {bmm, MT_CATEGORY_EINSUM, 3, 3, 1024},
        {sigmoid, MT_CATEGORY_FFN, 4, 4, 1024}, {mul, MT_CATEGORY_FFN, 5, 5, 1024},
    };
    struct mt_forward_tape *tape = mt_forward_tape_create();
    assert_null(mt_forward_tape_current(tape));
    for (int step = 0; step < 2; step++) {
        for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
            mt_forward_tape_add(tape, &ops[i]);
        assert_int_equal(undo(tape, mul_node), MT_CATEGORY_FFN);
        assert_int_equal(undo(tape, mul_node), MT_CATEGORY_FFN); /* the same node */
        assert_int_equal(undo(tape, "SigmoidBackward0"), MT_CATEGORY_FFN);
        assert_int_equal(undo(tape, "BmmBackward0"), MT_CATEGORY_EINSUM);
        assert_int_equal(mt_forward_tape_source(tape)->category, MT_CATEGORY_NORM);
        assert_int_equal(undo(tape, view_node), -1);
        assert_int_equal(mt_forward_tape_current(tape)->category, MT_CATEGORY_EINSUM);
        assert_int_equal(undo(tape, mul_node), MT_CATEGORY_NORM);
        assert_int_equal(undo(tape, "RsqrtBackward0"), MT_CATEGORY_NORM);
        assert_int_equal(undo(tape, mul_node), -1); /* all of them are undone */
        assert_null(mt_forward_tape_source(tape));
    }
    mt_forward_tape_destroy(tape);
}

/* An addition passes its gradient on and allocates nothing: it is known by backward's position. */
static void an_addition_is_passed_unseen(void **state)
{
    (void)state;
    struct mt_forward_tape *tape = mt_forward_tape_create();
    assert_null(mt_forward_tape_passed(tape));
    mt_forward_tape_add(tape, &(struct mt_forward_op){"mul_Tensor", MT_CATEGORY_FFN, 1, 1, 1024});
    mt_forward_tape_add(tape, &(struct mt_forward_op){"add_Tensor", MT_CATEGORY_BLOCK, 2, 2, 1024});
    mt_forward_tape_add(tape, &(struct mt_forward_op){"addmm", MT_CATEGORY_EINSUM, 3, 3, 1024});
    mt_forward_tape_add(tape, &(struct mt_forward_op){"pow_Tensor_Scalar", MT_CATEGORY_NORM, 4, 4, 1024});
    assert_int_equal(undo(tape, "PowBackward0"), MT_CATEGORY_NORM);
    assert_int_equal(mt_forward_tape_passed(tape)->category, MT_CATEGORY_NORM); /* addmm is no addition */
    assert_int_equal(undo(tape, "AddmmBackward0"), MT_CATEGORY_EINSUM);
    assert_int_equal(mt_forward_tape_passed(tape)->category, MT_CATEGORY_BLOCK);
    assert_int_equal(mt_forward_tape_current(tape)->category, MT_CATEGORY_EINSUM);
    assert_int_equal(undo(tape, "MulBackward0"), MT_CATEGORY_FFN);
    assert_int_equal(mt_forward_tape_passed(tape)->category, MT_CATEGORY_FFN);
    mt_forward_tape_destroy(tape);
}

/* A loss that is multiplied in place takes nothing in forward. Its node takes a scalar in backward. */
static void a_scalar_does_not_undo_a_tensor(void **state)
{
    (void)state;
    struct mt_forward_tape *tape = mt_forward_tape_create();
    mt_forward_tape_add(tape, &(struct mt_forward_op){"mul_Tensor", MT_CATEGORY_FFN, 1, 1, 1024});
    mt_forward_tape_add(tape, &(struct mt_forward_op){"nll_loss", MT_CATEGORY_LOSS, 2, 2, 4});
    assert_false(mt_forward_tape_undo(tape, "MulBackward0", 4));
    assert_int_equal(undo(tape, "NllLossBackward0"), MT_CATEGORY_LOSS);
    assert_int_equal(undo(tape, "MulBackward0"), MT_CATEGORY_FFN);
    mt_forward_tape_add(tape, &(struct mt_forward_op){"mul_Tensor", MT_CATEGORY_LOSS, 3, 3, 4});
    assert_true(mt_forward_tape_undo(tape, "MulBackward0", 4));
    mt_forward_tape_destroy(tape);
}

/* Operators that a checkpoint repeats within backward are undone first, and then those before it. */
static void forward_within_backward_goes_on_from_there(void **state)
{
    (void)state;
    static const char exp_op[] = "exp", mul[] = "mul_Tensor";
    struct mt_forward_tape *tape = mt_forward_tape_create();
    mt_forward_tape_add(tape, &(struct mt_forward_op){exp_op, MT_CATEGORY_SOFTMAX, 1, 1, 1024});
    mt_forward_tape_add(tape, &(struct mt_forward_op){mul, MT_CATEGORY_LOSS, 2, 2, 1024});
    assert_int_equal(undo(tape, "MulBackward0"), MT_CATEGORY_LOSS);
    mt_forward_tape_add(tape, &(struct mt_forward_op){mul, MT_CATEGORY_FFN, 3, 3, 1024});
    assert_int_equal(undo(tape, "MulBackward0"), MT_CATEGORY_FFN);
    assert_int_equal(undo(tape, "ExpBackward0"), MT_CATEGORY_SOFTMAX);
    assert_int_equal(undo(tape, "MulBackward0"), -1);
    mt_forward_tape_destroy(tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_fit_whole_names),
        cmocka_unit_test(a_file_may_be_the_end_of_a_path),
        cmocka_unit_test(a_stack_tells_operator_and_node),
        cmocka_unit_test(the_engine_asks_between_nodes),
        cmocka_unit_test(recomputation_is_forward),
        cmocka_unit_test(nodes_undo_their_operators),
        cmocka_unit_test(frames_that_came_before_fit_the_same_rules),
        cmocka_unit_test(equal_frames_are_one),
        cmocka_unit_test(each_condition_is_asked),
        cmocka_unit_test(of_each_thing_the_first_rule_counts),
        cmocka_unit_test(what_is_no_rule_is_refused_with_its_line),
        cmocka_unit_test(no_more_categories_are_said_than_there_can_be),
        cmocka_unit_test(built_in_rules_are_rules),
        cmocka_unit_test(nodes_go_back_over_what_ran),
        cmocka_unit_test(an_addition_is_passed_unseen),
        cmocka_unit_test(a_scalar_does_not_undo_a_tensor),
        cmocka_unit_test(forward_within_backward_goes_on_from_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
