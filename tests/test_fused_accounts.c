/* Tests of the accounts of the fused model's ops: operations by formula, bytes of the update, and the written blocks.
 * The times of a simulated step and the answers about uses depend on them. */
#include "alloc_opening.h"
#include "device/backend.h"
#include "fused_bench.h"

/* The work that was reported to a device. */
static struct {
    double on_units; /* operations */
    struct mt_work last;
} spent;

static void note_work(struct mt_device *device, const struct mt_work *work)
{
    (void)device;
    if (work->matrix_product)
        spent.on_units += work->operations;
    spent.last = *work;
}

/* Runs one step; its costs are in `spent` afterwards. */
static void spend(const struct mt_training_config *config)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_device *device = open_device("sim");
    struct mt_device_table table = *device->table;
    table.spend = note_work;
    device->table = &table;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    memset(&spent, 0, sizeof spent);
    assert_int_equal(mt_training_run(device, alloc, config, NULL), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    mt_interner_destroy(interner);
}

/* Counts the elements of the weights that products read, in a block and in all. */
static double block_weights(const struct mt_model_config *m)
{
    return (double)(4 * m->d_model * m->d_model + 3 * m->d_model * m->d_ff);
}

static double multiplied_weights(const struct mt_model_config *m)
{
    return (double)m->layers * block_weights(m) + (double)(m->vocab * m->d_model);
}

/* Each weight needs a multiplication and an addition for each token, three times: in forward and for both gradients.
 * For attention's products, flash skips the half that no query sees. It computes seven for the gradients; four suffice
 * if weights are kept. In fp32 it does not use matrix units. */
static double step_operations(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    double tokens = (double)(config->batch * config->seq);
    double square = 2 * tokens * (double)(config->seq * m->d_model * m->layers);
    bool rounds = config->autocast || config->math == MTK_MATH_TF32;
    double attention = config->attention == MT_ATTENTION_WEIGHTS ? (2 + 4) * square : rounds ? (2 + 7) * square / 2 : 0;
    return 6 * multiplied_weights(m) * tokens + attention;
}

static void expect_operations(double expected)
{
    if (!(fabs(spent.on_units - expected) < 1))
        fail_msg("%.0f operations, expected %.0f", spent.on_units, expected);
}

static void operations_of_a_step_are_their_formula(void **state)
{
    (void)state;
    for (int way = 0; way < 18; way++) {
        struct mt_training_config config = small_config();
        config.steps = 1;
        config.attention = way & 1 ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
        config.autocast = (way & 2) != 0 || way >= 16;
        config.seq = way >= 16 ? 16 : config.seq; /* sums over tokens are padded to sixteens */
        config.math = way >= 16 ? MTK_MATH_FP8 : way & 4 ? MTK_MATH_TF32 : MTK_MATH_FP32;
        config.loss_slices = way & 8 ? 4 : 1;
        spend(&config);
        expect_operations(step_operations(&config));
    }
}

/* Forward a second time, without the product whose output backward does not need. */
static void a_checkpointed_block_is_multiplied_once_more(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    const struct mt_model_config *m = &config.model;
    double tokens = (double)(config.batch * config.seq);
    config.steps = 1;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    double again = 2 * (block_weights(m) - (double)(m->d_model * m->d_ff)) + 4 * (double)(config.seq * m->d_model);
    spend(&config);
    expect_operations(step_operations(&config) + again * tokens * (double)m->layers);
}

/* Four tensors of fp32 are read and three written, plus the casts that are kept. */
static void an_update_moves_28_bytes_a_parameter(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    config.steps = 1;
    spend(&config);
    assert_int_equal(spent.last.bytes, 28 * mt_model_parameter_count(&config.model));
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
    spend(&config);
    assert_int_equal(spent.last.bytes,
                     28 * mt_model_parameter_count(&config.model) + 2 * (uint64_t)multiplied_weights(&config.model));
}

