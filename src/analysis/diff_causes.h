/* The causes of a difference of allocated bytes. Private to this folder. */
#ifndef MT_ANALYSIS_DIFF_CAUSES_H
#define MT_ANALYSIS_DIFF_CAUSES_H

#include "analysis/diff_kinds.h"

/* Adds the causes, whose bytes sum to what the sides' allocated bytes differ by. */
void diff_causes_add(const struct diff_kinds *kinds, const struct mt_diff_side side[MT_SIDE_COUNT],
                     struct mt_diff_parts *out);

#endif
