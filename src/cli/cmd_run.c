/* memtrace run: a training run, traced. */
#include "command.h"
#include "run_report.h"
#include "run_session.h"
#include "run_settings.h"

#include <string.h>

enum { UNSET = -1 };

/* As given; what was not given is NULL or UNSET, and keeps the model's or the default value. What a number may be is
 * checked where the whole configuration is. */
struct run_options {
    bool help, json, no_trace, kernels;
    const char *model, *device, *alloc, *trace, *name, *data;
    int64_t vocab, d_model, d_ff, layers, heads;
    int64_t batch, seq, steps, warmup, seed;
    int rope, mode, autocast, matmul, zero_grad, init, impl;
};

#define TEXT(field, flag, values, text)                                                                                \
    {                                                                                                                  \
        .name = flag, .value = values, .help = text, .kind = MT_OPTION_TEXT,                                           \
        .offset = offsetof(struct run_options, field)                                                                  \
    }
#define INTEGER(field, flag, text)                                                                                     \
    {                                                                                                                  \
        .name = flag, .value = "N", .help = text, .kind = MT_OPTION_INTEGER,                                           \
        .offset = offsetof(struct run_options, field), .low = 0, .high = INT64_MAX                                     \
    }
#define CHOICE(field, flag, list, text)                                                                                \
    {                                                                                                                  \
        .name = flag, .value = "CHOICE", .help = text, .kind = MT_OPTION_CHOICE,                                       \
        .offset = offsetof(struct run_options, field), .choices = list                                                 \
    }
#define FLAG(field, flag, text)                                                                                        \
    {                                                                                                                  \
        .name = flag, .help = text, .kind = MT_OPTION_FLAG, .offset = offsetof(struct run_options, field)              \
    }

static const struct mt_option options[] = {
    TEXT(model, "--model", "NAME|FILE.json", "small, medium, large, xl, 2.7B (the default), or a file with sizes"),
    INTEGER(vocab, "--vocab", "size of the vocabulary, in place of the model's"),
    INTEGER(d_model, "--d-model", "width of the residual stream"),
    INTEGER(d_ff, "--d-ff", "width of the feed-forward net"),
    INTEGER(layers, "--layers", "how many layers"),
    INTEGER(heads, "--heads", "attention heads of a layer"),
    CHOICE(rope, "--rope", mt_switch_names, "rotary position embedding (off)"),
    INTEGER(batch, "--batch", "sequences in a step (4)"),
    INTEGER(seq, "--seq", "tokens in a sequence (256)"),
    CHOICE(mode, "--mode", mt_mode_names, "no gradients, gradients kept, or a full training step (fwd_bwd)"),
    CHOICE(autocast, "--autocast", mt_autocast_names, "mixed precision (off)"),
    CHOICE(matmul, "--matmul", mt_matmul_names, "how matrix products of fp32 are computed (fp32)"),
    INTEGER(steps, "--steps", "how many steps (3)"),
    INTEGER(warmup, "--warmup", "steps before them; traced, numbered first, not timed (0)"),
    CHOICE(zero_grad, "--zero-grad", mt_zero_grad_names, "when the last step's gradients go (before-backward)"),
    CHOICE(init, "--init", mt_init_names, "how parameters begin (random)"),
    TEXT(data, "--data", "random|reference|FILE", "the tokens (random), or the bytes of a file"),
    INTEGER(seed, "--seed", "of random parameters and tokens (0)"),
    CHOICE(impl, "--impl", mt_implementation_names, "how the model is implemented (eager)"),
    TEXT(device, "--device", "DEVICE", "auto, cuda, cuda:1, sim, sim:a100-80gb, sim:24GiB, cpu, cpu:4GiB (auto)"),
    FLAG(kernels, "--kernels", "trace each kernel of a GPU, too: memtrace kernels asks about them"),
    TEXT(alloc, "--alloc", "SETTINGS", "policy=tight or policy=torch,max_split=…,… (policy=tight)"),
    TEXT(trace, "--trace", "FILE", "where the run is added (" MT_DEFAULT_TRACE ")"),
    TEXT(name, "--name", "TEXT", "what to call the run"),
    FLAG(no_trace, "--no-trace", "write no trace"),
    MT_OPTION_JSON(struct run_options),
    MT_OPTION_HELP(struct run_options),
    MT_OPTIONS_END,
};

static bool is_file(const char *model)
{
    const char *suffix = strrchr(model, '.');
    return (suffix != NULL && strcmp(suffix, ".json") == 0) || strchr(model, '/') != NULL;
}

/* Puts `given` into *out if there is one; true if it did. */
static bool override(int64_t given, int64_t *out)
{
    if (given != UNSET)
        *out = given;
    return given != UNSET;
}

