/* The candidates in the search for the largest value: "batch=1..512", "seq=512..8192:256", "batch=1,2,4,8".
 *
 * Threads: any, once it is parsed. */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define MT_MOST_VALUE (INT64_C(1) << 31)

/* Invariants: count > 0; values are in ascending order, from 1 to MT_MOST_VALUE. */
struct mt_value_range {
    char *name;        /* "batch"; owned */
    int64_t *listed;   /* the values; owned. NULL: low + index * step */
    int64_t low, step; /* unless listed */
    int64_t count;
};

/* Parses a range or a list. Fails with MT_USAGE for anything else, and for values that do not ascend. Release *out in
 * any case. */
mt_status mt_value_range_parse(const char *text, struct mt_value_range *out);
void mt_value_range_release(struct mt_value_range *range);

/* Returns a value; 0 <= index < count. */
int64_t mt_value_range_at(const struct mt_value_range *range, int64_t index);

/* Returns the index of the largest value that is at most `value`; -1 if there is none. */
int64_t mt_value_range_find(const struct mt_value_range *range, double value);
