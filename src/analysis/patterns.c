/* The patterns. A block shows one of them, or one of each of these three: late free, early allocation, and idle or two
 * precisions. What is said of uses holds for blocks of which they are known.
 *
 *   alloc      first use        idle_from … idle_to        last use      free
 *     ├── early ──┤                  ├── idle ──┤              ├── late ──┤  */
#include "analysis/patterns.h"

#include "analysis/pauses.h"

#include <string.h>

static const struct mt_block_row *block_at(const struct mt_scene *scene, size_t index)
{
    return &scene->input->blocks[index];
}

static const struct mt_use_row *use_at(const struct mt_scene *scene, size_t index)
{
    return &scene->input->uses[index];
}

static bool has_role(const struct mt_scene *scene, size_t index, mt_role role)
{
    return scene->roles[block_at(scene, index)->label] == role;
}

/* Whether memory ran out in the step's forward pass, so that what would have gone after it is still there. */
static bool is_cut_short(const struct mt_scene *scene, const struct mt_step_extent *step)
{
    return scene->ran_out && step->forward != 0 && step->after_forward == 0;
}

/* The step after the one that the block was allocated in, if its forward pass ended in the window, or for want of memory;
 * NULL: none. */
static const struct mt_step_extent *next_forward(const struct mt_scene *scene, const struct mt_block_row *block)
{
    int64_t next = mt_scene_step_of(scene, block->alloc_event) + 1;
    if ((size_t)next >= scene->step_count || block->alloc_event < scene->input->first_event)
        return NULL;
    const struct mt_step_extent *step = &scene->steps[next];
    return step->after_forward != 0 || is_cut_short(scene, step) ? step : NULL;
}

/* What was there before the window is a gradient of the step before its first one, if that is not the run's first. */
static const struct mt_step_extent *forward_to_live_through(const struct mt_scene *scene,
                                                            const struct mt_block_row *block)
{
    if (block->alloc_event >= scene->input->first_event)
        return next_forward(scene, block);
    bool has_first = scene->step_count > 0 && scene->steps[0].after_forward != 0;
    return has_first ? &scene->steps[0] : NULL;
}

/* Whether the block is freed in the step, after its forward pass, or would have been. */
static bool lives_through(const struct mt_scene *scene, const struct mt_block_row *block,
                          const struct mt_step_extent *step)
{
    if (is_cut_short(scene, step))
        return mt_scene_is_result(scene, block);
    return block->free_event != 0 && block->free_event >= step->after_forward &&
           (step->end == 0 || block->free_event <= step->end);
}

/* A gradient that is used in the next step before it is freed is added to, and has to be there. */
static const struct mt_step_extent *needless_forward(const struct mt_scene *scene, size_t index)
{
    const struct mt_block_row *block = block_at(scene, index);
    const struct mt_use_row *use = use_at(scene, index);
    if (!has_role(scene, index, MT_ROLE_GRAD))
        return NULL;
    const struct mt_step_extent *step = forward_to_live_through(scene, block);
    if (step == NULL || !lives_through(scene, block, step))
        return NULL;
    return use->known && use->last >= step->forward ? NULL : step;
}

/* They go where zero_grad before the forward pass would let them go. */
static void cut_kept_gradient(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    const struct mt_step_extent *step = needless_forward(scene, index);
    if (step != NULL)
        mt_cut_list_add(out, scene, index, mt_position_after(step->forward), MT_POSITION_NEVER);
}

/* Whether a leak left the block behind: it is of a kind of which every step leaves more, and not of the first step. */
static bool is_leaked(const struct mt_scene *scene, size_t index)
{
    const struct mt_leaks *leaks = scene->input->leaks;
    const struct mt_block_row *block = block_at(scene, index);
    if (leaks == NULL || block->label >= leaks->label_count || leaks->row_of_label[block->label] == MT_NO_LEAK)
        return false;
    int64_t step = mt_scene_step_of(scene, block->alloc_event);
    bool is_of_later_step =
        step != MT_NO_STEP ? scene->steps[step].number > 0 : block->alloc_event > leaks->first_event;
    return is_of_later_step && (block->free_event == 0 || block->free_event > leaks->last_event);
}

/* The end of the step that allocated the block; of one before the window, the window's begin. */
static int64_t end_of_own_step(const struct mt_scene *scene, const struct mt_block_row *block)
{
    int64_t step = mt_scene_step_of(scene, block->alloc_event);
    if (step == MT_NO_STEP)
        return scene->curve.first_position;
    return scene->steps[step].end != 0 ? mt_position_after(scene->steps[step].end) : MT_POSITION_NEVER;
}

static void cut_leak(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    const struct mt_block_row *block = block_at(scene, index);
    const struct mt_use_row *use = use_at(scene, index);
    if (!is_leaked(scene, index))
        return;
    int64_t end = end_of_own_step(scene, block);
    int64_t unused = use->known && use->last != 0 ? mt_position_after(use->last) : end;
    mt_cut_list_add(out, scene, index, unused > end ? unused : end, MT_POSITION_NEVER);
}

/* Workspaces are handed to libraries, which do not say what they do with them. */
static bool is_judged_by_uses(const struct mt_scene *scene, size_t index)
{
    return use_at(scene, index)->known && !has_role(scene, index, MT_ROLE_WORKSPACE) && !is_leaked(scene, index) &&
           needless_forward(scene, index) == NULL;
}

static bool is_never_used(const struct mt_use_row *use)
{
    return use->reads + use->writes == 0;
}

