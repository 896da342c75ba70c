/* Lists of ranks as text. */
#pragma once

#include "analysis/ranks/rank_job.h"
#include "base/text.h"

/* Adds "0-3, 7". The ranks are in ascending order. */
void mt_rank_list_add(const int64_t *ranks, size_t count, struct mt_text *out);

/* Adds the ranks of a group. Of many ranges, adds the first three and the last: "1-7, 9-15, 17-23, … 993-999". */
void mt_rank_group_add(const struct mt_rank_group *group, struct mt_text *out);
