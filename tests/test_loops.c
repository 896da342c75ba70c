/* Training loops other than the usual one: without an optimizer, with the last output kept, with backward inside of the
 * autocast region. Reserved bytes are compared with PyTorch 2.11's, measured on an H100 with the workspaces of
 * an A100 (CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8), each in a process of its own. */
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { STEPS = 3, LAYERS = 2 };

/* A model that is computed in no time, with one batch for all steps. */
static struct mt_training_config tiny_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 53, .d_model = 32, .d_ff = 64, .layers = LAYERS, .heads = 2};
    config.data = MT_DATA_REFERENCE;
    config.init = MT_INIT_REFERENCE;
    config.batch = 2;
    config.seq = 8;
    config.steps = STEPS;
    return config;
}

struct losses {
    double at[STEPS];
    int phases[MT_PHASE_COUNT]; /* how often each was timed */
};

static void keep_loss(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)step_ms;
    ((struct losses *)context)->at[step] = loss;
}

static void count_phase(void *context, int64_t step, mt_phase phase, double ms)
{
    (void)step;
    (void)ms;
    ((struct losses *)context)->phases[phase]++;
}

static struct losses train(struct recording *recording, const char *device, const struct mt_training_config *config)
{
    struct losses losses = {{0}, {0}};
    struct mt_training_observer observer = {.context = &losses, .step_done = keep_loss, .phase_time = count_phase};
    recording_open(recording);
    if (recording_train(recording, device, "", config, &observer, NULL) != MT_OK)
        fail_msg("%s", mt_last_error());
    return losses;
}

static int allocations_of_role(const struct recording *recording, mt_role role)
{
    int count = 0;
    for (size_t i = 0; i < recording->count; i++)
        count += recording->events[i].kind == MT_EVENT_ALLOC &&
                 recording_label_of(recording, &recording->events[i])->role == role;
    return count;
}

static void without_an_optimizer_nothing_is_updated(void **state)
{
    (void)state;
    static const mt_implementation_kind kinds[] = {MT_IMPLEMENTATION_EAGER, MT_IMPLEMENTATION_FUSED};
    for (int i = 0; i < 2; i++) {
        struct mt_training_config config = tiny_config();
        struct recording recording;
        config.implementation = kinds[i];
        config.attention = i == 0 ? MT_ATTENTION_CUSTOM : MT_ATTENTION_WEIGHTS;
        config.optimizer = MT_OPTIMIZER_NONE;
        struct losses losses = train(&recording, "cpu:1GiB", &config);
        assert_true(losses.at[0] > 0 && losses.at[1] == losses.at[0] && losses.at[2] == losses.at[0]);
        assert_int_equal(losses.phases[MT_PHASE_BACKWARD], STEPS);
        assert_int_equal(losses.phases[MT_PHASE_OPTIMIZER], 0);
        assert_true(allocations_of_role(&recording, MT_ROLE_GRADIENT) > 0);
        assert_int_equal(allocations_of_role(&recording, MT_ROLE_OPTIMIZER_STATE), 0);
        recording_close(&recording);
        config.optimizer = MT_OPTIMIZER_ADAMW;
        losses = train(&recording, "cpu:1GiB", &config);
        assert_true(losses.at[STEPS - 1] < losses.at[0]);
        assert_int_equal(losses.phases[MT_PHASE_OPTIMIZER], STEPS);
        recording_close(&recording);
    }
}

/* Returns the requested bytes that are live at the end of each step. */
static void live_at_step_ends(const struct recording *recording, uint64_t out[STEPS])
{
    uint64_t live = 0;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_ALLOC)
            live += event->requested_bytes;
        if (event->kind == MT_EVENT_FREE)
            live -= event->requested_bytes;
        if (event->kind == MT_EVENT_STEP_END)
            out[event->value] = live;
    }
    assert_int_equal(live, 0);
}

