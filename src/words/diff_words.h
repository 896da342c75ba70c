/* The causes of a diff in words. The runs are called A and B. */
#pragma once

#include "analysis/diff/diff.h"
#include "base/text.h"

/* Adds the cause's name: "weight casts cached for the autocast region". */
void mt_diff_cause_add_title(const struct mt_diff *diff, const struct mt_diff_cause *cause, struct mt_text *out);

/* Adds a sentence with the numbers that show the cause. */
void mt_diff_cause_add_evidence(const struct mt_diff *diff, const struct mt_diff_cause *cause, struct mt_text *out);
