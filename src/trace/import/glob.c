#include "trace/import/glob.h"

#include <stddef.h>
#include <string.h>

/* One alternative, pattern[0 .. end). After a mismatch what the last star stands for grows by one character. */
static bool fits_one(const char *pattern, const char *end, const char *text)
{
    const char *star = NULL, *taken = NULL;
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
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

bool mt_glob_fits(const char *pattern, const char *text)
{
    for (;;) {
        const char *end = pattern + strcspn(pattern, "|");
        if (fits_one(pattern, end, text))
            return true;
        if (*end == '\0')
            return false;
        pattern = end + 1;
    }
}

bool mt_glob_fits_file(const char *pattern, const char *path)
{
    for (const char *part = path;;) {
        if (mt_glob_fits(pattern, part))
            return true;
        const char *slash = strchr(part, '/');
        if (slash == NULL)
            return false;
        part = slash + 1;
    }
}
