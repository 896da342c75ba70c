#include "run/shown_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* A word of a command line, not terminated by '\0'. */
struct word {
    const char *text;
    size_t length;
};

/* Returns a letter in the form in which names of secrets are compared. */
static char plain(char letter)
{
    return letter == '_' ? '-' : (char)tolower((unsigned char)letter);
}

static bool ends_with(struct word name, const char *end)
{
    const size_t length = strlen(end);
    if (name.length < length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (plain(name.text[name.length - length + i]) != end[i])
            return false;
    return true;
}

static bool is_secret(struct word name)
{
    static const char *const ends[] = {"token",       "password", "passwd", "passphrase", "secret",
                                       "credentials", "api-key",  "apikey", "access-key", "private-key"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Returns the length of the name before "=" in a word, or of the whole word if it has no "=". */
static size_t name_length(struct word word)
{
    const char *equals = memchr(word.text, '=', word.length);
    return equals != NULL ? (size_t)(equals - word.text) : word.length;
}

static bool is_option(struct word word)
{
    return word.length > 0 && word.text[0] == '-';
}

/* Adds a word, and returns whether the next one is a secret. `was_secret`: the previous word named a secret. */
static bool add_word(struct word word, bool was_secret, struct mt_text *out)
{
    const struct word name = {word.text, name_length(word)};
    if (was_secret && !is_option(word)) {
        mt_text_add(out, "***");
        return false;
    }
    const bool has_value = name.length < word.length;
    if (!is_secret(name) || (!has_value && !is_option(word))) {
        mt_text_add(out, "%.*s", (int)word.length, word.text);
        return false;
    }
    mt_text_add(out, "%.*s%s", (int)name.length, word.text, has_value ? "=***" : "");
    return !has_value;
}

void mt_shown_words_add(const char *words, size_t bytes, char separator, struct mt_text *out)
{
    bool is_secret = false;
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(words + at, separator, bytes - at);
        const struct word word = {words + at, end != NULL ? (size_t)(end - words) - at : bytes - at};
        mt_text_add(out, "%s", at > 0 ? " " : "");
        is_secret = add_word(word, is_secret, out);
        at += word.length + 1;
    }
}
