/* Settings that make the fused model smaller and must not change its results: blocks that backward computes again, and
 * parameters that are updated while it runs. The device may be given as an argument (cpu). */
#include "alloc_opening.h"
#include "device/backend.h"
#include "fused_bench.h"
#include "gpu.h"

enum { STEPS = 5 };

/* ---- the same bits ---- */

/* The results of a training that are compared, in the order of the model's parts. */
struct trace_of_numbers {
    double losses[STEPS];
    double **gradients; /* of the first step */
    double **values;    /* at the end */
    int64_t count;
};

struct gradient_keeper {
    struct bench_model *m;
    struct trace_of_numbers *into;
};

static void keep_gradient(void *context, const char *parameter, const struct mt_tensor *grad)
{
    const struct gradient_keeper *keeper = context;
    const struct mt_fused_model *model = &keeper->m->model;
    int64_t i = 0;
    while (i < model->part_count && strcmp(model->parts[i].name, parameter) != 0)
        i++;
    assert_true(i < model->part_count);
    assert_null(keeper->into->gradients[i]); /* reported once */
    keeper->into->gradients[i] = read_all(&keeper->m->rt, grad);
}

static void train_and_keep(const struct mt_training_config *config, struct trace_of_numbers *out)
{
    struct bench_model m;
    open_model(&m, config);
    out->count = m.model.part_count;
    out->gradients = mt_host_alloc((size_t)out->count * sizeof *out->gradients);
    out->values = mt_host_alloc((size_t)out->count * sizeof *out->values);
    struct gradient_keeper keeper = {&m, out};
    for (int64_t step = 0; step < STEPS; step++) {
        m.watch = (struct mt_gradient_watch){.visit = step == 0 ? keep_gradient : NULL, .context = &keeper};
        out->losses[step] = train_step(&m, step, NULL, NULL);
    }
    for (int64_t i = 0; i < out->count; i++)
        out->values[i] = read_part(&m, &m.model.parts[i], false);
    close_model(&m);
}

static void release_numbers(struct trace_of_numbers *numbers)
{
    for (int64_t i = 0; i < numbers->count; i++) {
        free(numbers->gradients[i]);
        free(numbers->values[i]);
    }
    free(numbers->gradients);
    free(numbers->values);
}

static void assert_bits_equal(const struct trace_of_numbers *a, const struct trace_of_numbers *b,
                              const struct mt_training_config *config)
{
    struct bench_model m;
    open_model(&m, config); /* for the parts' names and sizes */
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        const struct mt_fused_part *part = &m.model.parts[i];
        assert_non_null(b->gradients[i]);
        if (memcmp(a->gradients[i], b->gradients[i], part_count(part) * sizeof(double)) != 0)
            fail_msg("the gradient of %s differs", part->name);
        if (memcmp(a->values[i], b->values[i], part_count(part) * sizeof(double)) != 0)
            fail_msg("%s differs after %d steps", part->name, STEPS);
    }
    close_model(&m);
}

/* Trains as `config` says, and in each way that keeps less or updates earlier. */
static void compare_bits(struct mt_training_config config)
{
    struct trace_of_numbers plain, other;
    train_and_keep(&config, &plain);
    assert_true(plain.losses[STEPS - 1] < plain.losses[0] - 0.2);
    for (int way = 1; way < 6; way++) {
        config.checkpoint = way & 1 ? MT_CHECKPOINT_BLOCK : MT_CHECKPOINT_OFF;
        config.optimizer_in_backward = (mt_optimizer_in_backward)(way / 2);
        train_and_keep(&config, &other);
        assert_bits_equal(&plain, &other, &config);
        release_numbers(&other);
    }
    release_numbers(&plain);
}

static void what_is_recomputed_or_updated_early_has_the_same_bits(void **state)
{
    (void)state;
    static const mt_attention_kind attentions[] = {MT_ATTENTION_WEIGHTS, MT_ATTENTION_FLASH};
    static const mt_weight_cast casts[] = {MT_WEIGHT_CAST_REGION, MT_WEIGHT_CAST_LAYER, MT_WEIGHT_CAST_PERSISTENT};
    for (int i = 0; i < 2; i++) {
        struct mt_training_config config = small_config();
        config.attention = attentions[i];
        compare_bits(config);
        config.math = MTK_MATH_TF32;
        compare_bits(config);
        config.autocast = true;
        for (int j = 0; j < 3; j++) {
            config.weight_cast = casts[j];
            config.math = MTK_MATH_FP32;
            compare_bits(config);
            config.math = MTK_MATH_FP8;
            if (takes_fp8(test_device))
                compare_bits(config);
        }
        config.loss_slices = 3;
        compare_bits(config);
        config.loss_slices = 1;
        for (config.moments = MTK_MOMENTS_BF16; config.moments <= MTK_MOMENTS_8BIT; config.moments++)
            compare_bits(config);
    }
}

