/* Names of kernels, short enough for a table. */
#pragma once

#include "base/text.h"

/* Adds the name of a function without its type, its parameters and "(anonymous namespace)::", cut to a table's
 * width. Template arguments stay: kernels of libraries differ by them. */
void mt_kernel_text_add(struct mt_text *out, const char *name);
