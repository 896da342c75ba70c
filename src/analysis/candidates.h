/* Cuts, put together by pattern and by what their blocks are; for this folder only. */
#ifndef MT_WHATIF_CANDIDATES_H
#define MT_WHATIF_CANDIDATES_H

#include "analysis/patterns.h"

/* What may become a finding.
 * Invariants: cuts are ordered by block, then by position; no peak falls by more than peak_bytes. */
struct mt_candidate {
    mt_pattern pattern;
    const char *category, *role, *op, *phase, *place; /* "" where the blocks differ */
    const struct mt_cut *cuts;
    size_t count;
    uint64_t peak_bytes; /* absent at the peak */
    double byte_seconds;
    struct mt_cut_curve curve; /* once it is weighed */
};

struct mt_candidates {
    struct mt_candidate *items;
    size_t count;
    struct mt_cut *cuts[MT_LENS_COUNT];
};

/* Looks through every lens. Release in any case. */
void mt_candidates_create(const struct mt_scene *scene, struct mt_candidates *out);
void mt_candidates_release(struct mt_candidates *candidates);

#endif