/* Returns the largest difference of two lists of numbers, over the largest of the first. */
static double difference(const double *a, const double *b, size_t count)
{
    double most = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(a[i]));
    }
    return most / largest;
}

/* Checks that the losses of two trainings differ by `loss` at most, and the gradients of the first step by
 * `gradient`. */
static void expect_near(const struct trace_of_numbers *whole, const struct trace_of_numbers *sliced, double loss,
                        double gradient, const struct mt_training_config *config)
{
    struct bench_model m;
    double most[2] = {difference(whole->losses, sliced->losses, STEPS), 0};
    open_model(&m, config);
    for (int64_t i = 0; i < whole->count; i++) {
        const struct mt_fused_part *part = &m.model.parts[i];
        double differs = difference(whole->gradients[i], sliced->gradients[i], part_count(part));
        most[1] = fmax(most[1], differs);
        if (!(differs <= gradient))
            fail_msg("the gradient of %s differs by %.3g", part->name, differs);
    }
    close_model(&m);
    print_message("%d slices: losses differ by %.2g, gradients by %.2g\n", (int)config->loss_slices, most[0], most[1]);
    if (!(most[0] <= loss))
        fail_msg("losses differ by %.3g", most[0]);
}

/* The head's gradient is summed slice by slice, which rounds otherwise. */
static void a_sliced_loss_has_the_numbers_of_the_whole(void **state)
{
    (void)state;
    static const int64_t slices[] = {2, 5, 26};
    for (int way = 0; way < 3; way++) {
        struct mt_training_config config = small_config();
        struct trace_of_numbers whole, sliced;
        config.autocast = way == 2;
        config.math = way == 1 ? MTK_MATH_TF32 : MTK_MATH_FP32;
        train_and_keep(&config, &whole);
        for (int i = 0; i < 3; i++) {
            config.loss_slices = slices[i];
            train_and_keep(&config, &sliced);
            expect_near(&whole, &sliced, way == 0 ? 1e-5 : 1e-3, way == 0 ? 1e-5 : 1e-2, &config);
            release_numbers(&sliced);
        }
        release_numbers(&whole);
    }
}

static double *logits_of(const struct mt_training_config *config, bool learns, size_t *out_count)
{
    struct bench_model m;
    struct mt_tensor *inputs, *targets;
    open_model(&m, config);
    mt_token_source_next(&m.rt, m.tokens, 0, &inputs, &targets);
    m.rt.grad_enabled = learns;
    mt_fused_forward(&m.rt, &m.model, inputs);
    *out_count = (size_t)mt_tensor_count(m.model.logits);
    double *logits = read_all(&m.rt, m.model.logits);
    mt_tensor_release(&m.rt, inputs);
    mt_tensor_release(&m.rt, targets);
    mt_fused_end_step(&m.rt, &m.model);
    close_model(&m);
    return logits;
}

/* If nothing is kept, sums take the place of their operands. */
static void a_forward_that_keeps_nothing_has_the_same_logits(void **state)
{
    (void)state;
    static const mt_attention_kind attentions[] = {MT_ATTENTION_WEIGHTS, MT_ATTENTION_FLASH};
    for (int i = 0; i < 2; i++) {
        struct mt_training_config config = small_config();
        size_t count, again;
        config.attention = attentions[i];
        double *kept = logits_of(&config, true, &count), *not_kept = logits_of(&config, false, &again);
        assert_int_equal(count, again);
        assert_memory_equal(kept, not_kept, count * sizeof *kept);
        free(kept);
        free(not_kept);
    }
}

/* ---- what is there, and when ---- */

/* Of a block only its input is kept for backward: one tensor of the stream. Beside the blocks there are the last norm's
 * two tensors and the logits. */
