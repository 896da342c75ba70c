#include "cli/run/run_command.h"

#include "cli/output/output.h"
#include "cli/run/run_settings.h"

#include <inttypes.h>
#include <string.h>

static void add_word(struct mt_text *out, const char *option, const char *word)
{
    mt_text_add(out, " %s ", option);
    mt_text_add_shell_word(out, word);
}

static void add_number(struct mt_text *out, const char *option, int64_t number)
{
    mt_text_add(out, " %s %" PRId64, option, number);
}

static bool has_sizes_of(const struct mt_model_config *a, const struct mt_model_config *b)
{
    return a->vocab == b->vocab && a->d_model == b->d_model && a->d_ff == b->d_ff && a->layers == b->layers &&
           a->heads == b->heads;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; mt_model_names[i] != NULL; i++)
        if (strcmp(mt_model_names[i], name) == 0)
            return true;
    return false;
}

/* By its name if that stands for these sizes, else size by size. */
static void add_model(struct mt_text *out, const struct mt_model_config *model)
{
    struct mt_model_config named;
    if (is_known(model->name) && mt_model_config_named(model->name, &named) == MT_OK && has_sizes_of(model, &named)) {
        add_word(out, "--model", model->name);
    } else {
        add_number(out, "--vocab", model->vocab);
        add_number(out, "--d-model", model->d_model);
        add_number(out, "--d-ff", model->d_ff);
        add_number(out, "--layers", model->layers);
        add_number(out, "--heads", model->heads);
    }
    if (model->rope)
        add_word(out, "--rope", mt_switch_names[1]);
}

static void add_data(struct mt_text *out, const struct mt_training_config *config)
{
    if (config->data == MT_DATA_FILE)
        add_word(out, "--data", config->data_file);
    else if (config->data != MT_DATA_RANDOM)
        add_word(out, "--data", mt_data_names[config->data]);
}

static void add_choices(struct mt_text *out, const struct mt_training_config *config)
{
    struct mt_training_config usual = mt_training_config_default();
    if (config->implementation ==
        MT_IMPLEMENTATION_FUSED) { /* has usual values of its own, which say less than they do */
        usual.attention = config->attention + 1;
        usual.weight_cast = config->weight_cast + config->autocast; /* without it there is nothing to cast */
    }
    const struct {
        const char *option;
        const char *const *names;
        int value, usual;
    } choices[] = {{"--mode", mt_mode_names, (int)config->mode, (int)usual.mode},
                   {"--autocast", mt_autocast_names, config->autocast, usual.autocast},
                   {"--impl", mt_implementation_names, (int)config->implementation, (int)usual.implementation},
                   {"--weight-cast", mt_weight_cast_names, (int)config->weight_cast, (int)usual.weight_cast},
                   {"--checkpoint", mt_checkpoint_names, (int)config->checkpoint, (int)usual.checkpoint},
                   {"--optimizer-in-backward", mt_optimizer_in_backward_names, (int)config->optimizer_in_backward,
                    usual.optimizer_in_backward},
                   {"--cuda-graph", mt_switch_names, config->cuda_graph, usual.cuda_graph},
                   {"--attention", mt_attention_names, (int)config->attention, (int)usual.attention},
                   {"--matmul", mt_matmul_names, (int)config->math, (int)usual.math},
                   {"--zero-grad", mt_zero_grad_names, (int)config->zero_grad, (int)usual.zero_grad},
                   {"--init", mt_init_names, (int)config->init, (int)usual.init}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (choices[i].value != choices[i].usual)
            add_word(out, choices[i].option, choices[i].names[choices[i].value]);
}

static void add_counts(struct mt_text *out, const struct mt_training_config *config)
{
    const struct mt_training_config usual = mt_training_config_default();
    add_number(out, "--seq", config->seq);
    add_number(out, "--batch", config->batch);
    if (config->steps != usual.steps)
        add_number(out, "--steps", config->steps);
    if (config->warmup != usual.warmup)
        add_number(out, "--warmup", config->warmup);
    if (config->seed != usual.seed)
        add_number(out, "--seed", (int64_t)config->seed);
}

/* Without the settings that a policy has by itself. */
static void add_alloc(struct mt_text *out, const struct mt_alloc_settings *alloc)
{
    struct mt_text text = {0};
    if (alloc->policy == MT_POLICY_TIGHT)
        return;
    mt_alloc_settings_format_short(alloc, &text);
    add_word(out, "--alloc", text.data);
    mt_text_release(&text);
}

void mt_run_command_add(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_text_add(out, "memtrace run");
    add_word(out, "--device", plan->device);
    add_model(out, &plan->config.model);
    add_counts(out, &plan->config);
    add_choices(out, &plan->config);
    add_data(out, &plan->config);
    add_alloc(out, &plan->alloc);
    if (plan->follows_plan)
        add_word(out, "--plan", mt_switch_names[1]);
}
