/* What the scripts for all shells share. */
#include "completion.h"

void mt_completion_add_words(const struct mt_option *option, struct mt_text *out)
{
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
