#include "answer/screen.h"

#include "answer/escape.h"

#include <string.h>

void mt_screen_continue(const struct mt_screen *screen, const char *words, size_t indent)
{
    struct mt_text visible = {0}, lines = {0};
    mt_text_add_visible(&visible, words);
    mt_text_add_wrapped(&lines, mt_text_get(&visible), indent, (size_t)screen->width);
    fputs(mt_text_get(&lines), screen->file);
    mt_text_release(&visible);
    mt_text_release(&lines);
}

void mt_screen_line(const struct mt_screen *screen, struct mt_text *line)
{
    const char *words = mt_text_get(line);
    size_t gap = strspn(words, "\n"), indent = strspn(words + gap, " ");
    fprintf(screen->file, "%.*s", (int)(gap + indent), words);
    mt_screen_continue(screen, words + gap + indent, indent);
    mt_text_release(line);
}

void mt_screen_say(const struct mt_screen *screen, const char *format, ...)
{
    struct mt_text line = {0};
    va_list arguments;
    va_start(arguments, format);
    mt_text_add_list(&line, format, arguments);
    va_end(arguments);
    mt_screen_line(screen, &line);
}

void mt_screen_gap(const struct mt_screen *screen)
{
    putc('\n', screen->file);
}
