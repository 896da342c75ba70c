/* What convolutions take on a card, from cuDNN's plans for a card that is not there: against recorded calls on an H200. */
#include "operators/cudnn_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VERSION = 91900, LONGEST_LINE = 1024 };

/* A recorded convolution. */
struct recorded {
    struct mt_convolution_question question;
    struct mt_cudnn_plan plan;
    int64_t bytes; /* on the card */
};

static int64_t next(char **text)
{
    return strtoll(*text, text, 10);
}

static void read_list(char **text, int64_t count, int64_t *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = next(text);
}

/* Reads the sizes of a tensor, and gives it dense strides. */
static void read_tensor(char **text, int64_t dims, bool is_channels_last, struct mt_convolution_tensor *out)
{
    int64_t stride = is_channels_last ? 0 : 1;
    read_list(text, dims, out->sizes);
    if (is_channels_last) {
        out->strides[1] = 1;
        stride = out->sizes[1];
    }
    for (int64_t dim = dims - 1; dim >= 0; dim--)
        if (dim != 1 || !is_channels_last) {
            out->strides[dim] = stride;
            stride *= out->sizes[dim];
        }
}

static struct recorded read_recorded(char *text)
{
    struct recorded out = {0};
    struct mt_convolution_question *question = &out.question;
    struct mt_cudnn_plan *plan = &out.plan;
    question->kind = next(&text);
    question->dtype = next(&text);
    question->dims = next(&text);
    question->allows_tf32 = 1;
    const bool is_channels_last = next(&text) != 0;
    read_tensor(&text, question->dims, is_channels_last, &question->x);
    read_tensor(&text, question->dims, is_channels_last, &question->w);
    read_tensor(&text, question->dims, is_channels_last, &question->y);
    read_list(&text, question->dims - 2, question->padding);
    read_list(&text, question->dims - 2, question->stride);
    read_list(&text, question->dims - 2, question->dilation);
    plan->engine = next(&text);
    plan->workspace_bytes = next(&text);
    plan->knob_count = next(&text);
    read_list(&text, plan->knob_count * 2, (int64_t *)plan->knobs);
    plan->rejected_count = next(&text);
    read_list(&text, plan->rejected_count * 2, (int64_t *)plan->rejected);
    out.bytes = next(&text);
    return out;
}

/* Counts over the recorded convolutions. */
struct counts {
    int all, equal, exact, wrong; /* exact: no estimates; wrong: of these, with other bytes than the card's */
};

static struct counts count_recorded(int64_t version, const struct mt_card *card)
{
    FILE *file = fopen(MT_TEST_DATA "/cudnn/h200.txt", "r");
    char line[LONGEST_LINE];
    struct counts counts = {0};
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const struct recorded recorded = read_recorded(line);
        struct mt_convolution_answer answer;
        assert_true(mt_cudnn_plan_answer(version, card, &recorded.question, &recorded.plan, &answer));
        const bool is_equal = answer.workspace_bytes == recorded.bytes;
        counts.all++;
        counts.equal += is_equal;
        counts.exact += !answer.is_estimate;
        counts.wrong += !answer.is_estimate && !is_equal;
    }
    fclose(file);
    return counts;
}

static void answers_have_the_bytes_of_the_card(void **state)
{
    const struct mt_card card = mt_card_reference();
    const struct counts counts = count_recorded(VERSION, &card);
    (void)state;
    assert_int_equal(counts.all, 144);
    assert_int_equal(counts.equal, 141); /* not three weight gradients that cuBLASLt cuts into parts */
}

static void answers_that_are_no_estimates_are_right(void **state)
{
    const struct mt_card card = mt_card_reference();
    const struct counts counts = count_recorded(VERSION, &card);
    (void)state;
    assert_int_equal(counts.wrong, 0);
    assert_int_equal(counts.exact, 126); /* the others are products of channels */
}

static void answers_of_other_versions_and_cards_are_estimates(void **state)
{
    struct mt_card card = mt_card_reference();
    (void)state;
    assert_int_equal(count_recorded(91001, &card).exact, 0);
    assert_true(mt_cudnn_is_checked(91902, &card)); /* patches are alike */
    assert_true(mt_card_find("h100", &card));
    assert_int_equal(count_recorded(VERSION, &card).exact, 0);
}

