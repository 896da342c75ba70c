/* The tensors that the fused model keeps, and their lifetimes: for a block, the bytes in the table of docs/fused.md,
 * until that block's backward; casts of weights as long as --weight-cast says, in every mode; transposed copies for one
 * product. */
#include "fused_bench.h"

static const mt_attention_kind attentions[] = {MT_ATTENTION_WEIGHTS, MT_ATTENTION_FLASH};

enum { ATTENTIONS = sizeof attentions / sizeof attentions[0] };

/* A run on sim, with its events. */
static void record(struct recording *recording, const struct mt_training_config *config)
{
    recording_open(recording);
    if (recording_train(recording, "sim", "", config, NULL, NULL) != MT_OK)
        fail_msg("%s", mt_last_error());
}

/* Returns 1 for an alloc, -1 for a free, 0 for any other event. */
static int change_of(const struct mt_event *event)
{
    return event->kind == MT_EVENT_ALLOC ? 1 : event->kind == MT_EVENT_FREE ? -1 : 0;
}

/* The attentions with each precision and with RoPE, checkpointed or not; at last under autocast in fp8. */
static struct mt_training_config config_of_way(int way)
{
    struct mt_training_config config = small_config();
    config.attention = attentions[way % ATTENTIONS];
    config.autocast = way / 2 % 2 == 1 || way / 16 == 1;
    config.math = way / 16 == 1 ? MTK_MATH_FP8 : MTK_MATH_FP32;
    config.model.rope = way / 4 % 2 == 1;
    config.checkpoint = way / 8 % 2 == 1 ? MT_CHECKPOINT_BLOCK : MT_CHECKPOINT_OFF;
    config.steps = 2;
    return config;
}

enum { WAYS_THAT_KEEP_ALL = 8, WAYS = 32 };

/* ---- how much ---- */

/* The table of docs/fused.md: one block without the input of its first norm. */
static uint64_t bytes_by_table(const struct mt_training_config *config)
{
    uint64_t BT = (uint64_t)(config->batch * config->seq), C = (uint64_t)config->model.d_model;
    uint64_t F = (uint64_t)config->model.d_ff, H = (uint64_t)config->model.heads, w = config->autocast ? 2 : 4;
    uint64_t of_attention = config->attention == MT_ATTENTION_FLASH ? 4 * BT * H : w * BT * H * (uint64_t)config->seq;
    return 4 * BT + 3 * w * BT * C + of_attention + w * BT * C + 4 * BT * C + 4 * BT + 2 * w * BT * F;
}

static void forward_keeps_of_a_block_what_the_table_says(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS_THAT_KEEP_ALL; way++) {
        const struct mt_training_config config = config_of_way(way);
        uint64_t stream = 4 * (uint64_t)(config.batch * config.seq * config.model.d_model), saved[8] = {0};
        struct recording recording;
        record(&recording, &config);
        for (size_t i = 0; i < recording.count; i++) {
            const struct mt_event *event = &recording.events[i];
            if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
                break;
            const struct mt_label *label = recording_label_of(&recording, event);
            if (change_of(event) != 0 && label->role == MT_ROLE_ACTIVATION && label->layer >= 0)
                saved[label->layer] += (uint64_t)change_of(event) * event->requested_bytes;
        }
        for (int64_t layer = 0; layer < config.model.layers;
             layer++) /* the first norm of the first reads the embedding */
            assert_int_equal(saved[layer], bytes_by_table(&config) + (layer > 0 ? stream : 0));
        recording_close(&recording);
    }
}

/* ---- until when ---- */

/* Returns the layer, counted from 1, in whose backward a block that forward kept is released; 0 if it is released
 * before all layers. */
static int turn_of(const struct mt_label *label, int64_t layers)
{
    if (label->layer >= 0)
        return (int)(layers - label->layer);
    return label->category == MT_CATEGORY_EMBED ? (int)layers : 0;
}

static void expect_none(const int *live, int turns)
{
    for (int turn = 0; turn < turns; turn++)
        assert_int_equal(live[turn], 0);
}

/* Checks that, when backward begins with a layer, nothing is left of the layers after it, and at its end nothing at
 * all. */
static void expect_let_go(const struct recording *recording, const struct mt_training_config *config)
{
    int live[8] = {0}, turn = 0, layers = (int)config->model.layers;
    bool is_backward = false;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_PHASE) {
            expect_none(live, is_backward ? layers + 1 : 0);
            is_backward = event->value == MT_PHASE_BACKWARD;
            turn = 0;
        }
        if (change_of(event) == 0)
            continue;
        const struct mt_label *label = recording_label_of(recording, event);
        if (label->role == MT_ROLE_ACTIVATION)
            live[turn_of(label, layers)] += change_of(event);
        if (is_backward && event->kind == MT_EVENT_ALLOC && label->layer >= 0 && turn_of(label, layers) > turn)
            expect_none(live, turn = turn_of(label, layers));
    }
}