static void a_checkpointed_forward_keeps_the_inputs_of_blocks(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    uint64_t stream = (uint64_t)(config.batch * config.seq * config.model.d_model) * sizeof(float), others;
    uint64_t logits = (uint64_t)(config.batch * config.seq * config.model.vocab) * sizeof(float), saved = 0;
    others = logits + stream + (uint64_t)(config.batch * config.seq) * sizeof(float);
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.steps = 1;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
            break;
        bool is_block = event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_FREE;
        if (is_block && recording_label_of(&recording, event)->role == MT_ROLE_ACTIVATION)
            saved += event->kind == MT_EVENT_ALLOC ? event->requested_bytes : -event->requested_bytes;
    }
    assert_int_equal(saved, others + (uint64_t)config.model.layers * stream);
    recording_close(&recording);
}

/* A tensor that is computed again has phase backward in its label, which is otherwise that of forward. */
static void what_is_recomputed_is_labelled_as_in_forward(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    int64_t projections[MT_PHASE_COUNT] = {0};
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.steps = 1;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_label *label = recording_label_of(&recording, &recording.events[i]);
        if (recording.events[i].kind != MT_EVENT_ALLOC || strcmp(label->op, "einsum") != 0)
            continue;
        const char *path = mt_interner_find_span(recording.interner, label->span)->path;
        size_t length = strlen(path), tail = strlen(".attn.qkv_proj");
        if (length < tail || strcmp(path + length - tail, ".attn.qkv_proj") != 0)
            continue;
        assert_int_equal(label->role, label->phase == MT_PHASE_BACKWARD ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY);
        projections[label->phase]++;
    }
    assert_int_equal(projections[MT_PHASE_FORWARD], config.model.layers);
    assert_int_equal(projections[MT_PHASE_BACKWARD], config.model.layers);
    recording_close(&recording);
}

static void an_early_update_leaves_one_gradient_at_a_time(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    int64_t live = 0, taken = 0;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        bool is_block = event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_FREE;
        if (!is_block || mt_label_category(event->label) != MT_CATEGORY_GRADIENT)
            continue;
        live += event->kind == MT_EVENT_ALLOC ? 1 : -1;
        taken += event->kind == MT_EVENT_ALLOC;
        assert_in_range(live, 0, 1);
    }
    assert_int_equal(taken, config.steps * (6 * config.model.layers + 3));
    recording_close(&recording);
}

/* Notes each time that one stream is to wait for another. */
static struct {
    int updates; /* wait for backward */
    int steps;   /* wait for the updates */
} follows;

static mt_status count_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    (void)device;
    assert_int_not_equal(later, earlier);
    follows.updates += later != 0;
    follows.steps += later == 0;
    return MT_OK;
}

/* The update of each block, of the head and of the embedding begins after the backward before it, and the next step
 * after all of them. */
static void updates_beside_backward_are_waited_for_once_a_step(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    recording_open(&recording);
    struct mt_sink sink = recording_sink(&recording);
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE;
    struct mt_device *device = open_device("sim");
    struct mt_device_table table = *device->table;
    table.follow = count_follow;
    device->table = &table;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    memset(&follows, 0, sizeof follows);
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_OK);
    assert_int_equal(follows.updates, config.steps * (config.model.layers + 2));
    assert_int_equal(follows.steps, config.steps);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    recording_close(&recording);
}

/* Beside parameters and moments there are the tensors of all blocks, or the inputs of all and the tensors of one. */
static void the_largest_model_needs_little_beside_its_state(void **state)
{
    (void)state;
    struct mt_training_config config = course_config(512);
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    uint64_t early = peak_of(config), least = 12 * mt_model_parameter_count(&config.model);
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    uint64_t checkpointed = peak_of(config);
    print_message("updated in backward %.2f GiB, checkpointed %.2f too, state %.2f\n", (double)early / 0x1p30,
                  (double)checkpointed / 0x1p30, (double)least / 0x1p30);
    assert_true((double)early <= 45.5 * 0x1p30);
    assert_true(checkpointed <= (uint64_t)40 << 30);
}

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recomputed_or_updated_early_has_the_same_bits),
        cmocka_unit_test(a_sliced_loss_has_the_numbers_of_the_whole),
        cmocka_unit_test(a_forward_that_keeps_nothing_has_the_same_logits),
        cmocka_unit_test(a_checkpointed_forward_keeps_the_inputs_of_blocks),
        cmocka_unit_test(what_is_recomputed_is_labelled_as_in_forward),
        cmocka_unit_test(an_early_update_leaves_one_gradient_at_a_time),
        cmocka_unit_test(updates_beside_backward_are_waited_for_once_a_step),
        cmocka_unit_test(the_largest_model_needs_little_beside_its_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
