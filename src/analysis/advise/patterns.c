/* A block shows one pattern, or one of each of these three: late free, early allocation, and idle or two precisions.
 * Patterns that depend on uses are found only for blocks with known uses.
 *
 *   alloc      first use        idle_from … idle_to        last use      free
 *     ├── early ──┤                  ├── idle ──┤              ├── late ──┤  */
#include "analysis/lifetimes.h"

#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_block_row *block_at(const struct mt_window *window, size_t index)
{
    assert(index < window->input->block_count);
    return &window->input->blocks[index];
}

static const struct mt_use_row *use_at(const struct mt_window *window, size_t index)
{
    return &window->input->uses[index];
}

/* True if the block's label has that role of ours. */
static bool has_role(const struct mt_window *window, size_t index, mt_role role)
{
    return window->roles[block_at(window, index)->label] == role;
}

/* True if memory ran out in the step's forward pass, so that blocks that are freed later in the step are still live. */
static bool is_cut_short(const struct mt_window *window, const struct mt_step_extent *step)
{
    return window->ran_out && step->forward != 0 && step->after_forward == 0;
}

/* Returns the step after the one that allocated the block, if its forward pass ended in the window or because memory
 * ran out; otherwise NULL. */
static const struct mt_step_extent *next_forward(const struct mt_window *window, const struct mt_block_row *block)
{
    int64_t next = mt_window_step_of(window, block->alloc_event) + 1;
    if ((size_t)next >= window->step_count || block->alloc_event < window->input->first_event)
        return NULL;
    const struct mt_step_extent *step = &window->steps[next];
    return step->after_forward != 0 || is_cut_short(window, step) ? step : NULL;
}

/* Returns the step whose forward pass a gradient may live through. A gradient from before the window belongs to the
 * step before the window's first. */
static const struct mt_step_extent *forward_to_live_through(const struct mt_window *window,
                                                            const struct mt_block_row *block)
{
    if (block->alloc_event >= window->input->first_event)
        return next_forward(window, block);
    bool has_first = window->step_count > 0 && window->steps[0].after_forward != 0;
    return has_first ? &window->steps[0] : NULL;
}

/* True if the block is freed in the step after its forward pass, or would have been. */
static bool lives_through(const struct mt_window *window, const struct mt_block_row *block,
                          const struct mt_step_extent *step)
{
    if (is_cut_short(window, step))
        return mt_window_is_result(window, block);
    return block->free_event != 0 && block->free_event >= step->after_forward &&
           (step->end == 0 || block->free_event <= step->end);
}

/* Returns the step in whose forward pass the gradient is live without need; NULL if there is none. A gradient that is
 * used in the next step before it is freed accumulates, so it is needed. */
static const struct mt_step_extent *needless_forward(const struct mt_window *window, size_t index)
{
    const struct mt_block_row *block = block_at(window, index);
    const struct mt_use_row *use = use_at(window, index);
    if (!has_role(window, index, MT_ROLE_GRADIENT))
        return NULL;
    const struct mt_step_extent *step = forward_to_live_through(window, block);
    if (step == NULL || !lives_through(window, block, step))
        return NULL;
    return use->known && use->last >= step->forward ? NULL : step;
}

/* Cuts from where zero_grad before the forward pass would free the gradient. */
void mt_cut_kept_gradient(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_step_extent *step = needless_forward(window, index);
    if (step != NULL)
        mt_cut_list_add(out, window, index, mt_position_after(step->forward), MT_POSITION_NEVER);
}

