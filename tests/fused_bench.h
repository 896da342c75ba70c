/* A fused model that a test runs step by step, on the device that the test was given, and settings that several tests
 * train. */
#pragma once

#include "model_device.h"
#include "producers/model/fused_model.h"
#include "producers/model/ops.h"
#include "producers/model/token_source.h"
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *test_device = "cpu:2GiB";

struct bench_model {
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_interner *interner;
    struct mt_sink sink;
    struct mt_runtime rt;
    struct mt_training_config config;
    struct mt_fused_model model;
    struct mt_token_source *tokens;
    struct mt_gradient_watch watch; /* of every backward */
};

static inline void open_model(struct bench_model *m, const struct mt_training_config *config)
{
    *m = (struct bench_model){.config = *config};
    m->interner = mt_interner_create();
    m->sink = mt_sink_discarding(m->interner);
    assert_int_equal(mt_training_config_check(config), MT_OK);
    m->device = open_model_device(test_device);
    m->alloc = create_alloc(m->device, "", &m->sink);
    assert_int_equal(mt_token_source_open(&m->config, &m->tokens), MT_OK);
    mt_runtime_open(&m->rt, m->device, m->alloc);
    mt_fused_create(&m->rt, &m->config, &m->model);
}

static inline void close_model(struct bench_model *m)
{
    struct mt_alloc_stats stats;
    if (m->rt.status != MT_OK)
        fail_msg("%s", mt_last_error());
    mt_fused_destroy(&m->rt, &m->model);
    mt_op_workspaces_release(&m->rt);
    mt_token_source_close(m->tokens);
    mt_alloc_stats(m->alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    mt_alloc_destroy(m->alloc);
    mt_device_close(m->device);
    mt_interner_destroy(m->interner);
}

/* Returns the elements of a contiguous tensor, widened. The caller frees them. */
static inline double *read_all(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    assert_non_null(tensor);
    size_t count = (size_t)mt_tensor_count(tensor), size = mt_dtype_bytes(tensor->dtype);
    void *raw = mt_host_alloc(count * size);
    double *values = mt_host_alloc(count * sizeof *values);
    assert_int_equal(mt_device_read(rt->device, raw, tensor->address, count * size, 0), MT_OK);
    for (size_t i = 0; i < count; i++)
        values[i] = tensor->dtype == MT_F64 ? ((double *)raw)[i] : (double)((float *)raw)[i];
    free(raw);
    return values;
}

/* Returns the values or gradients of a part. The caller frees them. */
static inline double *read_part(struct bench_model *m, const struct mt_fused_part *part, bool gradient)
{
    const struct mt_parameter *parameter = &part->weight->parameter;
    struct mt_tensor *view = mt_fused_part_view(&m->rt, part, gradient ? parameter->grad : parameter->value);
    double *values = read_all(&m->rt, view);
    mt_tensor_release(&m->rt, view);
    return values;
}

static inline size_t part_count(const struct mt_fused_part *part)
{
    const struct mt_tensor *value = part->weight->parameter.value;
    return (size_t)(part->rows * value->shape[value->dims - 1]);
}

/* Runs one step of training and returns its loss. Calls `before_update`, if there is one, between backward and
 * update. */
static inline double train_step(struct bench_model *m, int64_t step,
                                void (*before_update)(struct bench_model *m, void *), void *context)
{
    struct mt_tensor *inputs, *targets;
    mt_token_source_next(&m->rt, m->tokens, step, &inputs, &targets);
    mt_fused_forward(&m->rt, &m->model, inputs);
    mt_fused_loss(&m->rt, &m->model, targets);
    double *value = read_all(&m->rt, m->model.loss), loss = value[0];
    free(value);
    mt_fused_zero_grad(&m->rt, &m->model);
    mt_fused_backward(&m->rt, &m->model, step + 1, m->watch);
    if (m->rt.status != MT_OK)
        fail_msg("%s", mt_last_error());
    if (before_update != NULL)
        before_update(m, context);
    mt_fused_update(&m->rt, &m->model, step + 1);
    mt_tensor_release(&m->rt, inputs);
    mt_tensor_release(&m->rt, targets);
    mt_fused_end_step(&m->rt, &m->model);
    return loss;
}

static inline struct mt_training_config small_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 97, .d_model = 48, .d_ff = 80, .layers = 3, .heads = 3, .rope = true};
    config.batch = 2;
    config.seq = 13;
    config.init = MT_INIT_REFERENCE;
    config.data = MT_DATA_REFERENCE;
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_WEIGHTS;
    return config;
}

static inline uint64_t peak_of(struct mt_training_config config)
{
    struct recording recording;
    struct mt_alloc_stats stats;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "", &config, NULL, &stats), MT_OK);
    recording_close(&recording);
    return stats.all.peak_allocated_bytes;
}

static inline struct mt_training_config course_config(int64_t seq)
{
    struct mt_training_config config = mt_training_config_default();
    config.seq = seq;
    config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD;
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    return config;
}

/* Records a training. */
static inline void record_training(struct recording *recording, const struct mt_training_config *config,
                                   const char *alloc, const char *device)
{
    recording_open(recording);
    if (recording_train(recording, device, alloc, config, NULL, NULL) != MT_OK)
        fail_msg("on %s: %s", device, mt_last_error());
}

/* Trains on the device and on a simulated one of the same card. Returns the number of the first event that differs, or
 * -1. */
static inline long first_difference(const struct mt_training_config *config, const char *alloc)
{
    struct recording planned, executed;
    struct mt_device *device;
    char sim[MT_DEVICE_NAME];
    assert_int_equal(mt_model_device_open(test_device, &device), MT_OK);
    mt_device_spell_simulated(&device->card, device->capacity_bytes, sim);
    mt_device_close(device);
    record_training(&planned, config, alloc, sim);
    record_training(&executed, config, alloc, test_device);
    long differs = recording_first_difference(&planned, &executed);
    recording_close(&planned);
    recording_close(&executed);
    return differs;
}
