/* Which blocks show which pattern, and when they need not be there; for this folder only. */
#ifndef MT_WHATIF_PATTERNS_H
#define MT_WHATIF_PATTERNS_H

#include "analysis/cuts.h"

/* What the blocks of one finding have in common. */
enum {
    MT_ALIKE_CATEGORY = 1,
    MT_ALIKE_ROLE = 2,
    MT_ALIKE_OP = 4,
    MT_ALIKE_PHASE = 8,
    MT_ALIKE_PLACE = 16,
    MT_ALIKE_ALL = 31,
};

/* One way of looking for a pattern. */
struct mt_lens {
    mt_pattern pattern;

    /* Adds the cuts of block `index`, in order; none if it does not show the pattern. */
    void (*cut)(const struct mt_scene *scene, size_t index, struct mt_cut_list *out);

    /* The MT_ALIKE bits by which blocks of this label are put together. */
    unsigned (*alike)(const struct mt_label_row *label);
};

enum { MT_LENS_COUNT = 10 };
extern const struct mt_lens mt_lenses[MT_LENS_COUNT];

/* Leaves of a block only the time from its first to its last use. */
void mt_cut_unused(const struct mt_scene *scene, size_t index, struct mt_cut_list *out);

#endif