/* True if the block was leaked: its kind grows in every step, and it does not belong to the first step. */
static bool is_leaked(const struct mt_window *window, size_t index)
{
    const struct mt_leaks *leaks = window->input->leaks;
    const struct mt_block_row *block = block_at(window, index);
    if (leaks == NULL || block->label >= leaks->label_count || leaks->row_of_label[block->label] == MT_NO_LEAK)
        return false;
    int64_t step = mt_window_step_of(window, block->alloc_event);
    if (leaks->loop[0] != '\0')
        return block->alloc_event > leaks->loop_event && block->alloc_event < leaks->last_event &&
               (block->free_event == 0 || block->free_event > leaks->last_event);
    bool is_of_later_step =
        step != MT_NO_STEP ? window->steps[step].number > 0 : block->alloc_event > leaks->first_event;
    return is_of_later_step && (block->free_event == 0 || block->free_event > leaks->last_event);
}

/* Returns the end of the step that allocated the block, or the window's begin for a block from before the window. An
 * iteration of a loop without steps is assumed to take as many events as the last ones do on average. */
static int64_t end_of_own_step(const struct mt_window *window, const struct mt_block_row *block)
{
    const struct mt_leaks *leaks = window->input->leaks;
    if (leaks->loop[0] != '\0')
        return mt_position_after(block->alloc_event +
                                 (leaks->last_event - leaks->first_event) / (leaks->last_step - leaks->first_step));
    int64_t step = mt_window_step_of(window, block->alloc_event);
    if (step == MT_NO_STEP)
        return window->usage.first_position;
    return window->steps[step].end != 0 ? mt_position_after(window->steps[step].end) : MT_POSITION_NEVER;
}

void mt_cut_leak(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_block_row *block = block_at(window, index);
    const struct mt_use_row *use = use_at(window, index);
    if (!is_leaked(window, index))
        return;
    int64_t end = end_of_own_step(window, block);
    int64_t unused = use->known && use->last != 0 ? mt_position_after(use->last) : end;
    mt_cut_list_add(out, window, index, unused > end ? unused : end, MT_POSITION_NEVER);
}

/* True for a PyTorch program. program_changes.h treats what its steps keep between uses, so here only memory that is
 * idle through whole passes counts. */
static bool is_of_pytorch(const struct mt_window *window)
{
    return window->input->program.kind == MT_PROGRAM_PYTORCH;
}

/* True if the block is a tensor: scratch memory of kernels has no dtype. */
static bool is_tensor(const struct mt_window *window, size_t index)
{
    const char *dtype = window->input->labels[block_at(window, index)->label].dtype;
    return dtype[0] != '\0' && strcmp(dtype, mt_dtype_name(MT_NONE)) != 0;
}

/* True if the block's uses show whether it is needed. Libraries use workspaces, and their uses are not recorded. */
static bool is_judged_by_uses(const struct mt_window *window, size_t index)
{
    return use_at(window, index)->known && !has_role(window, index, MT_ROLE_WORKSPACE) && !is_leaked(window, index) &&
           needless_forward(window, index) == NULL && (!is_of_pytorch(window) || is_tensor(window, index));
}

static bool is_never_used(const struct mt_use_row *use)
{
    return use->reads + use->writes == 0;
}

/* True if a full step with its forward pass is between two events. */
static bool has_step_between(const struct mt_window *window, int64_t from, int64_t to)
{
    const int64_t last = to != 0 ? to : window->input->last_event;
    for (size_t i = 0; i < window->step_count; i++) {
        const struct mt_step_extent *step = &window->steps[i];
        if (step->forward != 0 && step->after_forward != 0 && step->end != 0 && from < step->forward &&
            step->end <= last)
            return true;
    }
    return false;
}

/* True if nothing uses the block after its last use although steps follow, so that it is not a result for later. */
static bool is_left_over(const struct mt_window *window, size_t index)
{
    const struct mt_block_row *block = block_at(window, index);
    const struct mt_use_row *use = use_at(window, index);
    return is_of_pytorch(window) &&
           has_step_between(window, use->last != 0 ? use->last : block->alloc_event, block->free_event);
}

/* True if the block is waste when nothing reads it. A result may be read later. */
static bool may_be_needless(const struct mt_window *window, size_t index)
{
    return is_of_pytorch(window) ? is_left_over(window, index) : !mt_window_is_result(window, block_at(window, index));
}

