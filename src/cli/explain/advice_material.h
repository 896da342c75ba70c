/* What a trace has of a run for advice about it: of the whole run or, of a very long one, of the steps around its peak. */
#ifndef MT_CLI_ADVICE_MATERIAL_H
#define MT_CLI_ADVICE_MATERIAL_H

#include "analysis/advice.h"
#include "cli/output/question.h"

/* How many events a run has at most that is looked at as a whole, and how many are looked at at all: that takes about 100
 * bytes an event, so 1.6 GB at most. */
enum { MT_ADVICE_WHOLE_EVENTS = 2000000, MT_ADVICE_MOST_EVENTS = 1 << 24 };

/* Arrays that belong to it, and an input that borrows them. */
struct mt_advice_material {
    struct mt_advice_input input;
    struct mt_block_row *blocks;
    struct mt_use_row *uses;
    struct mt_label_row *labels;
    struct mt_mark_row *marks;
    struct mt_segment_row *segments;
    struct mt_part_row *parts;
    struct mt_leaks leaks;
    bool is_whole;                 /* false: only a window of the run */
    int64_t first_step, last_step; /* of the window */
};

/* MT_USAGE for more events than can be looked at. Release in any case. A run that says nothing of its allocator, as an
 * imported one, is taken to have policy=torch. */
mt_status mt_advice_material_load(const struct mt_question *question, struct mt_advice_material *out);

/* The same up to an event of the run, and of a very long one from the step before that event's. */
mt_status mt_advice_material_load_until(const struct mt_question *question, int64_t last_event,
                                        struct mt_advice_material *out);
void mt_advice_material_release(struct mt_advice_material *material);

#endif
