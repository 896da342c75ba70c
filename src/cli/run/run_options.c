#include "cli/run/run_options.h"

#include "cli/output/output.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mt_option_kind option_kinds[] = {[MT_SETTING_IS_INTEGER] = MT_OPTION_INTEGER,
                                              [MT_SETTING_IS_CHOICE] = MT_OPTION_CHOICE,
                                              [MT_SETTING_IS_SWITCH] = MT_OPTION_CHOICE,
                                              [MT_SETTING_IS_TEXT] = MT_OPTION_TEXT};

/* Writes "off|bf16" into `out`, and returns it. */
static const char *join_choices(const char *const *choices, char out[MT_OPTION_TEXT_BYTES])
{
    int length = 0;
    for (size_t i = 0; choices[i] != NULL; i++) {
        length += snprintf(out + length, (size_t)(MT_OPTION_TEXT_BYTES - length), "%s%s", i > 0 ? "|" : "", choices[i]);
        assert(length < MT_OPTION_TEXT_BYTES);
    }
    return out;
}

/* Returns the help's placeholder for the value, which may be stored in `text`. */
static const char *value_word(const struct mt_setting_entry *entry, char text[MT_OPTION_TEXT_BYTES])
{
    if (entry->value != NULL)
        return entry->value;
    return entry->axis != MT_AXIS_NONE ? join_choices(entry->choices, text) : "CHOICE";
}

bool mt_run_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out)
{
    const struct mt_setting_entry *entry = &mt_setting_table[index];
    if (index == MT_SETTING_COUNT || entry->help == NULL)
        return false;
    *out = (struct mt_option){.name = mt_run_option_spell((mt_setting)index, texts->name),
                              .value = value_word(entry, texts->value),
                              .help = entry->help,
                              .kind = option_kinds[entry->kind],
                              .offset = index * sizeof(const char *),
                              .high = INT64_MAX,
                              .choices = entry->choices,
                              .keeps_text = true};
    return true;
}

bool mt_sweep_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out)
{
    if (!mt_run_setting_option(index, texts, out))
        return false;
    if (mt_setting_table[index].axis == MT_AXIS_NONE)
        return true;
    char word[MT_OPTION_TEXT_BYTES];
    const char *one = value_word(&mt_setting_table[index], word);
    enum { ROOM = MT_OPTION_TEXT_BYTES - sizeof ",..." };
    assert(strlen(one) <= ROOM);
    snprintf(texts->value, sizeof texts->value, "%.*s,...", (int)ROOM, one);
    out->value = texts->value;
    out->kind = MT_OPTION_TEXT; /* values are checked when the list is split */
    return true;
}

bool mt_fit_setting_option(size_t index, struct mt_option_texts *texts, struct mt_option *out)
{
    if (!mt_run_setting_option(index, texts, out))
        return false;
    if (index == MT_SETTING_ALLOC)
        out->help = MT_ASKED_ALLOC_HELP;
    return true;
}

json_t *mt_run_setting_json(mt_setting setting, const char *value)
{
    if (mt_setting_table[setting].kind == MT_SETTING_IS_INTEGER)
        return json_integer(strtoll(value, NULL, 10));
    return mt_json_text(value);
}

bool mt_run_options_describe(const struct mt_run_options *options)
{
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        if (setting != MT_SETTING_ALLOC && options->given[setting] != NULL)
            return true;
    return false;
}

/* Fails for a name that --run would interpret as a number. */
static mt_status check_name(const char *name)
{
    if (name == NULL || name[strspn(name, "0123456789")] != '\0')
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "--name \"%s\": a name needs a character other than digits, so that it is not a run's number", name);
}

mt_status mt_run_options_plan(const struct mt_run_options *run, struct mt_run_plan *out)
{
    *out = mt_run_plan_usual();
    if (run->device != NULL)
        out->device = run->device;
    out->name = run->name;
    out->trace = run->no_trace ? NULL : run->trace;
    out->wait_seconds = (int)run->wait;
    out->watches_kernels = run->kernels;
    out->wants_grad_norms = run->json && !run->no_grad_norms;
    mt_status status = check_name(run->name);
    return status == MT_OK ? mt_run_plan_set(out, run->given) : status;
}

mt_status mt_program_options_take(const struct mt_run_options *options, struct mt_dry_options *program)
{
    const char *steps = options->given[MT_SETTING_STEPS];
    char option[MT_OPTION_TEXT_BYTES];
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        if (setting != MT_SETTING_STEPS && options->given[setting] != NULL)
            return mt_fail(MT_USAGE, "%s is of memtrace's own model: give PROGRAM its options behind its name",
                           mt_run_option_spell(setting, option));
    return steps == NULL ? MT_OK : mt_parse_integer("--steps", steps, 1, MT_MOST_DRY_STEPS, &program->steps);
}