void mt_cut_never_used(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    if (is_judged_by_uses(window, index) && is_never_used(use_at(window, index)) && may_be_needless(window, index))
        mt_cut_list_add(out, window, index, 0, MT_POSITION_NEVER);
}

static bool is_dead_write(const struct mt_window *window, size_t index)
{
    const struct mt_use_row *use = use_at(window, index);
    return use->reads == 0 && use->writes > 0 && may_be_needless(window, index);
}

void mt_cut_dead_write(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    if (is_judged_by_uses(window, index) && is_dead_write(window, index))
        mt_cut_list_add(out, window, index, 0, MT_POSITION_NEVER);
}

/* True if the block is needed at some time. */
static bool is_useful(const struct mt_window *window, size_t index)
{
    return is_judged_by_uses(window, index) && !is_never_used(use_at(window, index)) && !is_dead_write(window, index);
}

/* True if a whole step of a PyTorch program computed it, such as logits that a variable keeps. After the last step it
 * is no result either. If the program failed, the rest of the step might have used it. */
static bool is_output_of_step(const struct mt_window *window, size_t index)
{
    return is_of_pytorch(window) && !window->ran_out && !window->input->has_failed &&
           mt_window_step_of(window, block_at(window, index)->alloc_event) != MT_NO_STEP &&
           (has_role(window, index, MT_ROLE_ACTIVATION) || has_role(window, index, MT_ROLE_TEMPORARY));
}

/* True for a block of a PyTorch program that is freed soon after its last use, as autograd frees what its next function
 * has read. */
static bool is_freed_soon(const struct mt_window *window, size_t index)
{
    enum { SOON_EVENTS = 16 };
    const int64_t free_event = block_at(window, index)->free_event;
    return is_of_pytorch(window) && free_event != 0 && free_event - use_at(window, index)->last < SOON_EVENTS;
}

void mt_cut_late_free(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const bool is_result = mt_window_is_result(window, block_at(window, index)) && !is_output_of_step(window, index);
    if (is_useful(window, index) && (!is_result || is_left_over(window, index)) && !is_freed_soon(window, index))
        mt_cut_list_add(out, window, index, mt_position_after(use_at(window, index)->last), MT_POSITION_NEVER);
}

void mt_cut_early_allocation(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    if (is_useful(window, index) && !is_of_pytorch(window) &&
        use_at(window, index)->first > block_at(window, index)->alloc_event)
        mt_cut_list_add(out, window, index, 0, mt_position_after(use_at(window, index)->first));
}

static bool has_pause(const struct mt_use_row *use)
{
    return use->idle_from < use->idle_to;
}

/* Only the longest pause between two uses of a block is known. But training repeats itself in every step. If two steps
 * have equally many events, except for events of segments, a block that was idle in a part of one step was also idle in
 * the same part of the other.
 *
 *   step    ├───── 1 ─────┤├──── 2 ────┤├──── 3 ────┤
 *   used               ▪            ▪            ▪         the known pause is the one from step 1 to 2
 *   idle                 ╞══════════╡ ├┈┈┈┈┈┈┈┈┈┈┤         its part in step 2 is repeated in 3
 */

/* Positions: from <= position < to. */
struct interval {
    int64_t from, to;
};

/* Returns the positions of a step and of the events between it and the next step. */
static struct interval extent_of(const struct mt_window *window, size_t step)
{
    const struct mt_step_extent *steps = window->steps;
    int64_t begin = mt_position_at(steps[step].begin);
    if (step + 1 == window->step_count)
        return (struct interval){begin, mt_position_after(steps[step].end)};
    return (struct interval){begin, mt_position_at(steps[step + 1].begin)};
}

