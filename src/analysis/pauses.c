#include "analysis/pauses.h"

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
static bool are_alike(const struct mt_scene *scene, size_t a, size_t b)
{
    const struct mt_step_extent *one = &scene->steps[a], *other = &scene->steps[b];
    return one->end != 0 && other->end != 0 &&
           mt_scene_rank(scene, one->end) - mt_scene_rank(scene, one->begin) ==
               mt_scene_rank(scene, other->end) - mt_scene_rank(scene, other->begin);
}

/* The position in the step `to` that is the like of one in the step `from`. */
static int64_t move(const struct mt_scene *scene, int64_t position, size_t from, size_t to)
{
    int64_t rank = mt_scene_rank(scene, position / 2) - mt_scene_rank(scene, scene->steps[from].begin) +
                   mt_scene_rank(scene, scene->steps[to].begin);
    return mt_position_at(mt_scene_event(scene, rank)) + position % 2;
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
    mt_cut_list_add(out, scene, index, move(scene, part.from, from, to),
                    part.to == there.to ? here.to : move(scene, part.to, from, to));
}

/* Adds the longest pause, and where it comes again. */
static void add_pauses(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = &scene->input->uses[index];
    struct interval pause = {mt_position_after(use->idle_from), mt_position_after(use->idle_to)};
    struct step_range lived = steps_of(scene, &scene->input->blocks[index]);
    mt_cut_list_add(out, scene, index, pause.from, pause.to);
    if (lived.from + 1 >= lived.to)
        return;
    struct step_range paused = steps_between(scene, use->idle_from, use->idle_to);
    for (size_t from = paused.from; from < paused.to; from++)
        for (size_t to = lived.from; to < lived.to; to++)
            if (from != to && are_alike(scene, from, to))
                repeat(scene, index, pause, from, to, out);
}

void mt_pauses_cut(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = &scene->input->uses[index];
    size_t first = out->count;
    if (use->idle_from < use->idle_to)
        add_pauses(scene, index, out);
    if (scene->ran_out && mt_scene_is_result(scene, &scene->input->blocks[index]))
        mt_cut_list_add(out, scene, index, mt_position_after(use->last), MT_POSITION_NEVER);
    mt_cut_list_join(out, first);
}
