/* The options that describe a run. `run` takes single values, `sweep` takes lists of values, and `fit` uses them to
 * describe the run to check. The options, and the command that repeats a run, are generated from the table of
 * settings. */
#pragma once

#include "cli/command.h"
#include "cli/record/dry_options.h"
#include "cli/watch/metrics_options.h"
#include "producers/model/settings.h"
#include "words/run_words.h"

#include <jansson.h>

/* Options as given on the command line. A setting that was not given is NULL, and has the model's value or the
 * default. */
struct mt_run_options {
    bool help, json, no_trace, kernels, no_grad_norms;
    const char *device, *trace, *name;
    int64_t wait; /* seconds */
    struct mt_metrics_options metrics;
    const char *given[MT_SETTING_COUNT]; /* the value, or in `sweep` the list of values, of a setting with an option */
};

/* An entry of a command's table that stands for the options of all settings. Their values are stored in `given` of the
 * struct mt_run_options at offset `at` in the command's struct. `group_function` is mt_run_setting_option,
 * mt_sweep_setting_option for lists of values, or mt_fit_setting_option, where PyTorch's allocator is the default. */
#define MT_RUN_SETTINGS(group_function, at)                                                                            \
    {                                                                                                                  \
        .name = "settings", .group = group_function, .offset = (at) + offsetof(struct mt_run_options, given)           \
    }
bool mt_run_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);
bool mt_sweep_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);
bool mt_fit_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out);

/* Returns a setting's value as JSON; a number if the setting is numeric. */
json_t *mt_run_setting_json(mt_setting setting, const char *value);

/* The help of --alloc for answers that use PyTorch's allocator by default. */
#define MT_ASKED_ALLOC_HELP "the allocator that the answer is about (PyTorch's, policy=torch)"

/* True if any setting except the allocator's was given: then they describe a run. */
bool mt_run_options_describe(const struct mt_run_options *options);

/* Returns the plan from the options. Borrows their texts. Fails with MT_USAGE for an invalid run. */
mt_status mt_run_options_plan(const struct mt_run_options *options, struct mt_run_plan *out);

/* Applies --steps to a program for dry runs. Fails with MT_USAGE for other settings of a run. */
mt_status mt_program_options_take(const struct mt_run_options *options, struct mt_dry_options *program);
