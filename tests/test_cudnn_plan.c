/* The memory of convolutions on a card, from cuDNN's plans for a card that is not present: against recorded calls on an
 * H200. */
#include "operators/cudnn_plan.h"
#include "operators/cudnn_transform.h"

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
    struct mt_cudnn_plans plans;
    int64_t bytes; /* on the card */
};

static const struct mt_cudnn_plan nothing = {.tile = MT_CUDNN_NO_KNOB,
                                             .step = MT_CUDNN_NO_KNOB,
                                             .split = MT_CUDNN_NO_KNOB,
                                             .cluster_m = MT_CUDNN_NO_KNOB,
                                             .cluster_n = MT_CUDNN_NO_KNOB};

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

static void read_knob(char **text, struct mt_cudnn_plan *out)
{
    const int64_t type = next(text);
    const int16_t value = (int16_t)next(text);
    if (type == 2)
        out->tile = value;
    else if (type == 13)
        out->step = value;
    else if (type == 25)
        out->split = value;
    else if (type == 27)
        out->cluster_m = value;
    else if (type == 28)
        out->cluster_n = value;
}

/* Reads a plan, and the engines that were left out before it. */
static void read_plans(char **text, struct mt_cudnn_plans *out)
{
    struct mt_cudnn_plan *plan = &out->plans[0];
    *plan = nothing;
    out->count = 1;
    plan->engine = (int32_t)next(text);
    plan->workspace_bytes = next(text);
    for (int64_t knobs = next(text); knobs > 0; knobs--)
        read_knob(text, plan);
    out->first_rejected_count = out->rejected_count = next(text);
    for (int64_t i = 0; i < out->rejected_count; i++) {
        out->rejected[i].engine = (int32_t)next(text);
        out->rejected[i].reason = (int32_t)next(text);
    }
}

static struct recorded read_recorded(char *text)
{
    struct recorded out = {0};
    struct mt_convolution_question *question = &out.question;
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
    read_plans(&text, &out.plans);
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
        assert_true(mt_cudnn_plan_answer(version, card, &recorded.question, &recorded.plans, &answer));
        const bool is_equal = answer.workspace_bytes[0] == recorded.bytes;
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
    assert_int_equal(counts.equal, 143); /* not one weight gradient that cuBLASLt cuts into parts */
}

static void answers_that_are_no_estimates_are_right(void **state)
{
    const struct mt_card card = mt_card_reference();
    const struct counts counts = count_recorded(VERSION, &card);
    (void)state;
    assert_int_equal(counts.wrong, 0);
    assert_int_equal(counts.exact, 124); /* the others are products of channels, or near a limit of a scheduler */
}

static void answers_of_other_versions_and_cards_are_estimates(void **state)
{
    struct mt_card card = mt_card_reference();
    (void)state;
    assert_int_equal(count_recorded(91001, &card).exact, 0);
    assert_true(mt_cudnn_is_checked(91902, &card)); /* patch versions are equivalent */
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
                                              const struct mt_cudnn_plans *plans)
{
    const struct mt_card card = mt_card_reference();
    struct mt_convolution_answer answer;
    assert_true(mt_cudnn_plan_answer(VERSION, &card, question, plans, &answer));
    return answer;
}

/* Returns one plan of 7 bytes, after engines that were left out. */
static struct mt_cudnn_plans one_plan(int64_t rejected)
{
    struct mt_cudnn_plans plans = {.count = 1, .rejected_count = rejected, .first_rejected_count = rejected};
    plans.plans[0] = nothing;
    plans.plans[0].engine = 49;
    plans.plans[0].workspace_bytes = 7;
    return plans;
}

static void an_engine_that_is_left_out_replaces_the_plan(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plans plans = one_plan(1);
    (void)state;
    plans.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE}; /* Winograd's */
    assert_int_equal(answer_of(&question, &plans).workspace_bytes[0], 36 * 4 * (128 * 512 + 256 * 256));
    plans.rejected[0].reason = MT_CUDNN_UNSUPPORTED;
    assert_int_equal(answer_of(&question, &plans).workspace_bytes[0], 7);
    assert_false(answer_of(&question, &plans).is_estimate);
}

/* Without a card, cuDNN also lists the engine for filters with which a card does not use it. */
static void filters_that_are_not_square_are_not_winograds(void **state)
{
    struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plans plans = one_plan(1);
    (void)state;
    plans.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE};
    question.w.sizes[2] = 1;
    assert_int_equal(answer_of(&question, &plans).workspace_bytes[0], 7);
    question.w.sizes[2] = 3;
    question.stride[1] = 2;
    assert_int_equal(answer_of(&question, &plans).workspace_bytes[0], 7);
}