/* Counts the blocks of moments that share a scale, of the weights that products read. */
static uint64_t scaled_blocks(const struct mt_model_config *m)
{
    const int64_t of_layer[] = {3 * m->d_model * m->d_model, m->d_model * m->d_model, 2 * m->d_model * m->d_ff,
                                m->d_model * m->d_ff};
    int64_t blocks = (m->vocab * m->d_model + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK;
    for (int i = 0; i < 4; i++)
        blocks += m->layers * ((of_layer[i] + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK);
    return (uint64_t)blocks;
}

/* Both moments, by their form: 8 bits for the weights that products read, with two scales per block. */
static uint64_t state_by_formula(const struct mt_training_config *config)
{
    uint64_t all = mt_model_parameter_count(&config->model), multiplied = (uint64_t)multiplied_weights(&config->model);
    if (config->moments == MTK_MOMENTS_8BIT)
        return 2 * multiplied + 8 * scaled_blocks(&config->model) + 8 * (all - multiplied);
    return (config->moments == MTK_MOMENTS_BF16 ? 4 : 8) * all;
}

/* Returns the bytes of optimizer state that are live when training ends. */
static uint64_t state_of(const struct mt_training_config *config)
{
    struct recording recording;
    uint64_t live = 0, most = 0;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        bool is_block = event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_FREE;
        if (!is_block || mt_label_category(event->label) != MT_CATEGORY_OPT_STATE)
            continue;
        live += event->kind == MT_EVENT_ALLOC ? event->requested_bytes : -event->requested_bytes;
        most = live > most ? live : most;
    }
    recording_close(&recording);
    return most;
}

/* An update reads and writes the value and both moments, and reads the gradient. */
static void moments_take_and_move_the_bytes_of_their_form(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    for (config.moments = MTK_MOMENTS_FULL; config.moments <= MTK_MOMENTS_8BIT; config.moments++) {
        config.steps = 2;
        assert_int_equal(state_of(&config), state_by_formula(&config));
        spend(&config);
        assert_int_equal(spent.last.bytes,
                         12 * mt_model_parameter_count(&config.model) + 2 * state_by_formula(&config));
    }
}

/* The peak decreases by the bytes that a form saves, if the state makes the peak. */
static void a_peak_falls_by_what_moments_save(void **state)
{
    (void)state;
    struct mt_training_config config = course_config(512);
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    const uint64_t full = peak_of(config), full_state = state_by_formula(&config);
    for (config.moments = MTK_MOMENTS_BF16; config.moments <= MTK_MOMENTS_8BIT; config.moments++) {
        uint64_t peak = peak_of(config), saved = full_state - state_by_formula(&config);
        print_message("moments %s: %.2f GiB, full %.2f\n", config.moments == MTK_MOMENTS_BF16 ? "bf16" : "8bit",
                      (double)peak / 0x1p30, (double)full / 0x1p30);
        assert_true(fabs((double)(full - peak) - (double)saved) < 0.001 * (double)full);
    }
}

/* ---- logits ---- */

/* Returns the bytes of the largest block that the head allocates for logits in a full step. */
static uint64_t logits_of(const struct mt_training_config *config)
{
    struct recording recording;
    uint64_t largest = 0;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind != MT_EVENT_ALLOC)
            continue;
        const struct mt_label *label = recording_label_of(&recording, event);
        const char *path = mt_interner_find_span(recording.interner, label->span)->path;
        bool is_of_head = strstr(path, "lm_head") != NULL && label->category == MT_CATEGORY_EINSUM;
        if (is_of_head && label->role != MT_ROLE_WEIGHT_CAST && label->phase <= MT_PHASE_LOSS)
            largest = event->requested_bytes > largest ? event->requested_bytes : largest;
    }
    recording_close(&recording);
    return largest;
}

static void a_slice_of_logits_is_what_there_is_of_them(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    uint64_t tokens = (uint64_t)(config.batch * config.seq), row = 4 * (uint64_t)config.model.vocab;
    for (config.loss_slices = 1; config.loss_slices <= 40; config.loss_slices += 3) {
        uint64_t slices = (uint64_t)config.loss_slices;
        assert_int_equal(logits_of(&config), (tokens + slices - 1) / slices * row);
    }
}

