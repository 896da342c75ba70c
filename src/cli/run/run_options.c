#include "cli/run/run_options.h"

#include "cli/output/way_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OPTION(...) MT_RUN_OPTION(0, __VA_ARGS__)
#define AXIS(axis, ...) OPTION(__VA_ARGS__)
const struct mt_option mt_run_option_table[] = {
    MT_RUN_OPTIONS(AXIS, OPTION),
    {.name = "--device",
     .value = "DEVICE",
     .help = "auto, cuda, cuda:1, sim, sim:a100-80gb, sim:24GiB, cpu, cpu:4GiB (auto)",
     .kind = MT_OPTION_TEXT,
     .takes = MT_TAKES_DEVICE,
     .offset = offsetof(struct mt_run_options, device)},
    {.name = "--kernels",
     .help = "trace each kernel of a GPU, too: memtrace kernels asks about them",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct mt_run_options, kernels)},
    {.name = "--trace",
     .value = "FILE",
     .help = "where the run is added (" MT_DEFAULT_TRACE ")",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct mt_run_options, trace),
     .takes = MT_TAKES_FILE},
    {.name = "--name",
     .value = "TEXT",
     .help = "what to call the run",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct mt_run_options, name)},
    {.name = "--no-trace",
     .help = "write no trace",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct mt_run_options, no_trace)},
    {.name = "--no-grad-norms",
     .help = "with --json: read no gradients back, which takes seconds of a large model on a card",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct mt_run_options, no_grad_norms)},
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_OPTIONS_END,
};
#undef AXIS
#undef OPTION

const struct mt_run_options mt_run_options_none = MT_RUN_OPTIONS_NONE;

#define IS_GIVEN(kind, field, ...) options->field != mt_run_options_none.field
#define AXIS_IS_GIVEN(axis, ...) IS_GIVEN(__VA_ARGS__)
bool mt_run_options_given(const struct mt_run_options *options)
{
    const bool given[] = {MT_RUN_OPTIONS(AXIS_IS_GIVEN, IS_GIVEN)};
    return memchr(given, true, sizeof given) != NULL;
}
#undef AXIS_IS_GIVEN
#undef IS_GIVEN

static bool is_file(const char *model)
{
    const char *suffix = strrchr(model, '.');
    return (suffix != NULL && strcmp(suffix, ".json") == 0) || strchr(model, '/') != NULL;
}

/* Puts `given` into *out if there is one; true if it did. */
static bool override(int64_t given, int64_t *out)
{
    if (given != MT_UNSET)
        *out = given;
    return given != MT_UNSET;
}

static mt_status find_model(const char *given, struct mt_model_config *out)
{
    if (is_file(given))
        return mt_model_config_read(given, out);
    mt_status status = mt_model_config_named(given, out);
    return status == MT_OK ? status : mt_fail_way_out(status, "a file of sizes is given as FILE.json or ./FILE");
}

