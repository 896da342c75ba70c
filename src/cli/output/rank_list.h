/* Ranks as people write them. */
#pragma once

#include "analysis/ranks/rank_job.h"
#include "base/text.h"

/* Adds "0-3, 7". The ranks ascend. */
void mt_rank_list_add(const int64_t *ranks, size_t count, struct mt_text *out);

/* Adds the ranks of a group; of many ranges the first three and the last: "1-7, 9-15, 17-23, … 993-999". */
void mt_rank_group_add(const struct mt_rank_group *group, struct mt_text *out);
