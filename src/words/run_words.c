#include "words/run_words.h"

#include "answer/escape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const char *mt_run_option_spell(mt_setting setting, char out[MT_RUN_OPTION_BYTES])
{
    int length = snprintf(out, MT_RUN_OPTION_BYTES, "--%s", mt_setting_table[setting].name);
    assert(length < MT_RUN_OPTION_BYTES);
    (void)length;
    for (char *letter = out; *letter != '\0'; letter++)
        if (*letter == '_')
            *letter = '-';
    return out;
}

void mt_run_command_add(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_COMMAND, settings);
    struct mt_text value = {0};
    mt_text_add(out, "memtrace run");
    for (size_t i = 0; i < count; i++) {
        char option[MT_RUN_OPTION_BYTES];
        if (!mt_setting_is_told(settings[i], plan))
            continue;
        value.length = 0;
        mt_setting_format_short(settings[i], plan, &value);
        mt_text_add(out, " %s ", mt_run_option_spell(settings[i], option));
        mt_text_add_shell_word(out, mt_text_get(&value));
    }
    mt_text_release(&value);
}

void mt_text_add_run_name(struct mt_text *out, const struct mt_run *run)
{
    mt_text_add(out, "run %" PRId64, run->id);
    if (run->name != NULL)
        mt_text_add(out, " (%s)", run->name);
}

void mt_run_title_print(const struct mt_run *run, const struct mt_screen *screen)
{
    struct mt_text name = {0};
    mt_text_add_run_name(&name, run);
    mt_screen_say(screen, "%s, %s, %s, %" PRId64 " step%s", name.data, run->device, run->state, run->steps,
                  run->steps == 1 ? "" : "s");
    mt_screen_gap(screen);
    mt_text_release(&name);
}

/* Adds the option that makes the change, as the remedy's plan has it. */
static void add_change(const struct mt_run_plan *plan, mt_setting change, struct mt_text *out)
{
    char option[MT_RUN_OPTION_BYTES];
    mt_text_add(out, "%s ", mt_run_option_spell(change, option));
    mt_setting_format(change, plan, out);
    if (change != MT_SETTING_IMPL || !plan->config.autocast)
        return;
    mt_text_add(out, " ");
    add_change(plan, MT_SETTING_WEIGHT_CAST, out);
}

void mt_fit_remedy_add_changes(const struct mt_fit_remedy *remedy, struct mt_text *out)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_CHANGES, settings);
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        if (!remedy->changes.has[settings[i]])
            continue;
        mt_text_add(out, "%s", before);
        add_change(&remedy->plan, settings[i], out);
        before = " ";
    }
}