static void an_unknown_engine_that_is_left_out_makes_an_estimate(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_FORWARD);
    struct mt_cudnn_plans plans = one_plan(1);
    (void)state;
    plans.rejected[0] = (struct mt_cudnn_rejected){4, MT_CUDNN_NEEDS_HANDLE};
    assert_int_equal(answer_of(&question, &plans).workspace_bytes[0], 7);
    assert_true(answer_of(&question, &plans).is_estimate);
}

/* Writes the sizes of images of N × C × H × W, channels first or last. */
static void set_image(int64_t n, int64_t c, int64_t h, int64_t w, bool is_last, struct mt_convolution_tensor *out)
{
    *out = (struct mt_convolution_tensor){
        {n, c, h, w}, {c * h * w, is_last ? 1 : h * w, is_last ? w * c : w, is_last ? c : 1}, 32};
}

/* Counts over recorded plans. */
struct plan_counts {
    int all, equal, within; /* within: the range of the estimate */
};

/* A product of channels of a line "kind dtype last n c k h w bytes". */
static void count_product(char *text, struct plan_counts *counts)
{
    static const int64_t engines[] = {58, 63, 62};
    const int64_t kind = next(&text), dtype = next(&text), last = next(&text), n = next(&text), c = next(&text),
                  k = next(&text), h = next(&text), w = next(&text), bytes = next(&text);
    struct mt_convolution_question question = {
        .kind = kind, .dtype = dtype, .dims = 4, .allows_tf32 = 1, .stride = {1, 1}, .dilation = {1, 1}};
    struct mt_cudnn_plans plans = one_plan(1);
    set_image(n, c, h, w, last != 0, &question.x);
    set_image(k, c, 1, 1, last != 0, &question.w);
    set_image(n, k, h, w, last != 0, &question.y);
    plans.rejected[0] = (struct mt_cudnn_rejected){(int32_t)engines[kind], MT_CUDNN_NEEDS_HANDLE};
    const struct mt_convolution_answer answer = answer_of(&question, &plans);
    assert_true(answer.is_estimate);
    assert_in_range(answer.workspace_bytes[0], answer.range.low, answer.range.high);
    counts->all++;
    counts->equal += answer.workspace_bytes[0] == bytes;
    counts->within += answer.range.low <= bytes && bytes <= answer.range.high;
}

/* A convolution by Fourier transforms of a line "kind dtype last x w y padding bytes". */
static void count_transform(char *text, struct plan_counts *counts)
{
    struct mt_convolution_question question = {.kind = next(&text), .dtype = next(&text), .dims = 4};
    const bool is_last = next(&text) != 0;
    read_tensor(&text, 4, is_last, &question.x);
    read_tensor(&text, 4, is_last, &question.w);
    read_tensor(&text, 4, is_last, &question.y);
    read_list(&text, 2, question.padding);
    for (int i = 0; i < 2; i++)
        question.stride[i] = question.dilation[i] = 1;
    int64_t bytes = 0;
    assert_true(mt_cudnn_transform_bytes(&question, &bytes));
    counts->all++;
    counts->equal += bytes == next(&text);
}

static struct plan_counts count_plans(const char *path, void (*count)(char *text, struct plan_counts *counts))
{
    FILE *file = fopen(path, "r");
    char line[LONGEST_LINE];
    struct plan_counts counts = {0};
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count(line, &counts);
    fclose(file);
    return counts;
}

static void products_of_channels_are_in_their_ranges(void **state)
{
    const struct plan_counts counts = count_plans(MT_TEST_DATA "/cudnn/products.txt", count_product);
    (void)state;
    assert_int_equal(counts.all, 2548);
    assert_in_range(counts.equal, 1737, counts.all);
    assert_in_range(counts.within, counts.all * 19 / 20, counts.all);
}

static void transforms_have_the_bytes_of_plans_on_the_card(void **state)
{
    const struct plan_counts counts = count_plans(MT_TEST_DATA "/cudnn/transforms.txt", count_transform);
    (void)state;
    assert_int_equal(counts.all, 215);
    assert_in_range(counts.equal, 203, counts.all);
}

