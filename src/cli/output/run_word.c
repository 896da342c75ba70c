#include "cli/output/run_word.h"

#include "base/text.h"
#include "cli/output/output.h"

#include <string.h>
#include <unistd.h>

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool ends_as_trace(const char *text)
{
    const size_t length = strlen(text);
    return length > 3 && strcmp(text + length - 3, ".db") == 0;
}

bool mt_run_word_is(const char *text)
{
    return is_number(text) || ends_as_trace(text);
}

const char *mt_run_word_option(const char *text)
{
    if (is_number(text))
        return "--run";
    return ends_as_trace(text) || access(text, F_OK) == 0 ? "--trace" : "--run";
}

mt_status mt_run_word_hint(const char *text, mt_status status)
{
    struct mt_text word = {0};
    const char *option = mt_run_word_option(text);
    mt_text_add_shell_word(&word, text);
    mt_fail_hint(status, "%s %s names a %s", option, mt_text_get(&word), option + 2);
    mt_text_release(&word);
    return status;
}
