/* Builds a changed run: resized blocks, cuts and added lifetimes. */
#include "analysis/changed_run.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mt_changed_run_create(const struct mt_window *window, struct mt_changed_run *out)
{
    size_t count = window->input->block_count;
    *out = (struct mt_changed_run){.window = *window, .input = *window->input};
    out->blocks = mt_host_resize(NULL, count + 1, sizeof *out->blocks);
    if (count > 0)
        memcpy(out->blocks, window->input->blocks, count * sizeof *out->blocks);
    out->input.blocks = out->blocks;
    out->window.input = &out->input;
}

void mt_changed_run_release(struct mt_changed_run *changed)
{
    free(changed->blocks);
    free(changed->added);
    mt_cut_list_release(&changed->cuts);
    *changed = (struct mt_changed_run){0};
}

/* Counts a block as changed at the peak if it is live there and `from` <= peak < `to`. */
static void count_at_peak(struct mt_changed_run *changed, size_t index, uint64_t bytes, int64_t from, int64_t to)
{
    int64_t peak = changed->window.usage.peak_position;
    if (!mt_window_is_live(&changed->window, &changed->blocks[index], peak) || peak < from || peak >= to)
        return;
    changed->peak_bytes += bytes;
    changed->peak_blocks++;
}

void mt_changed_run_resize(struct mt_changed_run *changed, size_t index, uint64_t bytes)
{
    assert(index < changed->input.block_count);
    count_at_peak(changed, index, changed->blocks[index].requested_bytes, 0, MT_POSITION_NEVER);
    changed->blocks[index].requested_bytes = bytes;
}

void mt_changed_run_cut(struct mt_changed_run *changed, size_t index, int64_t from, int64_t to)
{
    assert(index < changed->input.block_count);
    assert(changed->cuts.count == 0 || changed->cuts.items[changed->cuts.count - 1].block <= index);
    size_t before = changed->cuts.count;
    mt_cut_list_add(&changed->cuts, &changed->window, index, from, to);
    if (changed->cuts.count > before)
        count_at_peak(changed, index, changed->blocks[index].requested_bytes, from, to);
}

mt_status mt_changed_run_replay(const struct mt_changed_run *changed, const struct mt_alloc_settings *settings,
                                struct mt_replay_result *out)
{
    size_t count;
    struct mt_lifetime *lifetimes =
        mt_lifetimes_with_cuts(&changed->window, changed->cuts.items, changed->cuts.count, &count);
    lifetimes = mt_host_resize(lifetimes, count + changed->added_count + 1, sizeof *lifetimes);
    if (changed->added_count > 0)
        memcpy(lifetimes + count, changed->added, changed->added_count * sizeof *lifetimes);
    const struct mt_replay_releases releases = {changed->window.releases, changed->window.release_count};
    mt_status status = mt_replay_run_releasing(lifetimes, count + changed->added_count, releases, settings,
                                               changed->input.capacity_bytes, out);
    free(lifetimes);
    return status;
}
