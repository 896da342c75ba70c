#include "cli/run/run_command.h"

#include "cli/output/output.h"
#include "cli/run/run_options.h"

void mt_run_command_add(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_COMMAND, settings);
    struct mt_text value = {0};
    mt_text_add(out, "memtrace run");
    for (size_t i = 0; i < count; i++) {
        char option[MT_OPTION_TEXT_BYTES];
        if (!mt_setting_is_told(settings[i], plan))
            continue;
        value.length = 0;
        mt_setting_format_short(settings[i], plan, &value);
        mt_text_add(out, " %s ", mt_run_option_spell(settings[i], option));
        mt_text_add_shell_word(out, mt_text_get(&value));
    }
    mt_text_release(&value);
}
