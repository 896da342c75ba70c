#include "producers/file/glob.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* The places where a match may begin: the first character, or also any character after a "/". */
typedef enum glob_begin { BEGIN_FIRST, BEGIN_PART } glob_begin;

/* Returns the part after the next "/"; NULL if there is none. A loop, since sanitizers that check strings strictly
 * make strchr read each text to its end. */
static const char *next_part(const char *text)
{
    while (*text != '/' && *text != '\0')
        text++;
    return *text == '/' ? text + 1 : NULL;
}

/* True if the alternative pattern[0 .. end) matches. After a mismatch, the text of the last star gets one more
 * character. Before the first star, the next part is tried: after a star, a part that begins later can't match if
 * this one did not. */
static bool fits_one(const char *pattern, const char *end, const char *text, glob_begin begin)
{
    assert(pattern <= end);
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
