/* The detectors of patterns: for each block, the times in which it need not be live. Private to this folder. */
#ifndef MT_ANALYSIS_PATTERNS_H
#define MT_ANALYSIS_PATTERNS_H

#include "analysis/lifetimes.h"

/* The texts that the blocks of one finding have in common. */
enum {
    MT_ALIKE_CATEGORY = 1,
    MT_ALIKE_ROLE = 2,
    MT_ALIKE_OP = 4,
    MT_ALIKE_PHASE = 8,
    MT_ALIKE_PLACE = 16,
    MT_ALIKE_ALL = 31,
    MT_ALIKE_BY_ROLE = 32, /* the role; and the category where not all blocks of the role are used alike */
};

/* A way of finding a pattern. Several may find one pattern, and group its blocks differently. */
struct mt_detector {
    mt_pattern pattern;

    /* Adds the cuts of block `index`, in order; none if it does not show the pattern. */
    void (*cut)(const struct mt_window *window, size_t index, struct mt_cut_list *out);

    unsigned alike;   /* MT_ALIKE bits by which blocks are grouped, or MT_ALIKE_BY_ROLE */
    bool is_of_saved; /* only blocks of MT_ROLE_ACTIVATION are looked at */
};

enum { MT_DETECTOR_COUNT = 10 };
extern const struct mt_detector mt_detectors[MT_DETECTOR_COUNT];

/* Returns the MT_ALIKE bits by which blocks of the label are grouped. */
unsigned mt_detector_alike(const struct mt_detector *detector, const struct mt_label_row *label);

/* Adds the detector's cuts of block `index`. */
void mt_detector_cut(const struct mt_detector *detector, const struct mt_window *window, size_t index,
                     struct mt_cut_list *out);

/* Adds the cuts that leave of a block only the time from its first to its last use. */
void mt_cut_unused(const struct mt_window *window, size_t index, struct mt_cut_list *out);

#endif