/* A convolution (8, 256, 14, 14) by (256, 256, 3, 3) in fp32. */
static struct mt_convolution_question convolution(enum mt_convolution_kind kind)
{
    struct mt_convolution_question question = {.kind = kind, .dtype = MT_SCALAR_FLOAT, .dims = 4, .allows_tf32 = 1};
    question.x = question.y = (struct mt_convolution_tensor){{8, 256, 14, 14}, {50176, 196, 14, 1}, 32};
    question.w = (struct mt_convolution_tensor){{256, 256, 3, 3}, {2304, 9, 3, 1}, 32};
    for (int i = 0; i < 2; i++)
        question.padding[i] = question.stride[i] = question.dilation[i] = 1;
    return question;
}

static struct mt_convolution_answer answer_of(const struct mt_convolution_question *question,
                                              const struct mt_cudnn_plan *plan)
{
    const struct mt_card card = mt_card_reference();
    struct mt_convolution_answer answer;
    assert_true(mt_cudnn_plan_answer(VERSION, &card, question, plan, &answer));
    return answer;
}

static void an_engine_that_is_left_out_replaces_the_plan(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plan plan = {.engine = 49, .workspace_bytes = 7, .rejected_count = 1};
    (void)state;
    plan.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE}; /* Winograd's */
    assert_int_equal(answer_of(&question, &plan).workspace_bytes, 36 * 4 * (128 * 512 + 256 * 256));
    plan.rejected[0].reason = MT_CUDNN_UNSUPPORTED;
    assert_int_equal(answer_of(&question, &plan).workspace_bytes, 7);
    assert_false(answer_of(&question, &plan).is_estimate);
}

static void an_unknown_engine_that_is_left_out_makes_an_estimate(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_FORWARD);
    struct mt_cudnn_plan plan = {.engine = 49, .workspace_bytes = 7, .rejected_count = 1};
    (void)state;
    plan.rejected[0] = (struct mt_cudnn_rejected){3, MT_CUDNN_NEEDS_HANDLE};
    assert_int_equal(answer_of(&question, &plan).workspace_bytes, 7);
    assert_true(answer_of(&question, &plan).is_estimate);
}

/* PyTorch may filter the engine, which can't be asked for its properties. */
static void a_filter_makes_an_engine_that_is_left_out_an_estimate(void **state)
{
    struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plan plan = {.engine = 49, .workspace_bytes = 7, .rejected_count = 1};
    (void)state;
    plan.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE};
    assert_false(answer_of(&question, &plan).is_estimate);
    question.is_deterministic = 1;
    assert_true(answer_of(&question, &plan).is_estimate);
}

static void the_fastest_plan_is_an_estimate(void **state)
{
    struct mt_convolution_question question = convolution(MT_CONVOLUTION_FORWARD);
    const struct mt_cudnn_plan plan = {.engine = 49, .workspace_bytes = 7};
    (void)state;
    assert_false(answer_of(&question, &plan).is_estimate);
    question.is_benchmarked = 1;
    assert_true(answer_of(&question, &plan).is_estimate);
}

static void a_plan_that_is_none_has_no_answer(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_FORWARD);
    const struct mt_cudnn_plan plan = {.engine = -1};
    const struct mt_card card = mt_card_reference();
    struct mt_convolution_answer answer;
    (void)state;
    assert_false(mt_cudnn_plan_answer(VERSION, &card, &question, &plan, &answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_have_the_bytes_of_the_card),
        cmocka_unit_test(answers_that_are_no_estimates_are_right),
        cmocka_unit_test(answers_of_other_versions_and_cards_are_estimates),
        cmocka_unit_test(an_engine_that_is_left_out_replaces_the_plan),
        cmocka_unit_test(an_unknown_engine_that_is_left_out_makes_an_estimate),
        cmocka_unit_test(a_filter_makes_an_engine_that_is_left_out_an_estimate),
        cmocka_unit_test(the_fastest_plan_is_an_estimate),
        cmocka_unit_test(a_plan_that_is_none_has_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