/* True if both are full steps with equally many events. */
static bool have_equal_length(const struct mt_window *window, size_t a, size_t b)
{
    const struct mt_step_extent *one = &window->steps[a], *other = &window->steps[b];
    return one->end != 0 && other->end != 0 &&
           mt_window_rank(window, one->end) - mt_window_rank(window, one->begin) ==
               mt_window_rank(window, other->end) - mt_window_rank(window, other->begin);
}

/* Returns the position in step `to` that corresponds to one in step `from`. */
static int64_t corresponding(const struct mt_window *window, int64_t position, size_t from, size_t to)
{
    int64_t rank = mt_window_rank(window, position / 2) - mt_window_rank(window, window->steps[from].begin) +
                   mt_window_rank(window, window->steps[to].begin);
    return mt_position_at(mt_window_event(window, rank)) + position % 2;
}

/* Indices of steps: from <= index < to. */
struct step_range {
    size_t from, to;
};

static struct step_range steps_between(const struct mt_window *window, int64_t first_event, int64_t last_event)
{
    int64_t from = mt_window_step_of(window, first_event), to = mt_window_step_of(window, last_event);
    return (struct step_range){.from = from < 0 ? 0 : (size_t)from, .to = (size_t)(to + 1)};
}

/* Returns the steps in which a block is live. */
static struct step_range steps_of(const struct mt_window *window, const struct mt_block_row *block)
{
    return steps_between(window, block->alloc_event,
                         block->free_event != 0 ? block->free_event : window->input->last_event + 1);
}

/* Adds the part of the pause that is in step `from`, at the corresponding positions of step `to`. */
static void repeat(const struct mt_window *window, size_t index, struct interval pause, size_t from, size_t to,
                   struct mt_cut_list *out)
{
    assert(from != to && from < window->step_count && to < window->step_count);
    struct interval there = extent_of(window, from), here = extent_of(window, to);
    struct interval part = {.from = pause.from > there.from ? pause.from : there.from,
                            .to = pause.to < there.to ? pause.to : there.to};
    mt_cut_list_add(out, window, index, corresponding(window, part.from, from, to),
                    part.to == there.to ? here.to : corresponding(window, part.to, from, to));
}

/* Adds the longest pause, and the corresponding pauses of other steps. */
static void add_longest_pause(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = use_at(window, index);
    struct interval pause = {mt_position_after(use->idle_from), mt_position_after(use->idle_to)};
    struct step_range lived = steps_of(window, block_at(window, index));
    mt_cut_list_add(out, window, index, pause.from, pause.to);
    if (lived.from + 1 >= lived.to)
        return;
    struct step_range paused = steps_between(window, use->idle_from, use->idle_to);
    for (size_t from = paused.from; from < paused.to; from++)
        for (size_t to = lived.from; to < lived.to; to++)
            if (from != to && have_equal_length(window, from, to))
                repeat(window, index, pause, from, to, out);
}

/* Adds the longest pause of a block, if any, and the corresponding pauses of other steps. If memory ran out before a
 * result could be used again, adds the time since its last use. */
static void cut_pauses(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = use_at(window, index);
    size_t first = out->count;
    if (has_pause(use))
        add_longest_pause(window, index, out);
    if (window->ran_out && mt_window_is_result(window, block_at(window, index)))
        mt_cut_list_add(out, window, index, mt_position_after(use->last), MT_POSITION_NEVER);
    mt_cut_list_join(out, first);
}

static int compare_allocation(const void *event, const void *block)
{
    return MT_COMPARE(*(const int64_t *)event, ((const struct mt_block_row *)block)->alloc_event);
}

/* Returns the block that `event` allocated; NULL if the window has no such block. */
static const struct mt_block_row *find_block(const struct mt_window *window, int64_t event)
{
    const struct mt_advice_input *input = window->input;
    return bsearch(&event, input->blocks, input->block_count, sizeof *input->blocks, compare_allocation);
}

