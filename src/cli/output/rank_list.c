#include "cli/output/rank_list.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

/* Returns the number of consecutive ranks from `ranks` on. */
static size_t length_of(const int64_t *ranks, size_t count)
{
    size_t length = 1;
    while (length < count && ranks[length] == ranks[0] + (int64_t)length)
        length++;
    return length;
}

/* Adds the ranges "0-3, 7", without those from number `first_left_out` on; the last range is always included. */
static void add_ranges(const int64_t *ranks, size_t count, size_t first_left_out, struct mt_text *out)
{
    size_t range = 0;
    for (size_t i = 0, length; i < count; i += length, range++) {
        length = length_of(ranks + i, count - i);
        if (range >= first_left_out && i + length < count)
            continue;
        mt_text_add(out, "%s%" PRId64, range == 0 ? "" : range > first_left_out ? ", … " : ", ", ranks[i]);
        if (length > 1)
            mt_text_add(out, "-%" PRId64, ranks[i + length - 1]);
    }
}

void mt_rank_list_add(const int64_t *ranks, size_t count, struct mt_text *out)
{
    add_ranges(ranks, count, count, out);
}

void mt_rank_group_add(const struct mt_rank_group *group, struct mt_text *out)
{
    enum { SHOWN_RANGES = 3 };
    int64_t *ranks = mt_host_alloc(group->count * sizeof *ranks);
    for (size_t i = 0; i < group->count; i++)
        ranks[i] = group->ranks[i]->of->rank;
    add_ranges(ranks, group->count, SHOWN_RANGES, out);
    free(ranks);
}