static void backward_lets_go_of_a_block_before_the_next(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        const struct mt_training_config config = config_of_way(way);
        struct recording recording;
        record(&recording, &config);
        expect_let_go(&recording, &config);
        recording_close(&recording);
    }
}

/* Sums are not kept, so each reuses the memory of the one before, and the first the embedding's. */
static void without_gradients_the_residual_stream_is_one_tensor(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    int64_t embeddings = 0;
    config.mode = MT_MODE_INFER;
    record(&recording, &config);
    for (size_t i = 0; i < recording.count; i++) {
        if (recording.events[i].kind != MT_EVENT_ALLOC)
            continue;
        mt_category category = recording_label_of(&recording, &recording.events[i])->category;
        assert_int_not_equal(category, MT_CATEGORY_BLOCK);
        embeddings += category == MT_CATEGORY_EMBED;
    }
    assert_int_equal(embeddings, config.steps);
    recording_close(&recording);
}

/* ---- a sliced loss ---- */

/* In addition to the slice, one tensor of the stream's width, the input of the head, lives from forward to backward. */
static void slices_of_logits_go_before_backward(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    int64_t live = 0, taken = 0;
    config.loss_slices = 4;
    record(&recording, &config);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
            assert_int_equal(live, 0);
        if (change_of(event) == 0 || strcmp(recording_label_of(&recording, event)->op, "einsum.slice") != 0)
            continue;
        assert_int_equal(recording_label_of(&recording, event)->phase, MT_PHASE_LOSS);
        live += change_of(event);
        taken += event->kind == MT_EVENT_ALLOC;
    }
    assert_int_equal(taken, config.steps);
    recording_close(&recording);
}

/* The last step's gradients are released when the loss begins to make the next ones, or before forward. */
static void a_sliced_loss_leaves_one_gradient_of_a_weight(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct mt_training_config config = small_config();
        struct recording recording;
        int64_t live = 0, most = 0;
        config.loss_slices = 4;
        config.zero_grad = early == 1 ? MT_ZERO_GRAD_BEFORE_FORWARD : MT_ZERO_GRAD_BEFORE_BACKWARD;
        record(&recording, &config);
        for (size_t i = 0; i < recording.count; i++) {
            const struct mt_event *event = &recording.events[i];
            if (change_of(event) == 0 || mt_label_category(event->label) != MT_CATEGORY_GRADIENT)
                continue;
            live += change_of(event);
            most = live > most ? live : most;
        }
        assert_int_equal(most, 6 * config.model.layers + 3);
        recording_close(&recording);
    }
}

/* ---- casts ---- */

static int64_t casts_at_the_end_of_steps(const struct mt_training_config *config, int64_t *out_made)
{
    struct recording recording;
    int64_t live = 0, left = 0;
    *out_made = 0;
    record(&recording, config);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_STEP_END)
            left = live;
        if (change_of(event) == 0 || recording_label_of(&recording, event)->role != MT_ROLE_WEIGHT_CAST)
            continue;
        live += change_of(event);
        *out_made += event->kind == MT_EVENT_ALLOC;
    }
    assert_int_equal(live, 0);
    recording_close(&recording);
    return left;
}

static void casts_live_as_long_as_they_are_told_to(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        struct mt_training_config config = small_config();
        mt_mode mode = (mt_mode)(MT_MODE_INFER + way % 3);
        int64_t weights = 4 * config.model.layers + 1, made, passes = mode == MT_MODE_FWD_BWD ? 2 : 1;
        config.mode = mode;
        config.loss_slices = 1 + way / 3 * 4;
        config.autocast = true;
        config.steps = 3;
        config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
        assert_int_equal(casts_at_the_end_of_steps(&config, &made), weights);
        assert_int_equal(made, weights);
        config.weight_cast = MT_WEIGHT_CAST_REGION;
        assert_int_equal(casts_at_the_end_of_steps(&config, &made), 0);
        assert_int_equal(made, weights * config.steps);
        config.weight_cast = MT_WEIGHT_CAST_LAYER;
        assert_int_equal(casts_at_the_end_of_steps(&config, &made), 0);
        int64_t shared = config.loss_slices > 1 && passes == 2 ? 1 : 0; /* the head's serves both passes */
        assert_int_equal(made, (weights * passes - shared) * config.steps);
    }
}