/* With a vocabulary of 128,256 whole logits would be 4,096 times that, in bf16. */
static void a_large_vocabulary_costs_a_slice(void **state)
{
    (void)state;
    struct mt_training_config config = course_config(1024);
    config.model.vocab = 128256;
    config.model.layers = 4;
    config.batch = 16;
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
    config.moments = MTK_MOMENTS_8BIT;
    uint64_t whole = peak_of(config), logits = 2 * (uint64_t)(config.batch * config.seq * config.model.vocab);
    config.loss_slices = 16;
    uint64_t sliced = peak_of(config);
    print_message("vocabulary 128,256: %.2f GiB, with slices %.2f; logits are %.2f\n", (double)whole / 0x1p30,
                  (double)sliced / 0x1p30, (double)logits / 0x1p30);
    assert_true(whole - sliced > logits / 2);
}

/* ---- uses ---- */

static bool is_one_of(const char *op, const char *const *ops)
{
    while (*ops != NULL && strcmp(op, *ops) != 0)
        ops++;
    return *ops != NULL;
}

/* A cast that is kept is written once when it is made and once by each update. The gradient of a norm's output, of
 * three products, becomes that output. */
static uint32_t writes_of(const struct mt_label *label, const char *path, const struct mt_training_config *config)
{
    static const char *const read_by_norms[] = {"qkv_proj", "w13", "lm_head", NULL};
    if (label->role == MT_ROLE_WEIGHT_CAST)
        return (uint32_t)config->steps + 1;
    const char *module = strrchr(path, '.');
    bool is_grad = label->role == MT_ROLE_TEMPORARY && strcmp(label->op, "einsum.grad") == 0;
    return is_grad && is_one_of(module != NULL ? module + 1 : path, read_by_norms) ? 2 : 1;
}

static void every_block_is_written_as_often_as_ops_write_it(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.use_count; i++) {
        const struct mt_use *use = &recording.uses[i];
        const struct mt_label *label = recording_label_of(&recording, &recording.events[use->block]);
        const char *path = mt_interner_find_span(recording.interner, label->span)->path;
        if (use->writes < writes_of(label, path, &config))
            fail_msg("%s of %s was written %u times", label->op, path, use->writes);
    }
    assert_true(recording.use_count > 100);
    recording_close(&recording);
}

/* So that advice knows which blocks could be recomputed. */
static void a_copy_in_fp8_is_known_as_a_copy(void **state)
{
    (void)state;
    struct mt_training_config config = small_config();
    struct recording recording;
    int copies = 0;
    config.autocast = MT_AUTOCAST_BF16;
    config.math = MTK_MATH_FP8;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, NULL), MT_OK);
    for (size_t i = 0; i < recording.use_count; i++) {
        const struct mt_use *use = &recording.uses[i];
        const struct mt_label *label = recording_label_of(&recording, &recording.events[use->block]);
        if (label->dtype != MT_F8_E4M3FN && label->dtype != MT_F8_E5M2)
            continue;
        const struct mt_label *of = recording_label_of(&recording, &recording.events[use->copied_from]);
        bool is_weight = label->role == MT_ROLE_WEIGHT_CAST;
        assert_int_equal(of->dtype, is_weight ? MT_F32 : MT_BF16);
        assert_true(!is_weight || of->role == MT_ROLE_PARAMETER);
        copies++;
    }
    assert_true(copies > 100);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_a_step_are_their_formula),
        cmocka_unit_test(a_checkpointed_block_is_multiplied_once_more),
        cmocka_unit_test(an_update_moves_28_bytes_a_parameter),
        cmocka_unit_test(moments_take_and_move_the_bytes_of_their_form),
        cmocka_unit_test(a_peak_falls_by_what_moments_save),
        cmocka_unit_test(a_slice_of_logits_is_what_there_is_of_them),
        cmocka_unit_test(a_large_vocabulary_costs_a_slice),
        cmocka_unit_test(every_block_is_written_as_often_as_ops_write_it),
        cmocka_unit_test(a_copy_in_fp8_is_known_as_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