static void transforms_have_the_bytes_of_the_card(void **state)
{
    static const struct {
        enum mt_convolution_kind kind;
        int64_t n, c, h, w, k, side, p, q, stride;
        bool is_last;
        int64_t bytes;
    } recorded[] = {
        {MT_CONVOLUTION_FORWARD, 2, 256, 30, 40, 256, 3, 30, 40, 1, false, 2234253312},
        {MT_CONVOLUTION_FORWARD, 32, 3, 6, 6, 96, 4, 7, 7, 1, true, 7730704},
        {MT_CONVOLUTION_WEIGHT_GRADIENT, 64, 3, 8, 8, 8, 4, 5, 5, 1, false, 1673216},
        {MT_CONVOLUTION_INPUT_GRADIENT, 2, 128, 60, 80, 128, 3, 60, 80, 1, false, 75759616},
        {MT_CONVOLUTION_INPUT_GRADIENT, 2, 384, 12, 12, 128, 4, 13, 13, 1, true, 222127120},
        {MT_CONVOLUTION_INPUT_GRADIENT, 32, 512, 14, 14, 512, 3, 7, 7, 2, false, 4953735184},
        {MT_CONVOLUTION_INPUT_GRADIENT, 2, 256, 60, 80, 256, 3, 30, 40, 2, false, 1179760656},
    };
    (void)state;
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        struct mt_convolution_question question = convolution(recorded[i].kind);
        int64_t bytes;
        set_image(recorded[i].n, recorded[i].c, recorded[i].h, recorded[i].w, recorded[i].is_last, &question.x);
        set_image(recorded[i].k, recorded[i].c, recorded[i].side, recorded[i].side, recorded[i].is_last, &question.w);
        set_image(recorded[i].n, recorded[i].k, recorded[i].p, recorded[i].q, recorded[i].is_last, &question.y);
        question.stride[0] = question.stride[1] = recorded[i].stride;
        assert_true(mt_cudnn_transform_bytes(&question, &bytes));
        assert_int_equal(bytes, recorded[i].bytes);
        question.dtype = MT_SCALAR_BF16;
        assert_false(mt_cudnn_transform_bytes(&question, &bytes));
    }
}

/* PyTorch may filter the engine, whose properties can't be queried. */
static void a_filter_makes_an_engine_that_is_left_out_an_estimate(void **state)
{
    struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plans plans = one_plan(1);
    (void)state;
    plans.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE};
    assert_false(answer_of(&question, &plans).is_estimate);
    question.is_deterministic = 1;
    assert_true(answer_of(&question, &plans).is_estimate);
}

static void all_plans_are_answered_in_their_order(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_WEIGHT_GRADIENT);
    struct mt_cudnn_plans plans = one_plan(2);
    (void)state;
    plans.rejected[0] = (struct mt_cudnn_rejected){17, MT_CUDNN_UNSUPPORTED};
    plans.rejected[1] = (struct mt_cudnn_rejected){17, MT_CUDNN_NEEDS_HANDLE};
    plans.first_rejected_count = 1;
    plans.plans[plans.count] = nothing;
    plans.plans[plans.count++].workspace_bytes = 9;
    const struct mt_convolution_answer answer = answer_of(&question, &plans);
    assert_int_equal(answer.count, 3);
    assert_int_equal(answer.workspace_bytes[0], 7);
    assert_int_equal(answer.workspace_bytes[1], 9);
    assert_int_equal(answer.workspace_bytes[2], 36 * 4 * (128 * 512 + 256 * 256)); /* its place is not known */
    assert_false(answer.is_estimate);
}

static void a_plan_that_is_none_has_no_answer(void **state)
{
    const struct mt_convolution_question question = convolution(MT_CONVOLUTION_FORWARD);
    const struct mt_cudnn_plans plans = {0};
    const struct mt_card card = mt_card_reference();
    struct mt_convolution_answer answer;
    (void)state;
    assert_false(mt_cudnn_plan_answer(VERSION, &card, &question, &plans, &answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_have_the_bytes_of_the_card),
        cmocka_unit_test(answers_that_are_no_estimates_are_right),
        cmocka_unit_test(answers_of_other_versions_and_cards_are_estimates),
        cmocka_unit_test(an_engine_that_is_left_out_replaces_the_plan),
        cmocka_unit_test(filters_that_are_not_square_are_not_winograds),
        cmocka_unit_test(an_unknown_engine_that_is_left_out_makes_an_estimate),
        cmocka_unit_test(products_of_channels_are_in_their_ranges),
        cmocka_unit_test(transforms_have_the_bytes_of_plans_on_the_card),
        cmocka_unit_test(transforms_have_the_bytes_of_the_card),
        cmocka_unit_test(a_filter_makes_an_engine_that_is_left_out_an_estimate),
        cmocka_unit_test(all_plans_are_answered_in_their_order),
        cmocka_unit_test(a_plan_that_is_none_has_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
