/* The ways to compute attention: the same result, with three, one, one or no tensors of size T² that forward keeps. */
#include "alloc_opening.h"
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { KINDS = MT_ATTENTION_FLASH + 1, LAYERS = 2, STEPS = 3, BATCH = 2, HEADS = 3, SEQ = 40 };

static const char *const kind_names[KINDS] = {"custom", "softmax", "weights", "flash"};

static struct mt_training_config config_of(mt_attention_kind kind, bool autocast)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 53, .d_model = HEADS * 16, .d_ff = 64, .layers = LAYERS, .heads = HEADS};
    config.attention = kind;
    config.autocast = autocast;
    config.init = MT_INIT_REFERENCE;
    config.data = MT_DATA_REFERENCE;
    config.batch = BATCH;
    config.seq = SEQ;
    config.steps = STEPS;
    return config;
}

struct losses {
    double at[STEPS];
};

static void keep_loss(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)step_ms;
    ((struct losses *)context)->at[step] = loss;
}

static struct losses losses_of(const struct mt_training_config *config)
{
    struct recording recording;
    struct losses losses = {{0}};
    struct mt_training_observer observer = {.context = &losses, .step_done = keep_loss};
    recording_open(&recording);
    if (recording_train(&recording, "cpu:1GiB", "", config, &observer, NULL) != MT_OK)
        fail_msg("%s: %s", kind_names[config->attention], mt_last_error());
    recording_close(&recording);
    return losses;
}

/* The tolerances are the same as for the golden cases. */
static void expect_equal_losses(bool autocast, bool rope, mt_dtype dtype, double tolerance)
{
    struct mt_training_config config = config_of(MT_ATTENTION_CUSTOM, autocast);
    config.model.rope = rope;
    config.parameter_dtype = dtype;
    struct losses custom = losses_of(&config);
    assert_true(custom.at[STEPS - 1] < custom.at[0]);
    for (int kind = MT_ATTENTION_SOFTMAX; kind < KINDS; kind++) {
        config.attention = (mt_attention_kind)kind;
        struct losses losses = losses_of(&config);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(losses.at[step] - custom.at[step]) <= tolerance))
                fail_msg("%s, step %d: loss %.9g, custom's %.9g", kind_names[kind], step, losses.at[step],
                         custom.at[step]);
    }
}

static void all_ways_train_alike(void **state)
{
    (void)state;
    expect_equal_losses(false, false, MT_F32, 1e-5);
    expect_equal_losses(false, true, MT_F64, 1e-10);
    expect_equal_losses(true, true, MT_F32, 3e-3);
}

static bool is_square(const struct mt_label *label)
{
    return label->dims >= 2 && label->shape[label->dims - 1] == SEQ && label->shape[label->dims - 2] == SEQ;
}

/* The blocks of shape (…,T,T), or (BH,T,T), that are live when the last backward begins. */
struct kept {
    int floating, masks;
    uint64_t bytes; /* of the floating ones */
};

static struct kept squares_before_backward(const struct mt_training_config *config)
{
    struct recording recording;
    struct kept kept = {0}, at_backward = {0};
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
            at_backward = kept;
        if (event->kind != MT_EVENT_ALLOC && event->kind != MT_EVENT_FREE)
            continue;
        const struct mt_label *label = recording_label_of(&recording, event);
        int change = event->kind == MT_EVENT_ALLOC ? 1 : -1;
        if (!is_square(label))
            continue;
        *(label->dtype == MT_BOOL ? &kept.masks : &kept.floating) += change;
        if (label->dtype != MT_BOOL)
            kept.bytes += (uint64_t)change * event->requested_bytes;
    }
    assert_int_equal(kept.floating + kept.masks, 0);
    recording_close(&recording);
    return at_backward;
}

static void each_way_keeps_its_number_of_squares(void **state)
{
    (void)state;
    static const struct {
        int floating[2], masks, bytes[2]; /* a layer, in fp32 and under autocast; bytes an element */
    } expected[KINDS] = {{{3, 3}, 1, {12, 8}}, {{1, 2}, 1, {4, 6}}, {{1, 1}, 0, {4, 2}}, {{0, 0}, 0, {0, 0}}};
    for (int kind = 0; kind < KINDS; kind++)
        for (int autocast = 0; autocast < 2; autocast++) {
            struct mt_training_config config = config_of((mt_attention_kind)kind, autocast != 0);
            struct kept kept = squares_before_backward(&config);
            print_message("%s%s: %d squares\n", kind_names[kind], autocast ? ", autocast" : "", kept.floating);
            assert_int_equal(kept.floating, LAYERS * expected[kind].floating[autocast]);
            assert_int_equal(kept.masks, LAYERS * expected[kind].masks);
            assert_int_equal(kept.bytes,
                             (uint64_t)LAYERS * BATCH * HEADS * SEQ * SEQ * (uint64_t)expected[kind].bytes[autocast]);
        }
}