static struct mt_alloc_stats stats_of(const char *device, const struct mt_training_config *config)
{
    struct recording recording;
    struct mt_alloc_stats stats;
    recording_open(&recording);
    if (recording_train(&recording, device, "policy=torch", config, NULL, &stats) != MT_OK)
        fail_msg("%s", mt_last_error());
    recording_close(&recording);
    return stats;
}

/* Of a forward pass the output holds the graph: its activations live until the next output is there. Of a full step
 * backward has released them, and only logits and loss live on. */
static void a_kept_output_keeps_its_graph(void **state)
{
    (void)state;
    struct mt_training_config config = tiny_config();
    uint64_t logits = 2 * 8 * 53 * sizeof(float), dropped[STEPS], kept[STEPS];
    struct recording recording;
    config.mode = MT_MODE_FWD;
    train(&recording, "sim", &config);
    live_at_step_ends(&recording, dropped);
    recording_close(&recording);
    uint64_t one_graph = stats_of("sim", &config).all.peak_requested_bytes - dropped[0];
    config.keep_output = true;
    train(&recording, "sim", &config);
    live_at_step_ends(&recording, kept);
    recording_close(&recording);
    uint64_t two_graphs = stats_of("sim", &config).all.peak_requested_bytes - dropped[0];
    for (int step = 0; step < STEPS; step++)
        assert_true(kept[step] > dropped[step] + 9 * one_graph / 10);
    assert_true(two_graphs > 19 * one_graph / 10 && two_graphs <= 2 * one_graph);
    config.mode = MT_MODE_FWD_BWD;
    train(&recording, "sim", &config);
    live_at_step_ends(&recording, kept);
    recording_close(&recording);
    config.keep_output = false;
    train(&recording, "sim", &config);
    live_at_step_ends(&recording, dropped);
    recording_close(&recording);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(kept[step], dropped[step] + logits + sizeof(float));
}

/* Returns how many copies of weights of the last step are freed before backward's last allocation, and after it within
 * backward. */
static void count_cast_frees(const struct recording *recording, int *out_before, int *out_after)
{
    mt_phase phase = MT_PHASE_INIT;
    *out_before = *out_after = 0;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_STEP_BEGIN)
            *out_before = *out_after = 0;
        if (event->kind == MT_EVENT_PHASE)
            phase = (mt_phase)event->value;
        if (phase != MT_PHASE_BACKWARD)
            continue;
        if (event->kind == MT_EVENT_FREE)
            *out_after += recording_label_of(recording, event)->role == MT_ROLE_WEIGHT_CAST;
        if (event->kind == MT_EVENT_ALLOC) {
            *out_before += *out_after;
            *out_after = 0;
        }
    }
}

static void copies_of_weights_live_as_long_as_their_region(void **state)
{
    (void)state;
    struct mt_training_config config = tiny_config();
    int casts = LAYERS * 7 + 1, before, after;
    config.autocast = true;
    for (int end = 0; end < 2; end++) {
        struct recording recording;
        config.autocast_end = (mt_region_end)end;
        train(&recording, "sim", &config);
        count_cast_frees(&recording, &before, &after);
        recording_close(&recording);
        assert_int_equal(before + after, casts);
        assert_true(end == MT_REGION_END_AFTER_BACKWARD ? before == 0 : after == 0);
    }
}

/* Settings that exclude each other are refused with what to do. */
static void what_no_loop_does_is_refused(void **state)
{
    (void)state;
    struct mt_training_config config = tiny_config();
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_WEIGHTS;
    config.optimizer = MT_OPTIMIZER_NONE;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "optimizer-in-backward off"));
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_OFF;
    assert_int_equal(mt_training_config_check(&config), MT_OK);
    config.keep_output = true;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "keep-output off"));
    config.keep_output = false;
    config.autocast_end = MT_REGION_END_AFTER_BACKWARD;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "autocast-end before-backward"));
}

/* No kernel knows fp16, and nothing is left behind by the refusal. */
static void fp16_is_refused_where_something_is_computed(void **state)
{
    (void)state;
    struct mt_training_config config = tiny_config();
    struct recording recording;
    config.autocast = MT_AUTOCAST_FP16;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    recording_close(&recording);
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "cpu:1GiB", "", &config, NULL, NULL), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "no kernel knows fp16"));
    recording_close(&recording);
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_WEIGHTS;
    assert_int_equal(mt_training_config_check(&config), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "autocast bf16"));
}

