/* Each gap between live blocks, and what lies behind the last of them, is a place; the one that lacks least is taken. */
#include "analysis/growth.h"

#include "base/memory.h"

#include <stdlib.h>

static const uint64_t PAGE_BYTES = 2 << 20;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* A segment that grew has parts that were mapped at different events. */
static bool has_grown(const struct mt_advice_input *input, uint32_t segment)
{
    int64_t first = 0;
    for (size_t i = 0; i < input->part_count; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->segment != segment)
            continue;
        if (first != 0 && part->mapped_event != first)
            return true;
        first = part->mapped_event;
    }
    return false;
}

/* Where no segment ever grew, the device may have no ranges, and each segment be of one request. */
static bool has_ranges(const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->segment_count; i++)
        if (has_grown(input, (uint32_t)i))
            return true;
    return false;
}

/* The first segment of a run that follows a plan was taken for it as a whole, and is no range. */
static bool may_grow(const struct mt_advice_input *input, uint32_t segment)
{
    return segment > 0 || has_grown(input, segment);
}

/* The live blocks of a segment, by offset; the caller's. */
struct row_of_blocks {
    const struct mt_block_row **items;
    size_t count;
};

static int compare_offsets(const void *left, const void *right)
{
    const struct mt_block_row *a = *(const struct mt_block_row *const *)left;
    const struct mt_block_row *b = *(const struct mt_block_row *const *)right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static struct row_of_blocks list_live(const struct mt_advice_input *input, uint32_t segment, int64_t event)
{
    struct row_of_blocks row = {mt_host_alloc((input->block_count + 1) * sizeof(struct mt_block_row *)), 0};
    for (size_t i = 0; i < input->block_count; i++)
        if (input->blocks[i].segment == segment && mt_block_is_live(&input->blocks[i], event))
            row.items[row.count++] = &input->blocks[i];
    qsort(row.items, row.count, sizeof(struct mt_block_row *), compare_offsets);
    return row;
}

/* What of [begin, end) of the segment has no memory, in whole pages. Parts are ordered by segment, then offset. */
static uint64_t missing_bytes(const struct mt_advice_input *input, uint32_t segment, int64_t event, uint64_t begin,
                              uint64_t end)
{
    uint64_t at = begin, missing = 0;
    for (size_t i = 0; i < input->part_count && at < end; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->segment != segment || !mt_part_has_memory(part, event) || part->offset + part->bytes <= at)
            continue;
        if (part->offset > at)
            missing += whole_pages(smaller(part->offset, end) - at);
        at = larger(at, part->offset + part->bytes);
    }
    return at < end ? missing + whole_pages(end - at) : missing;
}

/* The least that the segment lacks at one of its places. */
static uint64_t least_missing(const struct mt_advice_input *input, uint32_t segment,
                              const struct mt_growth_request *request, const struct row_of_blocks *row)
{
    uint64_t least = UINT64_MAX, begin = 0;
    for (size_t i = 0; i <= row->count; i++) {
        uint64_t end = i < row->count ? row->items[i]->offset : UINT64_MAX;
        if (end > begin && end - begin >= request->block_bytes)
            least = smaller(least, missing_bytes(input, segment, request->event, begin, begin + request->block_bytes));
        if (i < row->count)
            begin = larger(begin, row->items[i]->offset + row->items[i]->block_bytes);
    }
    return least;
}

/* A segment without a block has been given back, and one of the other pool serves nothing. */
static bool can_serve(const struct mt_segment_row *segment, const struct mt_growth_request *request,
                      const struct row_of_blocks *row)
{
    bool wants_small = request->block_bytes <= request->small_limit_bytes;
    return segment->stream == request->stream && row->count > 0 &&
           (row->items[0]->block_bytes <= request->small_limit_bytes) == wants_small;
}

bool mt_growth_find(const struct mt_advice_input *input, const struct mt_growth_request *request, uint64_t *out_bytes)
{
    uint64_t least = UINT64_MAX;
    *out_bytes = 0;
    if (input->settings.policy != MT_POLICY_TIGHT || !has_ranges(input))
        return false;
    for (size_t i = 0; i < input->segment_count; i++) {
        struct row_of_blocks row = list_live(input, (uint32_t)i, request->event);
        if (may_grow(input, (uint32_t)i) && can_serve(&input->segments[i], request, &row))
            least = smaller(least, least_missing(input, (uint32_t)i, request, &row));
        free(row.items);
    }
    if (least == UINT64_MAX)
        return false;
    *out_bytes = least;
    return true;
}