/* At no time in the step, neither kept nor as a temporary. */
static void flash_makes_no_square_at_all(void **state)
{
    (void)state;
    for (int autocast = 0; autocast < 2; autocast++) {
        struct mt_training_config config = config_of(MT_ATTENTION_FLASH, autocast != 0);
        struct recording recording;
        recording_open(&recording);
        assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
        for (size_t i = 0; i < recording.count; i++)
            if (recording.events[i].kind == MT_EVENT_ALLOC)
                assert_false(is_square(recording_label_of(&recording, &recording.events[i])));
        recording_close(&recording);
    }
}

static int log_sum_exps_of(const struct mt_training_config *config)
{
    struct recording recording;
    int count = 0;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++)
        count += recording.events[i].kind == MT_EVENT_ALLOC &&
                 strstr(recording_label_of(&recording, &recording.events[i])->op, ".lse") != NULL;
    recording_close(&recording);
    return count;
}

/* Only backward reads it. */
static void without_gradients_there_is_no_log_sum_exp(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mt_training_config config = config_of(MT_ATTENTION_FLASH, false);
        config.implementation = i == 0 ? MT_IMPLEMENTATION_EAGER : MT_IMPLEMENTATION_FUSED;
        assert_int_equal(log_sum_exps_of(&config), LAYERS * STEPS);
        config.mode = MT_MODE_INFER;
        assert_int_equal(log_sum_exps_of(&config), 0);
    }
}

static void flash_refuses_heads_that_its_kernels_do_not_take(void **state)
{
    (void)state;
    static const struct {
        int64_t d_model, heads;
        mt_status status;
    } cases[] = {{16, 1, MT_OK},   {128, 1, MT_OK},   {160, 2, MT_OK},    {48, 2, MT_OK},
                 {8, 1, MT_USAGE}, {20, 1, MT_USAGE}, {136, 1, MT_USAGE}, {2560, 10, MT_USAGE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_training_config config = config_of(MT_ATTENTION_FLASH, false);
        config.model.d_model = cases[i].d_model;
        config.model.heads = cases[i].heads;
        assert_int_equal(mt_training_config_check(&config), cases[i].status);
        if (cases[i].status != MT_OK)
            assert_non_null(strstr(mt_last_error(), "heads of 16 to 128 features"));
        config.attention = MT_ATTENTION_CUSTOM;
        assert_int_equal(mt_training_config_check(&config), MT_OK);
    }
}

/* Trains on the CPU with a table that lacks these ops. */
static mt_status train_without(mt_attention_kind kind, struct mtk_table kernels)
{
    struct mt_training_config config = config_of(kind, false);
    struct mt_alloc_stats stats;
    struct recording recording;
    recording_open(&recording);
    struct mt_sink sink = recording_sink(&recording);
    struct mt_device *device = open_device("cpu:1GiB");
    device->kernels = &kernels;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    mt_status status = mt_training_run(device, alloc, &config, NULL);
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    recording_close(&recording);
    return status;
}

static void a_device_without_the_kernel_says_so(void **state)
{
    (void)state;
    struct mtk_table without = mtk_cpu;
    without.softmax = NULL;
    assert_int_equal(train_without(MT_ATTENTION_SOFTMAX, without), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "softmax: cpu:1GiB has no kernel for it"));
    assert_int_equal(train_without(MT_ATTENTION_CUSTOM, without), MT_OK);
    assert_int_equal(train_without(MT_ATTENTION_FLASH, without), MT_OK);
    without = mtk_cpu;
    without.attention_grad = NULL;
    assert_int_equal(train_without(MT_ATTENTION_FLASH, without), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "attention_grad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_train_alike),
        cmocka_unit_test(each_way_keeps_its_number_of_squares),
        cmocka_unit_test(flash_makes_no_square_at_all),
        cmocka_unit_test(without_gradients_there_is_no_log_sum_exp),
        cmocka_unit_test(flash_refuses_heads_that_its_kernels_do_not_take),
        cmocka_unit_test(a_device_without_the_kernel_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
