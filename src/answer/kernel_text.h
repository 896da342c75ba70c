/* Names of kernels, short enough for a table. */
#pragma once

#include "base/text.h"

/* Adds a function's name without its type, its parameters and "(anonymous namespace)::", cut to a table's width. Keeps
 * template arguments, since library kernels differ in them. */
void mt_kernel_text_add(struct mt_text *out, const char *name);
