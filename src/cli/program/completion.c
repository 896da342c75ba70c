/* What the scripts for all shells share. */
#include "cli/program/completion.h"

#include "device/device.h"

/* Kinds of devices, and every card that can be simulated. */
static void add_devices(struct mt_text *out)
{
    mt_text_add(out, "auto cuda cpu sim");
    for (const char *const *card = mt_device_cards(); *card != NULL; card++)
        mt_text_add(out, " sim:%s", *card);
}

void mt_completion_add_words(const struct mt_option *option, struct mt_text *out)
{
    if (option->takes == MT_TAKES_DEVICE)
        add_devices(out);
    if (option->choices == NULL)
        return;
    for (int i = 0; option->choices[i] != NULL; i++)
        mt_text_add(out, "%s%s", i > 0 ? " " : "", option->choices[i]);
}

void mt_completion_add_commands(struct mt_text *out)
{
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        mt_text_add(out, "%s%s", i > 0 ? " " : "", mt_commands[i]->name);
}

void mt_completion_add_quoted(struct mt_text *out, const char *text)
{
    mt_text_add(out, "'");
    for (; *text != '\0'; text++)
        mt_text_add(out, *text == '\'' ? "'\\''" : "%c", *text);
    mt_text_add(out, "'");
}