/* ---- copies for one product ---- */

/* For matrix units that round to tf32, both operands of a sum over tokens are made dense along the tokens; operands of
 * other products are not. */
static void operands_are_turned_for_one_product_at_a_time(void **state)
{
    (void)state;
    for (mtk_math math = MTK_MATH_FP32; math <= MTK_MATH_TF32; math++)
        for (int autocast = 0; autocast < 2; autocast++) {
            struct mt_training_config config = small_config();
            struct recording recording;
            int64_t live = 0, made = 0, products = config.steps * (4 * config.model.layers + 1);
            config.math = math;
            config.autocast = autocast == 1;
            record(&recording, &config);
            for (size_t i = 0; i < recording.count; i++) {
                const struct mt_event *event = &recording.events[i];
                if (change_of(event) == 0 || strcmp(recording_label_of(&recording, event)->op, "einsum.turned") != 0)
                    continue;
                live += change_of(event);
                made += event->kind == MT_EVENT_ALLOC;
                assert_in_range(live, 0, 2);
            }
            assert_int_equal(made, math == MTK_MATH_TF32 && autocast == 0 ? 2 * products : 0);
            recording_close(&recording);
        }
}

/* ---- copies in fp8 ---- */

/* The bytes of live copies in fp8: of weights, and of the other operands. */
struct live_codes {
    uint64_t of_weights, most_of_others, of_others;
    uint64_t of_weights_after_forward, at_step_ends;
};

static struct live_codes codes_of(const struct mt_training_config *config)
{
    struct recording recording;
    struct live_codes live = {0};
    record(&recording, config);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
            live.of_weights_after_forward = live.of_weights;
        if (event->kind == MT_EVENT_STEP_END)
            live.at_step_ends += live.of_weights + live.of_others;
        if (change_of(event) == 0)
            continue;
        const struct mt_label *label = recording_label_of(&recording, event);
        if (label->dtype != MT_F8_E4M3FN && label->dtype != MT_F8_E5M2)
            continue;
        assert_true(label->layer >= 0); /* not the embeddings */
        uint64_t *of = label->role == MT_ROLE_WEIGHT_CAST ? &live.of_weights : &live.of_others;
        *of += (uint64_t)change_of(event) * event->requested_bytes;
        if (live.of_others > live.most_of_others)
            live.most_of_others = live.of_others;
    }
    recording_close(&recording);
    return live;
}

/* A layer's weights have one byte per element between forward and backward, two if a block is recomputed, and none with
 * weight_cast `layer`. The largest of the others is the gate's gradient, twice. */
static void copies_in_fp8_go_after_their_last_product(void **state)
{
    (void)state;
    for (mt_weight_cast cast = MT_WEIGHT_CAST_REGION; cast <= MT_WEIGHT_CAST_PERSISTENT; cast++)
        for (mt_checkpoint checkpoint = MT_CHECKPOINT_OFF; checkpoint <= MT_CHECKPOINT_BLOCK; checkpoint++) {
            struct mt_training_config config = small_config();
            const struct mt_model_config *m = &config.model;
            uint64_t weights = (uint64_t)(m->layers * (4 * m->d_model * m->d_model + 3 * m->d_model * m->d_ff));
            config.seq = 16;
            config.autocast = MT_AUTOCAST_BF16;
            config.math = MTK_MATH_FP8;
            config.weight_cast = cast;
            config.checkpoint = checkpoint;
            const struct live_codes live = codes_of(&config);
            uint64_t copies = cast == MT_WEIGHT_CAST_LAYER ? 0 : checkpoint == MT_CHECKPOINT_OFF ? 1 : 2;
            assert_int_equal(live.of_weights_after_forward, copies * weights);
            assert_int_equal(live.most_of_others, 2 * 2 * config.batch * config.seq * m->d_ff);
            assert_int_equal(live.of_weights + live.of_others + live.at_step_ends, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_keeps_of_a_block_what_the_table_says),
        cmocka_unit_test(backward_lets_go_of_a_block_before_the_next),
        cmocka_unit_test(without_gradients_the_residual_stream_is_one_tensor),
        cmocka_unit_test(slices_of_logits_go_before_backward),
        cmocka_unit_test(a_sliced_loss_leaves_one_gradient_of_a_weight),
        cmocka_unit_test(casts_live_as_long_as_they_are_told_to),
        cmocka_unit_test(operands_are_turned_for_one_product_at_a_time),
        cmocka_unit_test(copies_in_fp8_go_after_their_last_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
