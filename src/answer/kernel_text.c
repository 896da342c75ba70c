#include "answer/kernel_text.h"

#include "answer/escape.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_CHARACTERS = 72 };

#define RETURN_TYPE "void "
#define ANONYMOUS "(anonymous namespace)::"

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Returns the beginning of the parameters, or the end of the name: the first parenthesis outside template arguments
 * that does not begin "(anonymous namespace)". */
static const char *find_parameters(const char *name)
{
    int depth = 0;
    for (; *name != '\0'; name++) {
        if (begins_with(name, ANONYMOUS))
            name += strlen(ANONYMOUS) - 1;
        else if (*name == '<')
            depth++;
        else if (*name == '>')
            depth--;
        else if (*name == '(' && depth == 0)
            break;
    }
    return name;
}

void mt_kernel_text_add(struct mt_text *out, const char *name)
{
    if (begins_with(name, RETURN_TYPE))
        name += strlen(RETURN_TYPE);
    const char *end = find_parameters(name);
    for (int characters = 0; name < end;) {
        if (begins_with(name, ANONYMOUS)) {
            name += strlen(ANONYMOUS);
            continue;
        }
        characters += !mt_continues_character(*name);
        if (characters > MOST_CHARACTERS)
            break;
        mt_text_add(out, "%c", *name++);
    }
    if (name < end)
        mt_text_add(out, "…");
}
