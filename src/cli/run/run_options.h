/* The options that describe a run. `run` takes them as they are, `sweep` takes lists of values, and `fit` asks
 * about the run that they describe. They derive from the table of settings, as does the command that repeats a
 * run. */
#pragma once

#include "cli/command.h"
#include "cli/record/dry_options.h"
#include "cli/watch/metrics_options.h"
#include "producers/model/settings.h"
#include "words/run_words.h"

#include <jansson.h>

/* Options as given. A setting that was not given is NULL, and keeps the model's or the usual value. */
struct mt_run_options {
    bool help, json, no_trace, kernels, no_grad_norms;
    const char *device, *trace, *name;
    int64_t wait; /* seconds */
    struct mt_metrics_options metrics;
    const char *given[MT_SETTING_COUNT]; /* the value, in `sweep` the list of values, of a setting with an option */
};

/* An entry of a command's table that stands for the options of all settings. Their values are kept in `given` of
 * the struct mt_run_options that lies at an offset of the command's struct. `group_function` is
 * mt_run_setting_option, mt_sweep_setting_option for lists of values, or mt_fit_setting_option, of which PyTorch's
 * allocator is the usual one. */
#define MT_RUN_SETTINGS(group_function, at)                                                                            \
    {                                                                                                                  \
        .name = "settings", .group = group_function, .offset = (at) + offsetof(struct mt_run_options, given)           \
    }
bool mt_run_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);
bool mt_sweep_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);
bool mt_fit_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);

/* Returns the text of a setting's value as JSON, a number where the setting is one. */
json_t *mt_run_setting_json(mt_setting setting, const char *value);

/* The help of --alloc where an answer is about PyTorch's allocator unless it is given. */
#define MT_ASKED_ALLOC_HELP "the allocator that the answer is about (PyTorch's, policy=torch)"

/* True if any setting was given but that of the allocator: they describe a run. */
bool mt_run_options_describe(const struct mt_run_options *options);

/* Makes the plan that the options describe. Borrows their texts. Fails with MT_USAGE for a run that can't be made. */
mt_status mt_run_options_plan(const struct mt_run_options *options, struct mt_run_plan *out);

/* Takes --steps for a program that is run dry instead. Fails with MT_USAGE for another setting of a run. */
mt_status mt_program_options_take(const struct mt_run_options *options, struct mt_dry_options *program);
