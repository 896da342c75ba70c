/* Changes that compute less of a batch at once: half the micro-batch with gradients accumulated over two passes, and a
 * loss that computes logits in slices. Both compute new sizes for the run's own blocks and replay them.
 *
 *   half a micro-batch   blocks of forward and backward are half as large; gradients live from the first half on
 *   a loss in slices     logits, and blocks of their width, are an eighth as large */
#include "analysis/changed_run.h"
#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 8, LEAST_WIDTH = 1024, HALVES = 2 };

/* Returns the first or last number of a shape such as "8,512,768"; 0 if there is none. */
static int64_t first_size(const char *shape)
{
    return strtoll(shape, NULL, 10);
}

static int64_t last_size(const char *shape)
{
    const char *comma = strrchr(shape, ',');
    return comma != NULL ? strtoll(comma + 1, NULL, 10) : 0;
}

/* ---- a smaller micro-batch ---- */

/* True if the batch of some input has more than one sample, or an unknown shape. */
static bool can_halve(const struct mt_window *window)
{
    bool has_input = false;
    for (size_t i = 0; i < window->input->block_count; i++) {
        const struct mt_label_row *label = &window->input->labels[window->input->blocks[i].label];
        if (window->roles[window->input->blocks[i].label] != MT_ROLE_INPUT)
            continue;
        has_input = true;
        if (label->shape[0] == '\0' || first_size(label->shape) > 1)
            return true;
    }
    return !has_input;
}

/* Adds the sizes of parameters, also of gathered ones, and of their copies in half and twice the precision. */
static void find_parameter_sizes(const struct mt_window *window, struct mt_number_map *out)
{
    mt_number_map_create(out);
    for (size_t i = 0; i < window->input->block_count; i++) {
        const struct mt_block_row *block = &window->input->blocks[i];
        const mt_role role = window->roles[block->label];
        if (role != MT_ROLE_PARAMETER && role != MT_ROLE_GATHERED_PARAMETER)
            continue;
        mt_number_map_put(out, block->requested_bytes, 1);
        mt_number_map_put(out, block->requested_bytes / 2, 1);
        mt_number_map_put(out, block->requested_bytes * 2, 1);
    }
}

/* True for a block whose size depends on the batch. A block of a parameter's size is the parameter's gradient or
 * cast. */
static bool follows_batch(const struct mt_window *window, const struct mt_block_row *block,
                          const struct mt_number_map *parameters)
{
    const mt_role role = window->roles[block->label];
    const char *phase = window->input->labels[block->label].phase;
    uint64_t ignored;
    if (role != MT_ROLE_ACTIVATION && role != MT_ROLE_INPUT && role != MT_ROLE_TEMPORARY)
        return false;
    if (strcmp(phase, mt_phase_name(MT_PHASE_OPTIMIZER)) == 0 || strcmp(phase, mt_phase_name(MT_PHASE_INIT)) == 0)
        return false;
    return role == MT_ROLE_INPUT || !mt_number_map_get(parameters, block->requested_bytes, &ignored);
}

/* Makes a gradient live from the beginning of the preceding forward pass, since the first half of the batch created
 * it. */
static void add_gradient(const struct mt_window *window, const struct mt_block_row *block, int64_t forward,
                         struct mt_changed_run *changed)
{
    if (forward == 0 || block->alloc_event <= forward)
        return;
    *MT_HOST_ADD(changed->added, changed->added_count) =
        (struct mt_lifetime){.requested_bytes = block->requested_bytes,
                             .begin = mt_position_at(forward),
                             .end = mt_position_at(block->alloc_event) - 1,
                             .label = block->label,
                             .category = window->categories[block->label],
                             .stream = block->stream};
}

/* Moves to the last mark up to an event, and returns the beginning of the last forward pass; 0: none yet. */
static int64_t pass_forward(const struct mt_advice_input *input, int64_t event, size_t *mark, int64_t forward)
{
    for (; *mark < input->mark_count && input->marks[*mark].event <= event; ++*mark) {
        const struct mt_mark_row *at = &input->marks[*mark];
        if (at->kind == MT_EVENT_STEP_BEGIN || (at->kind == MT_EVENT_PHASE && at->value == MT_PHASE_FORWARD))
            forward = at->event;
    }
    return forward;
}

static mt_status add_micro_batch(const struct mt_window *window, struct mt_program_changes *out)
{
    struct mt_changed_run changed;
    struct mt_number_map parameters;
    const struct mt_advice_input *input = window->input;
    const struct mt_program_change change = {
        .kind = MT_CHANGE_MICRO_BATCH, .place = "", .alloc = window->input->settings};
    size_t mark = 0;
    int64_t forward = 0;
    find_parameter_sizes(window, &parameters);
    mt_changed_run_create(window, &changed);
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        forward = pass_forward(input, block->alloc_event, &mark, forward);
        if (window->roles[block->label] == MT_ROLE_GRADIENT)
            add_gradient(window, block, forward, &changed);
        else if (follows_batch(window, block, &parameters))
            mt_changed_run_resize(&changed, i, block->requested_bytes / HALVES);
    }
    mt_status status = mt_program_changes_add(out, &changed, &change);
    mt_changed_run_release(&changed);
    mt_number_map_release(&parameters);
    return status;
}

/* ---- a loss in slices ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Returns the number of classes of the largest cross entropy; 0 if no cross entropy has many. */
static int64_t find_width(const struct mt_window *window)
{
    uint64_t most_bytes = 0;
    int64_t width = 0;
    for (size_t i = 0; i < window->input->block_count; i++) {
        const struct mt_block_row *block = &window->input->blocks[i];
        const struct mt_label_row *label = &window->input->labels[block->label];
        if (!ends_with(label->op, "_log_softmax") || block->requested_bytes <= most_bytes)
            continue;
        most_bytes = block->requested_bytes;
        width = last_size(label->shape);
    }
    return width >= LEAST_WIDTH ? width : 0;
}

static mt_status add_sliced_loss(const struct mt_window *window, struct mt_program_changes *out)
{
    struct mt_changed_run changed;
    const struct mt_program_change change = {
        .kind = MT_CHANGE_SLICED_LOSS, .place = "", .alloc = window->input->settings};
    const int64_t width = find_width(window);
    if (width == 0)
        return MT_OK;
    mt_changed_run_create(window, &changed);
    for (size_t i = 0; i < window->input->block_count; i++) {
        const struct mt_block_row *block = &window->input->blocks[i];
        const mt_role role = window->roles[block->label];
        if ((role == MT_ROLE_ACTIVATION || role == MT_ROLE_TEMPORARY) &&
            last_size(window->input->labels[block->label].shape) == width)
            mt_changed_run_resize(&changed, i, block->requested_bytes / SLICES);
    }
    mt_status status = mt_program_changes_add(out, &changed, &change);
    mt_changed_run_release(&changed);
    return status;
}

mt_status mt_program_changes_add_batches(const struct mt_window *window, bool is_training,
                                         struct mt_program_changes *out)
{
    if (!is_training || window->step_count == 0)
        return MT_OK;
    MT_TRY(add_sliced_loss(window, out));
    return can_halve(window) ? add_micro_batch(window, out) : MT_OK;
}