static mt_status plan_model(const struct mt_run_options *run, struct mt_model_config *model)
{
    mt_status status = run->model != NULL ? find_model(run->model, model) : MT_OK;
    bool changed = override(run->vocab, &model->vocab);
    changed |= override(run->d_model, &model->d_model);
    changed |= override(run->d_ff, &model->d_ff);
    changed |= override(run->layers, &model->layers);
    changed |= override(run->heads, &model->heads);
    if (changed)
        strcpy(model->name, "custom");
    if (run->rope != MT_UNSET)
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

/* How the model is implemented, and what follows from that where nothing else was said: of the fused one the fastest. */
static void plan_implementation(const struct mt_run_options *run, struct mt_training_config *config)
{
    if (run->impl != MT_UNSET)
        config->implementation = (mt_implementation_kind)run->impl;
    if (config->implementation == MT_IMPLEMENTATION_FUSED) {
        config->weight_cast = MT_WEIGHT_CAST_PERSISTENT;
        config->attention = mt_attention_takes_flash(&config->model) ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
    }
    if (run->weight_cast != MT_UNSET)
        config->weight_cast = (mt_weight_cast)run->weight_cast;
    if (run->checkpoint != MT_UNSET)
        config->checkpoint = (mt_checkpoint)run->checkpoint;
    if (run->optimizer_in_backward != MT_UNSET)
        config->optimizer_in_backward = (mt_optimizer_in_backward)run->optimizer_in_backward;
    if (run->cuda_graph != MT_UNSET)
        config->cuda_graph = run->cuda_graph != 0;
}

static void plan_training(const struct mt_run_options *run, struct mt_training_config *config)
{
    override(run->batch, &config->batch);
    override(run->seq, &config->seq);
    override(run->steps, &config->steps);
    override(run->warmup, &config->warmup);
    if (run->seed != MT_UNSET)
        config->seed = (uint64_t)run->seed;
    if (run->mode != MT_UNSET)
        config->mode = (mt_mode)run->mode;
    if (run->autocast != MT_UNSET)
        config->autocast = run->autocast != 0;
    plan_implementation(run, config);
    if (run->attention != MT_UNSET)
        config->attention = (mt_attention_kind)run->attention;
    if (run->matmul != MT_UNSET)
        config->math = (mtk_math)run->matmul;
    if (run->zero_grad != MT_UNSET)
        config->zero_grad = (mt_zero_grad)run->zero_grad;
    if (run->init != MT_UNSET)
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

/* Whether a graph, if one is asked for, could ever be launched, and kernels be told apart. */
static mt_status check_graph(const struct mt_run_plan *plan)
{
    const struct mt_training_config *config = &plan->config;
    if (!config->cuda_graph)
        return MT_OK;
    if (plan->watches_kernels)
        return mt_fail(MT_USAGE, "kernels that a graph launches belong to no op: --kernels takes --cuda-graph off");
    if (config->mode == MT_MODE_FWD_BWD && config->zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD && !plan->follows_plan)
        return mt_fail(MT_USAGE, "gradients that live into the next step lie elsewhere in each, and a graph repeats "
                                 "addresses: --cuda-graph on takes --zero-grad before-forward or --plan on");
    return MT_OK;
}

mt_status mt_run_options_plan(const struct mt_run_options *run, struct mt_run_plan *out)
{
    *out = (struct mt_run_plan){.config = mt_training_config_default(),
                                .device = run->device != NULL ? run->device : MT_DEVICE_AUTO,
                                .name = run->name,
                                .trace = run->no_trace ? NULL : run->trace,
                                .watches_kernels = run->kernels,
                                .follows_plan = run->plan > 0,
                                .wants_grad_norms = run->json && !run->no_grad_norms};
    mt_status status = check_name(run->name);
    if (status == MT_OK)
        status = plan_model(run, &out->config.model);
    if (status != MT_OK)
        return status;
    plan_training(run, &out->config);
    status = check_graph(out);
    if (status == MT_OK)
        status = mt_training_config_check(&out->config);
    return status == MT_OK ? mt_alloc_settings_parse(run->alloc != NULL ? run->alloc : "", &out->alloc) : status;
}

/* The settings of a traced run (run_settings.h) that its options repeat: all of them but the model's name, which stands
 * for sizes that are settings too, whether kernels were watched, which is a flag, and the program's version. */
static const struct {
    const char *setting, *option;
} repeated[] = {{"vocab", "--vocab"},
                {"d_model", "--d-model"},
                {"d_ff", "--d-ff"},
                {"layers", "--layers"},
                {"heads", "--heads"},
                {"rope", "--rope"},
                {"mode", "--mode"},
                {"batch", "--batch"},
                {"seq", "--seq"},
                {"steps", "--steps"},
                {"warmup", "--warmup"},
                {"seed", "--seed"},
                {"autocast", "--autocast"},
                {"attention", "--attention"},
                {"matmul", "--matmul"},
                {"zero_grad", "--zero-grad"},
                {"init", "--init"},
                {"data", "--data"},
                {"impl", "--impl"},
                {"weight_cast", "--weight-cast"},
                {"checkpoint", "--checkpoint"},
                {"optimizer_in_backward", "--optimizer-in-backward"},
                {"cuda_graph", "--cuda-graph"},
                {"alloc", "--alloc"},
                {"plan", "--plan"},
                {"device", "--device"}};

enum { REPEATED_COUNT = sizeof repeated / sizeof repeated[0] };

/* The setting's value; MT_USAGE if the run has none. */
static mt_status find_setting(const struct mt_settings *settings, const char *name, const char **out)
{
    *out = mt_settings_value(settings, name);
    if ((*out)[0] != '\0')
        return MT_OK;
    return mt_fail(MT_USAGE, "it has no setting \"%s\", which every run of memtrace run has", name);
}

/* The options that say what the settings say, read with run's own table. */
static mt_status options_of_settings(const struct mt_settings *settings, struct mt_run_options *out)
{
    char *arguments[2 * REPEATED_COUNT];
    for (size_t i = 0; i < REPEATED_COUNT; i++) {
        const char *value;
        mt_status status = find_setting(settings, repeated[i].setting, &value);
        if (status != MT_OK)
            return status;
        arguments[2 * i] = (char *)repeated[i].option; /* read only */
        arguments[2 * i + 1] = (char *)value;
    }
    *out = mt_run_options_none;
    out->no_trace = true;
    out->kernels = strcmp(mt_settings_value(settings, "kernels"), "on") == 0;
    return mt_options_parse(mt_run_option_table, 2 * REPEATED_COUNT, arguments, out);
}

/* Names the model as the run did; its sizes may be others than those that the name stands for here. */
static mt_status name_model(const struct mt_settings *settings, struct mt_model_config *model)
{
    const char *name;
    mt_status status = find_setting(settings, "model", &name);
    if (status == MT_OK && strlen(name) >= sizeof model->name)
        status = mt_fail(MT_USAGE, "its model's name is too long: %s", name);
    if (status == MT_OK)
        strcpy(model->name, name);
    return status;
}

mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out)
{
    struct mt_settings settings = {0};
    struct mt_run_options options;
    mt_status status = mt_settings_load(trace, run, &settings);
    if (status == MT_OK)
        status = options_of_settings(&settings, &options);
    if (status == MT_OK)
        status = mt_run_options_plan(&options, out);
    if (status == MT_OK)
        status = name_model(&settings, &out->config.model);
    mt_settings_release(&settings);
    if (status == MT_USAGE)
        return mt_fail_context(status, "run %" PRId64 " can't be repeated from its settings", run->id);
    return status;
}
