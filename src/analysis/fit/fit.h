/* Finds out if a run fits a device, what would make it fit, and how large it may be. Each answer is a simulation of the
 * run that it is about; nothing is estimated.
 *
 * It does not only depend on the live bytes if a size fits: a sequence a little longer may leave other holes, and fit
 * where a shorter one does not. So every size that is said to fit was simulated, and so was every larger one that is said
 * not to. The search relies on one thing, which bounds it: a larger batch or sequence asks for no fewer bytes at once. */
#pragma once

#include "analysis/fit/fit_changes.h"
#include "analysis/fit/fit_device.h"

/* A run on a device.
 * Invariants: fits: reserved_bytes <= capacity_bytes, enough_bytes is 0; else enough_bytes > capacity_bytes,
 * reserved_bytes is 0. */
struct mt_fit {
    bool fits;
    uint64_t capacity_bytes; /* of the device, all of it */
    uint64_t reserved_bytes; /* fits: its peak of reserved bytes there */
    /* Does not fit: a capacity that suffices, while MT_FIT_UNIT less does not, or is no more than the device has, or than
     * the run allocates. */
    uint64_t enough_bytes;
    /* The peak of reserved bytes with unlimited memory. If that exceeds capacity_bytes, the run fits only because the
     * allocator gives cached segments back. */
    uint64_t unlimited_bytes;
};

/* Returns the bytes that the run leaves of the capacity; below 0, those that are missing. */
static inline int64_t mt_fit_room_bytes(const struct mt_fit *fit)
{
    return (int64_t)fit->capacity_bytes - (int64_t)(fit->fits ? fit->reserved_bytes : fit->enough_bytes);
}

enum { MT_FIT_UNIT = 2 << 20 };

/* One or several changes, and the run with them. */
struct mt_fit_remedy {
    struct mt_fit_changes changes;
    struct mt_run_plan
        plan; /* with the changes: of the dearest, if that is a size, the largest that fits, else the least */
    struct mt_fit fit;
};

enum { MT_MOST_COMBINED = 2 };

/* The largest batch or sequence that fits.
 * Invariants: size <= tried_to; no size above `size` up to tried_to fits. */
struct mt_fit_largest {
    int64_t size;     /* the largest that fitted; 0: none */
    int64_t tried_to; /* every larger size up to here was simulated */
    bool is_certain;  /* still larger ones request more bytes at once than there are */
};

/* All that `fit` finds.
 * Invariants: if the run fits, there are no remedies; if a single one fits, nothing is combined. */
struct mt_fit_answer {
    struct mt_fit fit;
    struct mt_fit_remedy single[MT_SETTING_COUNT]; /* those that are a change, cheapest first; one that needs the fused
                                                     implementation with it, if that alone does not do */
    size_t single_count;
    struct mt_fit_remedy
        combined[MT_MOST_COMBINED]; /* the cheapest pair that fits; or the two best, and all together */
    size_t combined_count;
    bool lacks_bf16;              /* the card has no units for it, so autocast is no change to offer */
    bool has_gentler;             /* the least change cuts the batch or the sequence, and would have to cut less with */
    struct mt_fit_remedy gentler; /* this: all changes with which training computes the same, and the rest of the cut */
    struct mt_fit_largest batch, seq; /* with the run as it is otherwise */
    const char *largest_model;        /* of mt_model_names; NULL: none */
    const char *smallest_card;        /* of mt_card_names, that the run as it is fits; NULL: none */
};

/* Finds the first part of the answer, the needs of the run and the changes that make it fit, for a plan on a simulated
 * device. Borrows the plan's texts. */
mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out);

/* Finds the card of mt_card_names with the least room, the first of several, that the run fits with reserve_bytes of its memory
 * left (MT_RESERVE_UNSET: what its context takes); NULL if there is none. */
mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, uint64_t reserve_bytes, const char **out);

/* Finds the whole answer for a plan on a simulated device. The reserve is of the cards that are compared with it. Borrows the
 * plan's texts. */
mt_status mt_fit_find(const struct mt_run_plan *plan, uint64_t reserve_bytes, struct mt_fit_answer *out);

/* Makes the changes and the plan of a remedy, with the implementation that the change needs. Nothing is simulated. False if
 * the change changes nothing, or the plan can't be run. */
bool mt_fit_remedy_make(const struct mt_run_plan *plan, mt_setting change, struct mt_fit_remedy *out);

/* Returns the first remedy that fits, which is the least change; NULL if none does. */
const struct mt_fit_remedy *mt_fit_best_remedy(const struct mt_fit_answer *answer);
