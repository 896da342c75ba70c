/* What a dry run assumes where values are not computed, as users write it.
 *
 *   0.5    numbers are 0.5, such as a loss
 *   none   masks have no true element; numbers are 1
 *   all    masks have true elements only
 *   50%    half of a mask's elements are true
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

struct mt_assumed_value {
    const char *number; /* borrowed from the text, or constant */
    double masks;       /* the fraction of elements that are true */
};

/* The usual value, and the most values for which a program is run. */
#define MT_ASSUMED_USUAL "1"
enum { MT_MOST_ASSUMED = 16 };

/* Reads a value. Fails with MT_USAGE. */
mt_status mt_assumed_value_read(const char *text, struct mt_assumed_value *out);
