/* Convolutions: what they ask, and which workspaces they take. */
#include "operator_made.h"

static void a_depthwise_convolution_copies_what_is_not_contiguous(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_conv_depthwise2d"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){2, 8, 4, 4});
    add_tensor(&made, "weight", MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){8, 1, 3, 3});
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){2, 8, 4, 4});
    assert_takes(&made, 0, NULL);
    made.tensors[1].is_contiguous = false;
    assert_takes(&made, 1, (int64_t[]){288});
}

/* Gives a tensor (N, C, H, W) of a call the strides of channels last. */
static void put_channels_last(struct made *made, int tensor)
{
    const int64_t *sizes = made->sizes[tensor];
    const int64_t strides[DIMS] = {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
    memcpy(made->strides[tensor], strides, sizeof strides);
}

static void add_list(struct made *made, const char *name, const int64_t *values)
{
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = values, .count = 2});
}

static const int64_t one_each[] = {1, 1};

/* A convolution of (8, 64, 56, 56) by (64, 64, 3, 3) in bf16, with padding; the input's gradient if `is_gradient`. */
static struct made convolution(bool is_gradient)
{
    enum { NARROW_DTYPE = MT_SCALAR_BF16 };
    const int64_t image[] = {8, 64, 56, 56}, filter[] = {64, 64, 3, 3};
    struct made made = {.call.name =
                            is_gradient ? "aten::cudnn_convolution_input_gradient" : "aten::cudnn_convolution"};
    add_tensor(&made, is_gradient ? "x" : "self", NARROW_DTYPE, NARROW, DIMS, image);
    add_tensor(&made, is_gradient ? "w" : "weight", NARROW_DTYPE, NARROW, DIMS, filter);
    if (is_gradient)
        add_tensor(&made, "y", NARROW_DTYPE, NARROW, DIMS, image);
    else
        add_output(&made, NARROW_DTYPE, NARROW, DIMS, image);
    add_list(&made, "padding", one_each);
    add_list(&made, "stride", one_each);
    add_list(&made, "dilation", one_each);
    return made;
}

/* A test's own answers to questions about convolutions. */
struct answers {
    bool has_answer;
    int asked;
    struct mt_convolution_question question; /* the last one */
};

static bool answer(void *state, const struct mt_card *card, const struct mt_convolution_question *question,
                   const struct mt_convolution_call *call, struct mt_convolution_run *out)
{
    struct answers *answers = state;
    (void)card, (void)call;
    answers->asked++;
    answers->question = *question;
    *out = (struct mt_convolution_run){.answer = {.count = 1, .workspace_bytes = {4242}}};
    return answers->has_answer;
}

/* Returns the bytes that a call takes, added up. `made` stays where it is, since the call points into it. */
static int64_t bytes_of_convolution(struct made *made, struct answers *answers)
{
    struct mt_inner plan[MT_INNER_MOST];
    const struct mt_card card = mt_card_reference();
    const struct mt_convolution_source source = {answer, answers};
    int64_t bytes = 0;
    made->call.arguments = made->arguments;
    made->call.outputs = made->outputs;
    for (int i = 0; i < made->call.argument_count; i++)
        if (made->arguments[i].kind == MT_ARGUMENT_TENSORS) {
            made->tensors[i].sizes = made->sizes[i];
            made->tensors[i].strides = made->strides[i];
            made->arguments[i].tensors = &made->tensors[i];
        }
    for (int i = 0; i < made->call.output_count; i++) {
        made->outputs[i].sizes = made->sizes[made->used - 1];
        made->outputs[i].strides = made->strides[made->used - 1];
    }
    const int count = mt_operator_plan(&card, answers != NULL ? &source : NULL, &made->call, plan);
    for (int i = 0; i < count; i++)
        bytes += plan[i].kind == MT_INNER_TAKE || plan[i].kind == MT_INNER_TRY ? plan[i].bytes : 0;
    return bytes;
}

enum { WEIGHT_BYTES = 64 * 64 * 9 * NARROW };

static void without_answers_a_convolution_copies_what_has_not_its_channels_last(void **state)
{
    struct made forward = convolution(false), gradient = convolution(true), last = convolution(false);
    struct answers none = {0};
    (void)state;
    put_channels_last(&last, 0);
    assert_int_equal(bytes_of_convolution(&forward, NULL), 6496272);
    assert_int_equal(bytes_of_convolution(&gradient, &none), 6496272);
    assert_int_equal(none.asked, 1);
    assert_int_equal(bytes_of_convolution(&last, NULL), WEIGHT_BYTES); /* of the weight's copy */
}

static void a_convolution_takes_the_workspace_of_the_answer(void **state)
{
    struct made forward = convolution(false), gradient = convolution(true);
    struct answers answers = {.has_answer = true};
    (void)state;
    assert_int_equal(bytes_of_convolution(&forward, &answers), 4242);
    assert_int_equal(answers.question.kind, MT_CONVOLUTION_FORWARD);
    assert_int_equal(bytes_of_convolution(&gradient, &answers), 4242);
    assert_int_equal(answers.question.kind, MT_CONVOLUTION_INPUT_GRADIENT);
}

/* If one tensor has its channels last, all are asked for with channels last, and the others are copied first. */
static void a_convolution_is_asked_for_in_one_memory_format(void **state)
{
    struct made mixed = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    put_channels_last(&mixed, 0);
    assert_int_equal(bytes_of_convolution(&mixed, &answers), 4242 + WEIGHT_BYTES);
    const struct mt_convolution_question *question = &answers.question;
    assert_int_equal(question->x.strides[1], 1);
    assert_int_equal(question->w.strides[1], 1);
    assert_int_equal(question->w.strides[3], 64);
    assert_int_equal(question->y.strides[2], 56 * 64);
}

/* A weight that does not begin at the start of its block is aligned less; a copy of it begins there. */
static void a_convolution_names_the_alignment_of_its_tensors(void **state)
{
    struct made aligned = convolution(false), copied = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    aligned.tensors[1].offset = copied.tensors[1].offset = 4;
    put_channels_last(&copied, 0);
    bytes_of_convolution(&aligned, &answers);
    assert_int_equal(answers.question.x.alignment_bytes, 32);
    assert_int_equal(answers.question.w.alignment_bytes, 4 * NARROW);
    bytes_of_convolution(&copied, &answers);
    assert_int_equal(answers.question.w.alignment_bytes, 32);
}

static void a_convolution_in_double_precision_never_has_its_channels_last(void **state)
{
    struct made made = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    put_channels_last(&made, 0);
    for (int i = 0; i < 2; i++)
        made.tensors[i].dtype = MT_SCALAR_DOUBLE;
    bytes_of_convolution(&made, &answers);
    assert_int_equal(answers.question.x.strides[3], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_depthwise_convolution_copies_what_is_not_contiguous),
        cmocka_unit_test(without_answers_a_convolution_copies_what_has_not_its_channels_last),
        cmocka_unit_test(a_convolution_takes_the_workspace_of_the_answer),
        cmocka_unit_test(a_convolution_is_asked_for_in_one_memory_format),
        cmocka_unit_test(a_convolution_names_the_alignment_of_its_tensors),
        cmocka_unit_test(a_convolution_in_double_precision_never_has_its_channels_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