/* A loop as PyTorch ran it, and the bytes that it reserved. */
struct measured {
    const char *model;
    int64_t batch, seq, steps;
    mt_mode mode;
    mt_autocast autocast;
    bool keeps_output, updates;
    mt_region_end autocast_end;
    uint64_t reserved_bytes;
    double tolerance; /* what the places of equal blocks may change */
};

static const struct measured measured[] = {
    {"small", 64, 256, 15, MT_MODE_FWD, MT_AUTOCAST_OFF, false, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(26789019648), 0.0001},
    {"small", 64, 256, 15, MT_MODE_FWD, MT_AUTOCAST_OFF, true, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(52986642432), 0.0001},
    {"small", 64, 256, 15, MT_MODE_FWD, MT_AUTOCAST_BF16, true, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(34391195648), 0.0001},
    {"2.7B", 4, 128, 6, MT_MODE_FWD_BWD, MT_AUTOCAST_OFF, false, false, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(33749467136), 0.0001},
    {"2.7B", 4, 256, 6, MT_MODE_FWD_BWD, MT_AUTOCAST_OFF, false, false, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(42356178944), 0.0001},
    {"2.7B", 4, 512, 6, MT_MODE_FWD_BWD, MT_AUTOCAST_OFF, false, false, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(61687726080), 0.0001},
    {"2.7B", 4, 128, 15, MT_MODE_FWD_BWD, MT_AUTOCAST_BF16, false, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(65787658240), 0},
    {"2.7B", 4, 256, 15, MT_MODE_FWD_BWD, MT_AUTOCAST_BF16, false, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(71512883200), 0.001},
    {"2.7B", 4, 128, 15, MT_MODE_FWD_BWD, MT_AUTOCAST_BF16, false, true, MT_REGION_END_AFTER_BACKWARD,
     UINT64_C(65913487360), 0},
    {"2.7B", 4, 256, 15, MT_MODE_FWD_BWD, MT_AUTOCAST_BF16, false, true, MT_REGION_END_AFTER_BACKWARD,
     UINT64_C(71636615168), 0.001},
    {"2.7B", 4, 256, 6, MT_MODE_FWD_BWD, MT_AUTOCAST_FP16, false, true, MT_REGION_END_BEFORE_BACKWARD,
     UINT64_C(71512883200), 0.001},
};

static void loops_reserve_what_pytorch_reserved(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const struct measured *of = &measured[i];
        struct mt_training_config config = mt_training_config_default();
        assert_int_equal(mt_model_config_named(of->model, &config.model), MT_OK);
        config.batch = of->batch;
        config.seq = of->seq;
        config.steps = of->steps;
        config.mode = of->mode;
        config.autocast = of->autocast;
        config.keep_output = of->keeps_output;
        config.optimizer = of->updates ? MT_OPTIMIZER_ADAMW : MT_OPTIMIZER_NONE;
        config.autocast_end = of->autocast_end;
        uint64_t ours = stats_of("sim:a100-80gb", &config).peak_reserved_bytes;
        double difference = (double)ours / (double)of->reserved_bytes - 1;
        print_message("%s, batch %lld, seq %lld: %llu reserved, measured %llu, %+.4f %%\n", of->model,
                      (long long)of->batch, (long long)of->seq, (unsigned long long)ours,
                      (unsigned long long)of->reserved_bytes, 100 * difference);
        assert_true(fabs(difference) <= of->tolerance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_optimizer_nothing_is_updated),
        cmocka_unit_test(a_kept_output_keeps_its_graph),
        cmocka_unit_test(copies_of_weights_live_as_long_as_their_region),
        cmocka_unit_test(what_no_loop_does_is_refused),
        cmocka_unit_test(fp16_is_refused_where_something_is_computed),
        cmocka_unit_test(loops_reserve_what_pytorch_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
