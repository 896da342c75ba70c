#include "analysis/curve.h"

#include "base/memory.h"

#include <stdlib.h>

/* The moment of an event that lies in the window; 0 for what was before it, `count` for what came after. */
static size_t moment_of(const struct mt_curve *curve, int64_t event)
{
    int64_t moment = (mt_position_at(event) - curve->first_position + 1) / 2;
    if (moment < 0)
        return 0;
    return (size_t)moment < curve->count ? (size_t)moment : curve->count;
}

static void set_time(struct mt_curve *curve, int64_t event, uint64_t ns)
{
    size_t moment = moment_of(curve, event);
    if (moment > 0 && moment < curve->count)
        curve->ns[moment] = ns;
}

/* Events of which no time is known have that of the one before. */
static void fill_times(struct mt_curve *curve, const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        set_time(curve, block->alloc_event, block->alloc_ns);
        if (block->free_event != 0)
            set_time(curve, block->free_event, block->free_ns);
    }
    for (size_t i = 0; i < input->mark_count; i++)
        set_time(curve, input->marks[i].event, input->marks[i].time_ns);
    for (size_t k = 1; k < curve->count; k++)
        if (curve->ns[k] < curve->ns[k - 1])
            curve->ns[k] = curve->ns[k - 1];
}

static void add_blocks(struct mt_curve *curve, const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        curve->live[moment_of(curve, block->alloc_event)] += block->requested_bytes;
        if (block->free_event == 0)
            continue;
        size_t end = moment_of(curve, block->free_event);
        if (end < curve->count)
            curve->live[end] -= block->requested_bytes;
    }
}

static void sum_up(struct mt_curve *curve)
{
    for (size_t k = 0; k < curve->count; k++) {
        curve->live[k] += k > 0 ? curve->live[k - 1] : 0;
        if (curve->live[k] > curve->peak_bytes) {
            curve->peak_bytes = curve->live[k];
            curve->peak_position = curve->first_position + 2 * (int64_t)k - (k > 0);
        }
    }
}

void mt_curve_create(const struct mt_advice_input *input, struct mt_curve *out)
{
    size_t count = (size_t)(input->last_event - input->first_event) + 2;
    *out = (struct mt_curve){.blocks = input->blocks,
                             .first_position = mt_position_at(input->first_event) - 1,
                             .count = count,
                             .live = mt_host_alloc(count * sizeof(uint64_t)),
                             .ns = mt_host_alloc(count * sizeof(uint64_t)),
                             .change = mt_host_alloc(2 * count * sizeof(uint64_t))};
    add_blocks(out, input);
    sum_up(out);
    fill_times(out, input);
}

void mt_curve_release(struct mt_curve *curve)
{
    free(curve->live);
    free(curve->ns);
    free(curve->change);
    *curve = (struct mt_curve){0};
}

uint64_t mt_curve_ns(const struct mt_curve *curve, int64_t position)
{
    if (position < curve->first_position)
        return curve->ns[0];
    uint64_t moment = ((uint64_t)position - (uint64_t)curve->first_position + 1) / 2;
    return curve->ns[moment < curve->count ? moment : curve->count - 1];
}

/* The cuts as changes of the live bytes, by position. */
static void enter(struct mt_curve *curve, const struct mt_cut *cuts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = curve->blocks[cuts[i].block].requested_bytes;
        size_t from = (size_t)(cuts[i].from - curve->first_position);
        uint64_t to = (uint64_t)cuts[i].to - (uint64_t)curve->first_position;
        curve->change[from] -= bytes;
        if (to < 2 * curve->count)
            curve->change[to] += bytes;
    }
}

struct mt_cut_curve mt_curve_cut(struct mt_curve *curve, const struct mt_cut *cuts, size_t count)
{
    struct mt_cut_curve answer = {.most_position = curve->peak_position};
    enter(curve, cuts, count);
    uint64_t change = 0;
    for (size_t i = 0; i < 2 * curve->count - 1; i++) {
        change += curve->change[i];
        curve->change[i] = 0;
        uint64_t live = curve->live[(i + 1) / 2] + change, absent = 0 - change;
        if (live > answer.peak_bytes)
            answer.peak_bytes = live;
        if (absent > answer.most_bytes) {
            answer.most_bytes = absent;
            answer.most_position = curve->first_position + (int64_t)i;
        }
    }
    curve->change[2 * curve->count - 1] = 0;
    return answer;
}