/* True if the block is a copy that can be made again when its pause ends, since its original is still live then. */
static bool is_idle_copy(const struct mt_window *window, size_t index)
{
    const struct mt_use_row *use = use_at(window, index);
    if (!use->known || use->copied_from == 0 || !has_pause(use))
        return false;
    assert(use->idle_to < MT_POSITION_NEVER / 2);
    const struct mt_block_row *original = find_block(window, use->copied_from);
    return original != NULL && mt_window_is_live(window, original, mt_position_after(use->idle_to));
}

void mt_cut_two_precisions(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    if (is_useful(window, index) && is_idle_copy(window, index))
        cut_pauses(window, index, out);
}

/* Returns the events of a step's forward and backward passes; two zeros if the step lacks one. */
static struct interval passes_of(const struct mt_step_extent *step)
{
    const int64_t end = step->optimizer != 0 ? step->optimizer : step->end;
    return step->forward != 0 && step->after_forward != 0 && end != 0 ? (struct interval){step->forward, end}
                                                                      : (struct interval){0, 0};
}

static bool is_inside(struct interval passes, int64_t event)
{
    return passes.from < event && event < passes.to;
}

/* If the longest pause of a block contains the forward and backward passes of one step, and begins and ends outside any
 * pass, cuts these passes in all steps. For example, an average of weights is used after the optimizer in each step. */
static void cut_passes(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = use_at(window, index);
    bool has_passes = false;
    for (size_t i = 0; i < window->step_count; i++) {
        const struct interval passes = passes_of(&window->steps[i]);
        if (is_inside(passes, use->idle_from) || is_inside(passes, use->idle_to) || is_inside(passes, use->last))
            return;
        has_passes |= passes.to != 0 && use->idle_from <= passes.from && passes.to <= use->idle_to;
    }
    for (size_t i = 0; i < window->step_count && has_passes; i++) {
        const struct interval passes = passes_of(&window->steps[i]);
        if (passes.to != 0 && passes.from > use->first)
            mt_cut_list_add(out, window, index, mt_position_after(passes.from), mt_position_at(passes.to));
    }
}

/* Adds the pauses of a PyTorch program's block during which whole passes do not use it. Optimizer state and gradients
 * have changes of their own. */
static void cut_pauses_of_pytorch(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    const struct mt_use_row *use = use_at(window, index);
    const size_t first = out->count;
    bool has_forward = false;
    if (has_role(window, index, MT_ROLE_OPTIMIZER_STATE) || has_role(window, index, MT_ROLE_GRADIENT) ||
        !has_pause(use))
        return;
    for (size_t i = 0; i < window->step_count; i++) {
        const struct mt_step_extent *step = &window->steps[i];
        has_forward |= step->forward != 0 && step->after_forward != 0 && use->idle_from <= step->forward &&
                       step->after_forward <= use->idle_to;
    }
    if (!has_forward)
        return;
    mt_cut_list_add(out, window, index, mt_position_after(use->idle_from), mt_position_after(use->idle_to));
    cut_passes(window, index, out);
    mt_cut_list_join(out, first);
}

void mt_cut_idle(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    if (!is_useful(window, index) || is_idle_copy(window, index))
        return;
    if (is_of_pytorch(window))
        cut_pauses_of_pytorch(window, index, out);
    else
        cut_pauses(window, index, out);
}

void mt_cut_nothing(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    (void)window, (void)index, (void)out;
}

void mt_cut_unused(const struct mt_window *window, size_t index, struct mt_cut_list *out)
{
    mt_cut_kept_gradient(window, index, out);
    mt_cut_leak(window, index, out);
    mt_cut_never_used(window, index, out);
    if (!is_useful(window, index))
        return;
    const struct mt_use_row *use = use_at(window, index);
    int64_t last = use->last > use->first ? mt_position_after(use->last) : mt_position_at(use->last + 1);
    mt_cut_early_allocation(window, index, out);
    if (!mt_window_is_result(window, block_at(window, index)))
        mt_cut_list_add(out, window, index, last, MT_POSITION_NEVER);
}