static mt_status plan_model(const struct run_options *run, struct mt_model_config *model)
{
    mt_status status = MT_OK;
    if (run->model != NULL)
        status =
            is_file(run->model) ? mt_model_config_read(run->model, model) : mt_model_config_named(run->model, model);
    bool changed = override(run->vocab, &model->vocab);
    changed |= override(run->d_model, &model->d_model);
    changed |= override(run->d_ff, &model->d_ff);
    changed |= override(run->layers, &model->layers);
    changed |= override(run->heads, &model->heads);
    if (changed)
        strcpy(model->name, "custom");
    if (run->rope != UNSET)
        model->rope = run->rope != 0;
    return status;
}

static void plan_data(const char *data, struct mt_training_config *config)
{
    config->data = MT_DATA_FILE;
    config->data_file = data;
    for (int i = 0; mt_data_names[i] != NULL; i++)
        if (strcmp(mt_data_names[i], data) == 0)
            config->data = (mt_data)i;
}

static void plan_training(const struct run_options *run, struct mt_training_config *config)
{
    override(run->batch, &config->batch);
    override(run->seq, &config->seq);
    override(run->steps, &config->steps);
    override(run->warmup, &config->warmup);
    config->seed = (uint64_t)run->seed;
    if (run->mode != UNSET)
        config->mode = (mt_mode)run->mode;
    if (run->autocast != UNSET)
        config->autocast = run->autocast != 0;
    if (run->matmul != UNSET)
        config->math = (mtk_math)run->matmul;
    if (run->zero_grad != UNSET)
        config->zero_grad = (mt_zero_grad)run->zero_grad;
    if (run->init != UNSET)
        config->init = (mt_init)run->init;
    if (run->data != NULL)
        plan_data(run->data, config);
}

/* --run takes numbers and names, so a name must not look like a number. */
static mt_status check_name(const char *name)
{
    if (name == NULL || name[strspn(name, "0123456789")] != '\0')
        return MT_OK;
    return mt_fail(MT_USAGE, "--name \"%s\": a name needs something that is no digit, to tell it from a run's number",
                   name);
}

static mt_status plan_run(const struct run_options *run, struct mt_run_plan *out)
{
    *out = (struct mt_run_plan){.config = mt_training_config_default(),
                                .device = run->device,
                                .name = run->name,
                                .trace = run->no_trace ? NULL : run->trace,
                                .watches_kernels = run->kernels,
                                .wants_grad_norms = run->json};
    mt_status status = check_name(run->name);
    if (status == MT_OK)
        status = plan_model(run, &out->config.model);
    if (status != MT_OK)
        return status;
    plan_training(run, &out->config);
    status = mt_training_config_check(&out->config);
    return status == MT_OK ? mt_alloc_settings_parse(run->alloc, &out->alloc) : status;
}

static mt_status run_run(const void *given)
{
    const struct run_options *run = given;
    struct mt_run_plan plan;
    mt_status status = plan_run(run, &plan);
    if (status != MT_OK)
        return status;
    struct mt_run_result result;
    status = mt_run_session(&plan, &result);
    if (status == MT_OK)
        status = mt_run_report(&plan, &result, run->json ? MT_REPORT_JSON : MT_REPORT_TEXT);
    if (result.error != NULL)
        status = mt_fail(result.status, "%s", result.error);
    mt_run_result_release(&result);
    return status;
}

const struct mt_command mt_command_run = {
    .name = "run",
    .summary = "Runs training steps of a transformer and traces where every byte of device memory goes.",
    .usage = "[OPTIONS]",
    .details =
        "On cuda and cpu it really trains. On sim the same model, allocator and events run, and only the arithmetic\n"
        "is absent, so its losses are. A file of sizes is JSON with vocab, d_model, d_ff, layers, heads and\n"
        "rope. Each run is added to the trace; Ctrl-C leaves it readable.\n",
    .examples = "  memtrace run --model 2.7B --seq 256 --mode fwd_bwd\n"
                "  memtrace run --model small --autocast bf16 --alloc policy=torch --name baseline\n"
                "  memtrace run --device sim:24GiB --model medium --seq 512 --json\n"
                "  memtrace run --device cpu --vocab 256 --d-model 64 --d-ff 128 --layers 2 --heads 4 --seq 32\n",
    .options = options,
    .defaults = &(const struct run_options){.device = MT_DEVICE_AUTO,
                                            .alloc = "",
                                            .trace = MT_DEFAULT_TRACE,
                                            .vocab = UNSET,
                                            .d_model = UNSET,
                                            .d_ff = UNSET,
                                            .layers = UNSET,
                                            .heads = UNSET,
                                            .batch = UNSET,
                                            .seq = UNSET,
                                            .steps = UNSET,
                                            .warmup = UNSET,
                                            .rope = UNSET,
                                            .mode = UNSET,
                                            .autocast = UNSET,
                                            .matmul = UNSET,
                                            .zero_grad = UNSET,
                                            .init = UNSET},
    .options_bytes = sizeof(struct run_options),
    .run = run_run,
};
