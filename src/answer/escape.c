#include "answer/escape.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

size_t mt_text_width(const char *text, size_t bytes)
{
    size_t width = 0;
    for (size_t i = 0; i < bytes; i++)
        width += !mt_continues_character(text[i]);
    return width;
}

void mt_text_add_wrapped(struct mt_text *out, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    assert(width > 0);
    for (const char *word = text; *word != '\0';) {
        size_t bytes = strcspn(word, " "), taken = mt_text_width(word, bytes);
        if (column > indent && column + 1 + taken > width) {
            mt_text_add(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        mt_text_add(out, "%s%.*s", column > indent ? " " : "", (int)bytes, word);
        column += taken + (column > indent);
        word += bytes + (word[bytes] == ' ');
    }
    mt_text_add(out, "\n");
}

/* Returns the code point of the character at `text`, which has `length` bytes. */
static uint32_t character_at(const char *text, int length)
{
    static const unsigned char first[] = {0x7F, 0x1F, 0x0F, 0x07};
    uint32_t number = (unsigned char)text[0] & first[length - 1];
    for (int i = 1; i < length; i++)
        number = number << 6 | ((unsigned char)text[i] & 0x3F);
    return number;
}

/* True for invisible characters that affect the text around them: C0 and C1 controls, DEL, direction marks and
 * overrides, line and paragraph separators; and for characters that XML does not allow. */
static bool is_control(const char *text, int length)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},  {0x200E, 0x200F},
                  {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFFFE, 0xFFFF}};
    const uint32_t number = character_at(text, length);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (number >= ranges[i].first && number <= ranges[i].last)
            return true;
    return false;
}

/* Returns how many bytes at `name` may be shown unescaped. */
static int visible_length(const char *name)
{
    int length = 0;
    for (;;) {
        const char *at = name + length;
        int next = *at != '\0' ? mt_utf8_length(at) : 0;
        if (next == 0 || is_control(at, next))
            return length;
        length += next;
    }
}

void mt_text_add_visible(struct mt_text *out, const char *name)
{
    for (;;) {
        int plain = visible_length(name);
        mt_text_add(out, "%.*s", plain, name);
        name += plain;
        if (*name == '\0')
            return;
        mt_text_add(out, "\\x%02x", (unsigned char)*name++);
    }
}

void mt_text_add_markup(struct mt_text *out, const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, text);
    for (const char *rest = mt_text_get(&visible); *rest != '\0';) {
        int plain = (int)strcspn(rest, special);
        mt_text_add(out, "%.*s", plain, rest);
        rest += plain;
        if (*rest != '\0')
            mt_text_add(out, "%s", entities[strchr(special, *rest++) - special]);
    }
    mt_text_release(&visible);
}

/* True if the character at `at` has a meaning in Markdown. An underscore inside a word has none; a colon or a period
 * has one only in an address. */
static bool is_markdown(const char *text, size_t at)
{
    if (text[at] == ':')
        return text[at + 1] == '/';
    if (text[at] == '.')
        return at >= 3 && strncasecmp(text + at - 3, "www", 3) == 0;
    if (text[at] == '_')
        return at == 0 || !isalnum((unsigned char)text[at - 1]) || !isalnum((unsigned char)text[at + 1]);
    return strchr("\\`*[]<>&|~$@#", text[at]) != NULL;
}

void mt_text_add_markdown(struct mt_text *out, const char *text)
{
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, text);
    const char *rest = mt_text_get(&visible);
    for (size_t i = 0; rest[i] != '\0'; i++)
        mt_text_add(out, is_markdown(rest, i) ? "\\%c" : "%c", rest[i]);
    mt_text_release(&visible);
}

/* Adds a word with its control characters escaped in shell syntax: $'a\x1bb'. */
static void add_escaped_word(struct mt_text *out, const char *word)
{
    mt_text_add(out, "$'");
    while (*word != '\0') {
        int shown = visible_length(word);
        for (int i = 0; i < shown; i++)
            mt_text_add(out, word[i] == '\'' || word[i] == '\\' ? "\\%c" : "%c", word[i]);
        word += shown;
        if (*word != '\0')
            mt_text_add(out, "\\x%02x", (unsigned char)*word++);
    }
    mt_text_add(out, "'");
}

void mt_text_add_shell_word(struct mt_text *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-+=:,@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        mt_text_add(out, "%s", word);
        return;
    }
    if (word[visible_length(word)] != '\0') {
        add_escaped_word(out, word);
        return;
    }
    mt_text_add(out, "'");
    for (; *word != '\0'; word++)
        mt_text_add(out, *word == '\'' ? "'\\''" : "%c", *word);
    mt_text_add(out, "'");
}

/* Adds the field in quotes, with `before` as its first characters. Quotes in it are doubled. */
static void add_quoted(struct mt_text *out, const char *before, const char *field)
{
    mt_text_add(out, "\"%s", before);
    while (*field != '\0') {
        size_t length = strcspn(field, "\"");
        mt_text_add(out, "%.*s%s", (int)length, field, field[length] == '"' ? "\"\"" : "");
        field += length + (field[length] == '"');
    }
    mt_text_add(out, "\"");
}

/* True if a spreadsheet would evaluate the field as a formula, and it is not a number. */
static bool is_formula(const char *field)
{
    char *end;
    if (strchr("=+-@", field[0]) == NULL || field[0] == '\0')
        return false;
    (void)mt_read_real(field, &end);
    return *end != '\0' || end == field;
}

void mt_text_add_csv(struct mt_text *out, const char *field)
{
    if (is_formula(field))
        add_quoted(out, "'", field);
    else if (field[strcspn(field, ",\"\r\n")] != '\0')
        add_quoted(out, "", field);
    else
        mt_text_add(out, "%s", field);
}
