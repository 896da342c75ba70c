/* A run as patterns look at it: its steps, and where in them its blocks are; for this folder only. */
#ifndef MT_WHATIF_SCENE_H
#define MT_WHATIF_SCENE_H

#include "analysis/curve.h"

#include <stdbool.h>

/* A step of the window. Events; 0: there is none. */
struct mt_step_extent {
    int64_t number;
    int64_t begin, end;
    int64_t forward;       /* the mark of its first forward phase */
    int64_t after_forward; /* the next phase's */
};

struct mt_scene {
    const struct mt_advice_input *input; /* borrowed */
    struct mt_curve curve;
    mt_role *roles;               /* by label; MT_ROLE_COUNT: none of ours */
    mt_category *categories;      /* by label */
    struct mt_step_extent *steps; /* in order */
    size_t step_count;
    int64_t program_end; /* the last event of what was to be done; what is freed later, is cleared up */
    bool ran_out;        /* it ended there for want of memory */
    int64_t *ranks;      /* of the events that map or unmap a segment, ascending */
    size_t rank_count;
};

void mt_scene_create(const struct mt_advice_input *input, struct mt_scene *out);
void mt_scene_release(struct mt_scene *scene);

/* The index of the step that was the last to begin up to `event`; MT_NO_STEP: none in the window. */
int64_t mt_scene_step_of(const struct mt_scene *scene, int64_t event);

/* The rank of an event: it counts like the event's number, but not those that map and unmap segments, which differ from
 * one step to the next where the program does not. Such an event has the rank of the one before. And the event of a
 * rank. */
int64_t mt_scene_rank(const struct mt_scene *scene, int64_t event);
int64_t mt_scene_event(const struct mt_scene *scene, int64_t rank);

/* Where a block's lifetime begins and ends in the window: what was there before begins just before its first event. */
int64_t mt_scene_begin(const struct mt_scene *scene, const struct mt_block_row *block);
int64_t mt_scene_end(const struct mt_scene *scene, const struct mt_block_row *block);

/* Whether the block is there at `position`. */
static inline bool mt_scene_is_live(const struct mt_scene *scene, const struct mt_block_row *block, int64_t position)
{
    return mt_scene_begin(scene, block) <= position && position < mt_scene_end(scene, block);
}

/* Whether it is there until the end: then it is what the run leaves, such as parameters, or was still to be used. */
bool mt_scene_is_result(const struct mt_scene *scene, const struct mt_block_row *block);

#endif
