/* The eager model's arithmetic against the golden file: losses, logits, gradients, parameters after five steps. The
 * device (cpu) may be given as an argument, and after it the file. */
#include "golden_cases.h"
#include "gpu.h"
#include "model_device.h"
#include "producers/model/autocast.h"
#include "producers/model/graph.h"
#include "producers/model/ops.h"
#include "producers/model/optimizer.h"
#include "producers/model/token_source.h"
#include "producers/model/transformer.h"
#include "recording.h"

#include <stdio.h>

static const char *golden_device = "cpu:2GiB";

/* Returns an element of data that was read back, widened. */
static double element(const void *raw, mt_dtype dtype, size_t i)
{
    if (dtype == MT_F64)
        return ((const double *)raw)[i];
    uint32_t bits = dtype == MT_BF16 ? (uint32_t)((const uint16_t *)raw)[i] << 16 : ((const uint32_t *)raw)[i];
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double *read_all(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    size_t count = (size_t)mt_tensor_count(tensor), size = mt_dtype_bytes(tensor->dtype);
    void *raw = mt_host_alloc(count * size);
    double *values = mt_host_alloc(count * sizeof *values);
    assert_int_equal(mt_device_read(rt->device, raw, tensor->address, count * size, 0), MT_OK);
    for (size_t i = 0; i < count; i++)
        values[i] = element(raw, tensor->dtype, i);
    free(raw);
    return values;
}

static void compare_tensor(struct mt_runtime *rt, const char *what, const struct mt_tensor *tensor,
                           const json_t *golden, const struct golden_tolerance *tolerance)
{
    double *values = read_all(rt, tensor);
    golden_expect_values(what, golden, values, (size_t)mt_tensor_count(tensor), tolerance);
    free(values);
}

/* A model on the device, step by step. */
struct bench_model {
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_interner *interner;
    struct mt_sink sink;
    struct mt_runtime rt;
    struct mt_transformer model;
    struct mt_token_source *tokens;
    bool autocast;
};

static void open_model(struct bench_model *m, const struct mt_training_config *config)
{
    m->autocast = config->autocast;
    m->interner = mt_interner_create();
    m->sink = mt_sink_discarding(m->interner);
    m->device = open_model_device(golden_device);
    m->alloc = create_alloc(m->device, "", &m->sink);
    assert_int_equal(mt_token_source_open(config, &m->tokens), MT_OK);
    mt_runtime_open(&m->rt, m->device, m->alloc);
    mt_transformer_create(&m->rt, config, &m->model);
}

static void close_model(struct bench_model *m)
{
    struct mt_alloc_stats stats;
    mt_transformer_destroy(&m->rt, &m->model);
    mt_op_workspaces_release(&m->rt);
    mt_token_source_close(m->tokens);
    mt_alloc_stats(m->alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(m->alloc);
    mt_device_close(m->device);
    mt_interner_destroy(m->interner);
}

static void compare_logits(struct mt_runtime *rt, const struct mt_tensor *logits, const json_t *golden,
                           const struct golden_tolerance *tolerance)
{
    json_t *packed = json_pack("{s:O, s:O}", "norm", json_object_get(golden, "logits_norm"), "first",
                               json_object_get(golden, "logits_first"));
    compare_tensor(rt, "logits", logits, packed, tolerance);
    json_decref(packed);
}

static void compare_parameters(struct bench_model *m, const json_t *golden, bool gradients,
                               const struct golden_tolerance *tolerance)
{
    for (int64_t i = 0; i < m->model.parameter_count; i++) {
        const struct mt_parameter *p = &m->model.parameters[i];
        compare_tensor(&m->rt, p->name, gradients ? p->grad : p->value, json_object_get(golden, p->name), tolerance);
    }
}

static void train_step(struct bench_model *m, int64_t step, const json_t *golden,
                       const struct golden_tolerance *tolerance)
{
    struct mt_tensor *inputs, *targets;
    mt_token_source_next(&m->rt, m->tokens, step, &inputs, &targets);
    if (m->autocast)
        mt_autocast_begin(&m->rt, MT_BF16);
    struct mt_tensor *logits = mt_transformer_forward(&m->rt, &m->model, inputs);
    struct mt_tensor *loss = mt_cross_entropy(&m->rt, logits, targets);
    mt_autocast_end(&m->rt);
    assert_int_equal(m->rt.status, MT_OK);
    double *value = read_all(&m->rt, loss);
    golden_expect_loss(golden, step, value[0], tolerance);
    free(value);
    if (step == 0)
        compare_logits(&m->rt, logits, golden, tolerance);
    mt_optimizer_zero_grad(&m->rt, &m->model);
    mt_graph_backward(&m->rt, loss);
    if (step == 0)
        compare_parameters(m, json_object_get(golden, "grads"), true, tolerance);
    mt_optimizer_step(&m->rt, &m->model, step + 1);
    mt_tensor_release(&m->rt, inputs);
    mt_tensor_release(&m->rt, targets);
    mt_tensor_release(&m->rt, logits);
    mt_tensor_release(&m->rt, loss);
}

static void check_case(const json_t *golden)
{
    const struct mt_training_config config = golden_config(golden);
    const struct golden_tolerance tolerance = golden_tolerance_of(&config);
    struct bench_model m = {0};
    open_model(&m, &config);
    for (int64_t step = 0; step < GOLDEN_STEPS; step++)
        train_step(&m, step, golden, &tolerance);
    compare_parameters(&m, json_object_get(golden, "params_after"), false, &tolerance);
    close_model(&m);
}

static void the_model_computes_what_the_golden_file_says(void **state)
{
    (void)state;
    json_t *cases = golden_load(), *golden;
    size_t i;
    json_array_foreach(cases, i, golden)
    {
        print_message("%s\n", json_string_value(json_object_get(golden, "name")));
        check_case(golden);
    }
    assert_true(i >= GOLDEN_LEAST_CASES);
    json_decref(cases);
}

int main(int count, char **arguments)
{
    if (count > 2)
        golden_path = arguments[2];
    if (!take_device(count, arguments, &golden_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_model_computes_what_the_golden_file_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
