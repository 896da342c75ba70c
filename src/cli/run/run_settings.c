#include "cli/run/run_settings.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const mt_mode_names[] = {
    [MT_MODE_INFER] = "infer", [MT_MODE_FWD] = "fwd", [MT_MODE_FWD_BWD] = "fwd_bwd", NULL};
const char *const mt_zero_grad_names[] = {
    [MT_ZERO_GRAD_BEFORE_BACKWARD] = "before-backward", [MT_ZERO_GRAD_BEFORE_FORWARD] = "before-forward", NULL};
const char *const mt_init_names[] = {[MT_INIT_RANDOM] = "random", [MT_INIT_REFERENCE] = "reference", NULL};
const char *const mt_data_names[] = {[MT_DATA_RANDOM] = "random", [MT_DATA_REFERENCE] = "reference", NULL};
const char *const mt_autocast_names[] = {"off", "bf16", NULL};
const char *const mt_attention_names[] = {[MT_ATTENTION_CUSTOM] = "custom",
                                          [MT_ATTENTION_SOFTMAX] = "softmax",
                                          [MT_ATTENTION_WEIGHTS] = "weights",
                                          [MT_ATTENTION_FLASH] = "flash",
                                          NULL};
const char *const mt_matmul_names[] = {[MTK_MATH_FP32] = "fp32", [MTK_MATH_TF32] = "tf32", NULL};
const char *const mt_optimizer_in_backward_names[] = {"off", "on", "beside", NULL};
const char *const mt_switch_names[] = {"off", "on", NULL};
const char *const mt_implementation_names[] = {
    [MT_IMPLEMENTATION_EAGER] = "eager", [MT_IMPLEMENTATION_FUSED] = "fused", NULL};
const char *const mt_weight_cast_names[] = {[MT_WEIGHT_CAST_REGION] = "region",
                                            [MT_WEIGHT_CAST_LAYER] = "layer",
                                            [MT_WEIGHT_CAST_PERSISTENT] = "persistent",
                                            NULL};
const char *const mt_checkpoint_names[] = {[MT_CHECKPOINT_OFF] = "off", [MT_CHECKPOINT_BLOCK] = "block", NULL};

static void add_text(struct mt_run_settings *settings, const char *name, const char *value)
{
    assert(settings->count < MT_MOST_RUN_SETTINGS);
    settings->items[settings->count++] = (struct mt_run_setting){name, mt_host_strdup(value)};
}

static void add_number(struct mt_run_settings *settings, const char *name, int64_t value)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%" PRId64, value);
    add_text(settings, name, text.data);
    mt_text_release(&text);
}

static void add_model(struct mt_run_settings *settings, const struct mt_model_config *model)
{
    add_text(settings, "model", model->name);
    add_number(settings, "vocab", model->vocab);
    add_number(settings, "d_model", model->d_model);
    add_number(settings, "d_ff", model->d_ff);
    add_number(settings, "layers", model->layers);
    add_number(settings, "heads", model->heads);
    add_text(settings, "rope", mt_switch_names[model->rope]);
}

static void add_training(struct mt_run_settings *settings, const struct mt_training_config *config)
{
    add_text(settings, "mode", mt_mode_names[config->mode]);
    add_number(settings, "batch", config->batch);
    add_number(settings, "seq", config->seq);
    add_number(settings, "steps", config->steps);
    add_number(settings, "warmup", config->warmup);
    add_number(settings, "seed", (int64_t)config->seed);
    add_text(settings, "autocast", mt_autocast_names[config->autocast]);
    add_text(settings, "attention", mt_attention_names[config->attention]);
    add_text(settings, "matmul", mt_matmul_names[config->math]);
    add_text(settings, "zero_grad", mt_zero_grad_names[config->zero_grad]);
    add_text(settings, "init", mt_init_names[config->init]);
    add_text(settings, "data", config->data == MT_DATA_FILE ? config->data_file : mt_data_names[config->data]);
    add_text(settings, "impl", mt_implementation_names[config->implementation]);
    add_text(settings, "weight_cast", mt_weight_cast_names[config->weight_cast]);
    add_text(settings, "checkpoint", mt_checkpoint_names[config->checkpoint]);
    add_text(settings, "optimizer_in_backward", mt_optimizer_in_backward_names[config->optimizer_in_backward]);
    add_text(settings, "cuda_graph", mt_switch_names[config->cuda_graph]);
}

struct mt_settings mt_run_settings_as_traced(const struct mt_run_settings *settings,
                                             struct mt_setting_row rows[MT_MOST_RUN_SETTINGS])
{
    for (size_t i = 0; i < settings->count; i++)
        rows[i] = (struct mt_setting_row){settings->items[i].name, settings->items[i].value};
    return (struct mt_settings){rows, settings->count};
}

void mt_run_settings_create(const struct mt_run_plan *plan, const struct mt_device *device, struct mt_run_settings *out)
{
    *out = (struct mt_run_settings){0};
    add_model(out, &plan->config.model);
    add_training(out, &plan->config);
    struct mt_text alloc = {0};
    mt_alloc_settings_format(&plan->alloc, &alloc);
    add_text(out, "alloc", alloc.data);
    mt_text_release(&alloc);
    add_text(out, "plan", mt_switch_names[plan->follows_plan]);
    add_text(out, "device", device->name);
    add_text(out, "kernels", mt_switch_names[mt_device_watches_kernels(device)]);
    add_text(out, "memtrace", MT_VERSION);
}

void mt_run_settings_release(struct mt_run_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        free((char *)settings->items[i].value);
}
