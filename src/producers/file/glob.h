/* Patterns of names: "*" stands for any characters, "|" separates alternatives. */
#pragma once

#include <stdbool.h>

/* True if one of the alternatives matches the whole text. Takes time proportional to the product of their lengths at
 * most. */
bool mt_glob_fits(const char *pattern, const char *text);

/* The same for a file, in the same time: an alternative may also match the end of the path, after a "/". */
bool mt_glob_fits_file(const char *pattern, const char *path);
