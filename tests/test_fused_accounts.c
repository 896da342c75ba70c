/* Tests of the accounts of the fused model's ops: operations by formula, bytes of the update, and the blocks written.
 * The times of a simulated step and the answers about uses rest on them. */
#include "device/backend.h"
#include "fused_bench.h"

/* The work that a device was told of. */
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
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_alloc_settings settings;
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    assert_int_equal(mt_device_open("sim", &device), MT_OK);
    struct mt_device_table table = *device->table;
    table.spend = note_work;
    device->table = &table;
    assert_int_equal(mt_alloc_settings_parse("", &settings), MT_OK);
    assert_int_equal(mt_alloc_create(device, &sink, &settings, &alloc), MT_OK);
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

/* Each weight takes a multiplication and an addition a token, three times: in forward and for either gradient. Of
 * attention's products flash skips the half that no query sees. It makes seven for the gradients; four suffice if
 * weights are kept. In fp32 it does not use matrix units. */
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
    for (int way = 0; way < 10; way++) {
        struct mt_training_config config = small_config();
        config.steps = 1;
        config.attention = way & 1 ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
        config.autocast = (way & 2) != 0 || way >= 8;
        config.seq = way >= 8 ? 16 : config.seq; /* sums over tokens are padded to sixteens */
        config.math = way >= 8 ? MTK_MATH_FP8 : way & 4 ? MTK_MATH_TF32 : MTK_MATH_FP32;
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

/* Four tensors of fp32 are read and three written, and the casts that are kept. */
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

/* So that advice knows what could be made again. */
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
        cmocka_unit_test(every_block_is_written_as_often_as_ops_write_it),
        cmocka_unit_test(a_copy_in_fp8_is_known_as_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