static void cut_never_used(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_judged_by_uses(scene, index) && is_never_used(use_at(scene, index)) &&
        !mt_scene_is_result(scene, block_at(scene, index)))
        mt_cut_list_add(out, scene, index, 0, MT_POSITION_NEVER);
}

static bool is_dead_write(const struct mt_scene *scene, size_t index)
{
    const struct mt_use_row *use = use_at(scene, index);
    return use->reads == 0 && use->writes > 0 && !mt_scene_is_result(scene, block_at(scene, index));
}

static void cut_dead_write(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_judged_by_uses(scene, index) && is_dead_write(scene, index))
        mt_cut_list_add(out, scene, index, 0, MT_POSITION_NEVER);
}

/* Whether the block is of use, so that the question is only when. */
static bool is_useful(const struct mt_scene *scene, size_t index)
{
    return is_judged_by_uses(scene, index) && !is_never_used(use_at(scene, index)) && !is_dead_write(scene, index);
}

static void cut_late_free(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_useful(scene, index) && !mt_scene_is_result(scene, block_at(scene, index)))
        mt_cut_list_add(out, scene, index, mt_position_after(use_at(scene, index)->last), MT_POSITION_NEVER);
}

/* What was saved for a backward pass that never came is one matter, whatever it is. */
static void cut_late_saved(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (has_role(scene, index, MT_ROLE_SAVED))
        cut_late_free(scene, index, out);
}

static void cut_early_allocation(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_useful(scene, index) && use_at(scene, index)->first > block_at(scene, index)->alloc_event)
        mt_cut_list_add(out, scene, index, 0, mt_position_after(use_at(scene, index)->first));
}

static bool has_pause(const struct mt_use_row *use)
{
    return use->idle_from < use->idle_to;
}

/* The block that was allocated by `event`; NULL: none that was there in the window. */
static const struct mt_block_row *find_block(const struct mt_scene *scene, int64_t event)
{
    size_t low = 0, high = scene->input->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (block_at(scene, middle)->alloc_event < event)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < scene->input->block_count && block_at(scene, low)->alloc_event == event;
    return is_there ? block_at(scene, low) : NULL;
}

/* Whether the copy can be made again when its pause ends: what it was made of is there still. */
static bool is_idle_copy(const struct mt_scene *scene, size_t index)
{
    const struct mt_use_row *use = use_at(scene, index);
    if (!use->known || use->copied_from == 0 || !has_pause(use))
        return false;
    const struct mt_block_row *original = find_block(scene, use->copied_from);
    return original != NULL && mt_scene_is_live(scene, original, mt_position_after(use->idle_to));
}

static void cut_two_precisions(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_useful(scene, index) && is_idle_copy(scene, index))
        mt_pauses_cut(scene, index, out);
}

static void cut_idle(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (is_useful(scene, index) && !is_idle_copy(scene, index))
        mt_pauses_cut(scene, index, out);
}

static void cut_idle_saved(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    if (has_role(scene, index, MT_ROLE_SAVED))
        cut_idle(scene, index, out);
}

static unsigned alike_in_all(const struct mt_label_row *label)
{
    (void)label;
    return MT_ALIKE_ALL;
}

static unsigned alike_in_role(const struct mt_label_row *label)
{
    (void)label;
    return MT_ALIKE_ROLE;
}

/* Roles whose blocks are all treated alike are one; others are told apart by what they hold. */
static unsigned alike_in_kind(const struct mt_label_row *label)
{
    static const mt_role whole[] = {MT_ROLE_PARAM, MT_ROLE_GRAD, MT_ROLE_OPT_STATE, MT_ROLE_WEIGHT_CAST, MT_ROLE_DATA};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strcmp(label->role, mt_role_name(whole[i])) == 0)
            return MT_ALIKE_ROLE;
    return MT_ALIKE_ROLE | MT_ALIKE_CATEGORY;
}

const struct mt_lens mt_lenses[MT_LENS_COUNT] = {
    {MT_PATTERN_KEPT_GRADIENTS, cut_kept_gradient, alike_in_role},
    {MT_PATTERN_LEAK, cut_leak, alike_in_all},
    {MT_PATTERN_NEVER_USED, cut_never_used, alike_in_all},
    {MT_PATTERN_DEAD_WRITE, cut_dead_write, alike_in_all},
    {MT_PATTERN_LATE_FREE, cut_late_free, alike_in_all},
    {MT_PATTERN_LATE_FREE, cut_late_saved, alike_in_role},
    {MT_PATTERN_EARLY_ALLOCATION, cut_early_allocation, alike_in_all},
    {MT_PATTERN_TWO_PRECISIONS, cut_two_precisions, alike_in_kind},
    {MT_PATTERN_IDLE, cut_idle, alike_in_kind},
    {MT_PATTERN_IDLE, cut_idle_saved, alike_in_role},
};

void mt_cut_unused(const struct mt_scene *scene, size_t index, struct mt_cut_list *out)
{
    cut_kept_gradient(scene, index, out);
    cut_leak(scene, index, out);
    cut_never_used(scene, index, out);
    if (!is_useful(scene, index))
        return;
    const struct mt_use_row *use = use_at(scene, index);
    int64_t last = use->last > use->first ? mt_position_after(use->last) : mt_position_at(use->last + 1);
    cut_early_allocation(scene, index, out);
    if (!mt_scene_is_result(scene, block_at(scene, index)))
        mt_cut_list_add(out, scene, index, last, MT_POSITION_NEVER);
}
