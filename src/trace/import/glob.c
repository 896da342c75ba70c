#include "trace/import/glob.h"

#include <stddef.h>
#include <string.h>

/* Where a text may begin to fit: with its first character, or also behind a "/". */
typedef enum glob_begin { BEGIN_FIRST, BEGIN_PART } glob_begin;

/* The part behind the next "/", NULL if there is none. A loop, since strchr reads each text to its end where sanitizers
 * check strings strictly. */
static const char *next_part(const char *text)
{
    while (*text != '/' && *text != '\0')
        text++;
    return *text == '/' ? text + 1 : NULL;
}

/* One alternative, pattern[0 .. end). After a mismatch what the last star stands for grows by one character, and before the
 * first star the next part is tried: what follows a star and did not fit to the end of the text fits no part behind. */
static bool fits_one(const char *pattern, const char *end, const char *text, glob_begin begin)
{
    const char *first = pattern, *star = NULL, *taken = text;
    while (*text != '\0') {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            taken = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++taken;
        } else if (begin == BEGIN_PART && (taken = next_part(taken)) != NULL) {
            pattern = first;
            text = taken;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

static bool fits_some(const char *pattern, const char *text, glob_begin begin)
{
    for (;;) {
        const char *end = pattern + strcspn(pattern, "|");
        if (fits_one(pattern, end, text, begin))
            return true;
        if (*end == '\0')
            return false;
        pattern = end + 1;
    }
}

bool mt_glob_fits(const char *pattern, const char *text)
{
    return fits_some(pattern, text, BEGIN_FIRST);
}

bool mt_glob_fits_file(const char *pattern, const char *path)
{
    return fits_some(pattern, path, BEGIN_PART);
}
