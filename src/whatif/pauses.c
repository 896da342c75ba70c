#include "whatif/pauses.h"

/* Positions: from <= position < to. */
struct interval {
    int64_t from, to;
};

/* A step, and what follows it up to the next one. */
static struct interval extent_of(const struct mt_scene *scene, size_t step)
{
    const struct mt_step_extent *steps = scene->steps;
    bool is_last = step + 1 == scene->step_count;
    return (struct interval){.from = mt_position_at(steps[step].begin),
                             .to =
                                 is_last ? mt_position_after(steps[step].end) : mt_position_at(steps[step + 1].begin)};
}

/* Only full steps are. */
static bool are_alike(const struct mt_step_extent *a, const struct mt_step_extent *b)
{
    return a->end != 0 && b->end != 0 && a->end - a->begin == b->end - b->begin;
}

/* The steps that a block lives in: from <= index < to. */
struct step_range {
    size_t from, to;
};

static struct step_range steps_between(const struct mt_scene *scene, int64_t first_event, int64_t last_event)
{
    int64_t from = mt_scene_step_of(scene, first_event), to = mt_scene_step_of(scene, last_event);
    return (struct step_range){.from = from < 0 ? 0 : (size_t)from, .to = (size_t)(to + 1)};
}

static struct step_range steps_of(const struct mt_scene *scene, const struct mt_block_row *block)
{
    return steps_between(scene, block->alloc_event,
                         block->free_event != 0 ? block->free_event : scene->input->last_event + 1);
}

/* Adds the part of the pause that is in step `from`, moved to the step `to`; both lie in the window. */
static void repeat(const struct mt_scene *scene, size_t index, struct interval pause, size_t from, size_t to,
                   struct mt_cut_list *out)
{
    struct interval there = extent_of(scene, from), here = extent_of(scene, to);
    struct interval part = {.from = pause.from > there.from ? pause.from : there.from,
                            .to = pause.to < there.to ? pause.to : there.to};
    int64_t moved_to = part.to == there.to ? here.to : part.to - there.from + here.from;
    mt_cut_list_add(out, scene, index, part.from - there.from + here.from, moved_to);
}

void mt_pauses_cut(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = &scene->input->uses[index];
    struct interval pause = {mt_position_after(use->idle_from), mt_position_after(use->idle_to)};
    struct step_range lived = steps_of(scene, &scene->input->blocks[index]);
    size_t first = out->count;
    mt_cut_list_add(out, scene, index, pause.from, pause.to);
    if (lived.from + 1 >= lived.to)
        return;
    struct step_range paused = steps_between(scene, use->idle_from, use->idle_to);
    for (size_t from = paused.from; from < paused.to; from++)
        for (size_t to = lived.from; to < lived.to; to++)
            if (from != to && are_alike(&scene->steps[from], &scene->steps[to]))
                repeat(scene, index, pause, from, to, out);
    mt_cut_list_join(out, first);
}
