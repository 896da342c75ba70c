/* Patterns of names: "*" stands for any characters, "|" separates what may be instead. */
#ifndef MT_TRACE_IMPORT_GLOB_H
#define MT_TRACE_IMPORT_GLOB_H

#include <stdbool.h>

/* Whether the whole text is as one of the pattern's alternatives says. Takes time by the product of their lengths at
 * most. */
bool mt_glob_fits(const char *pattern, const char *text);

/* The same for a file, in the same time: what an alternative names may also be the end of the path, after a "/". */
bool mt_glob_fits_file(const char *pattern, const char *path);

#endif
