#include "analysis/scene.h"

#include "analysis/replay.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static mt_role role_of(const struct mt_label_row *label)
{
    mt_role role = 0;
    while (role < MT_ROLE_COUNT && strcmp(label->role, mt_role_name(role)) != 0)
        role++;
    return role;
}

static void begin_step(struct mt_scene *scene, const struct mt_mark_row *mark)
{
    scene->steps[scene->step_count++] = (struct mt_step_extent){.number = (int64_t)mark->value, .begin = mark->event};
}

static void end_step(struct mt_scene *scene, const struct mt_mark_row *mark)
{
    if (scene->step_count > 0)
        scene->steps[scene->step_count - 1].end = mark->event;
}

static void begin_phase(struct mt_scene *scene, const struct mt_mark_row *mark)
{
    if (scene->step_count == 0)
        return;
    struct mt_step_extent *step = &scene->steps[scene->step_count - 1];
    if (step->forward == 0 && mark->value == MT_PHASE_FORWARD)
        step->forward = mark->event;
    else if (step->forward != 0 && step->after_forward == 0)
        step->after_forward = mark->event;
}

static void read_marks(struct mt_scene *scene)
{
    for (size_t i = 0; i < scene->input->mark_count; i++) {
        const struct mt_mark_row *mark = &scene->input->marks[i];
        if (mark->kind == MT_EVENT_STEP_BEGIN)
            begin_step(scene, mark);
        if (mark->kind == MT_EVENT_STEP_END)
            end_step(scene, mark);
        if (mark->kind == MT_EVENT_PHASE)
            begin_phase(scene, mark);
    }
}

/* The last request that could not be met, if nothing was allocated after it; 0: none. */
static int64_t final_refusal(const struct mt_advice_input *input)
{
    int64_t refusal = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        if (input->marks[i].kind == MT_EVENT_OOM)
            refusal = input->marks[i].event;
    bool went_on = input->block_count > 0 && input->blocks[input->block_count - 1].alloc_event > refusal;
    return went_on ? 0 : refusal;
}

/* A run ends with its last step; one that did not get there, where memory ran out, or nowhere that is known. */
static void find_end(struct mt_scene *scene)
{
    int64_t refusal = final_refusal(scene->input);
    int64_t step_end = scene->step_count > 0 ? scene->steps[scene->step_count - 1].end : 0;
    scene->ran_out = refusal != 0 && step_end == 0;
    scene->program_end = step_end != 0 ? step_end : scene->input->last_event;
    if (scene->ran_out)
        scene->program_end = refusal;
}

static size_t count_steps(const struct mt_advice_input *input)
{
    size_t count = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        count += input->marks[i].kind == MT_EVENT_STEP_BEGIN;
    return count;
}

static int compare_events(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Each event that mapped or unmapped, once, ascending. */
static void list_segment_events(struct mt_scene *scene)
{
    const struct mt_advice_input *input = scene->input;
    scene->ranks = mt_host_alloc((2 * input->part_count + 1) * sizeof *scene->ranks);
    size_t count = 0;
    for (size_t i = 0; i < input->part_count; i++) {
        scene->ranks[count++] = input->parts[i].mapped_event;
        if (input->parts[i].unmapped_event != 0)
            scene->ranks[count++] = input->parts[i].unmapped_event;
    }
    qsort(scene->ranks, count, sizeof *scene->ranks, compare_events);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || scene->ranks[i] != scene->ranks[scene->rank_count - 1])
            scene->ranks[scene->rank_count++] = scene->ranks[i];
}

static void rank_segments(struct mt_scene *scene)
{
    list_segment_events(scene);
    for (size_t i = 0; i < scene->rank_count; i++)
        scene->ranks[i] -= (int64_t)i + 1; /* one for each of those before, and for itself */
}

/* How many of the ascending ranks are below `bound`. */
static int64_t count_below(const struct mt_scene *scene, int64_t bound)
{
    size_t low = 0, high = scene->rank_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scene->ranks[middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low;
}

int64_t mt_scene_event(const struct mt_scene *scene, int64_t rank)
{
    return rank + count_below(scene, rank);
}

int64_t mt_scene_rank(const struct mt_scene *scene, int64_t event)
{
    size_t low = 0, high = scene->rank_count; /* of those below low the event is at or before `event` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scene->ranks[middle] + (int64_t)middle + 1 <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return event - (int64_t)low;
}

void mt_scene_create(const struct mt_advice_input *input, struct mt_scene *out)
{
    *out = (struct mt_scene){.input = input};
    mt_curve_create(input, &out->curve);
    out->steps = mt_host_alloc((count_steps(input) + 1) * sizeof *out->steps);
    read_marks(out);
    find_end(out);
    rank_segments(out);
    out->roles = mt_host_alloc((input->label_count + 1) * sizeof *out->roles);
    for (size_t i = 0; i < input->label_count; i++)
        out->roles[i] = role_of(&input->labels[i]);
    out->categories = mt_host_alloc((input->label_count + 1) * sizeof *out->categories);
    for (size_t i = 0; i < input->label_count; i++)
        out->categories[i] = mt_category_of_label(&input->labels[i]);
}

void mt_scene_release(struct mt_scene *scene)
{
    mt_curve_release(&scene->curve);
    free(scene->steps);
    free(scene->roles);
    free(scene->categories);
    free(scene->ranks);
    *scene = (struct mt_scene){0};
}

int64_t mt_scene_step_of(const struct mt_scene *scene, int64_t event)
{
    size_t low = 0, high = scene->step_count; /* steps below low have begun by the event, from high on they have not */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scene->steps[middle].begin <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? (int64_t)low - 1 : MT_NO_STEP;
}

int64_t mt_scene_begin(const struct mt_scene *scene, const struct mt_block_row *block)
{
    int64_t begin = mt_position_at(block->alloc_event);
    return begin < scene->curve.first_position ? scene->curve.first_position : begin;
}

int64_t mt_scene_end(const struct mt_scene *scene, const struct mt_block_row *block)
{
    bool is_freed = block->free_event != 0 && block->free_event <= scene->input->last_event;
    return is_freed ? mt_position_at(block->free_event) : MT_POSITION_NEVER;
}

bool mt_scene_is_result(const struct mt_scene *scene, const struct mt_block_row *block)
{
    return block->free_event == 0 || block->free_event > scene->program_end;
}
