/* Finds out whether a run fits a device, which changes would make it fit, and its largest size. Each answer is a
 * simulation of that run; nothing is estimated.
 *
 * Whether a size fits depends not only on its live bytes: a slightly longer sequence may leave other gaps, and fit
 * where a shorter one does not. So every reported size was simulated, and so was every larger size that is reported not
 * to fit. The search is bounded by one assumption: a larger batch or sequence requests at least as many bytes at
 * once. */
#pragma once

#include "analysis/fit/fit_changes.h"
#include "analysis/fit/fit_device.h"

/* A run on a device.
 * Invariants: if it fits, reserved_bytes <= capacity_bytes and enough_bytes is 0; otherwise enough_bytes >
 * capacity_bytes and reserved_bytes is 0. */
struct mt_fit {
    bool fits;
    uint64_t capacity_bytes; /* total memory of the device */
    uint64_t reserved_bytes; /* if it fits, its peak of reserved bytes there */
    /* If it does not fit, a sufficient capacity. MT_FIT_UNIT less is not sufficient, or not above the device's
     * capacity, or less than the run allocates. */
    uint64_t enough_bytes;
    /* The peak of reserved bytes with unlimited memory. If it exceeds capacity_bytes, the run fits only because the
     * allocator frees cached segments. */
    uint64_t unlimited_bytes;
};

/* Returns the capacity minus the run's needs; negative if memory is missing. */
static inline int64_t mt_fit_room_bytes(const struct mt_fit *fit)
{
    return (int64_t)fit->capacity_bytes - (int64_t)(fit->fits ? fit->reserved_bytes : fit->enough_bytes);
}

enum { MT_FIT_UNIT = 2 << 20 };

/* One or several changes, and the run with them. */
struct mt_fit_remedy {
    struct mt_fit_changes changes;
    /* With the changes. If the most expensive one is a size, it has the largest value that fits, or else the
     * smallest. */
    struct mt_run_plan plan;
    struct mt_fit fit;
};

enum { MT_MOST_COMBINED = 2 };

/* The largest batch or sequence that fits.
 * Invariants: size <= tried_to; no size above `size` up to tried_to fits. */
struct mt_fit_largest {
    int64_t size;     /* the largest size that fits; 0: none */
    int64_t tried_to; /* every size above `size` up to here was simulated */
    bool is_certain;  /* even larger sizes request more bytes at once than the capacity */
};

/* The complete result of `fit`.
 * Invariants: if the run fits, there are no remedies; if a single remedy fits, nothing is combined. */
struct mt_fit_answer {
    struct mt_fit fit;
    /* Changes that have an effect, cheapest first. A change that needs the fused implementation includes it, and is
     * left out if the implementation alone suffices. */
    struct mt_fit_remedy single[MT_SETTING_COUNT];
    size_t single_count;
    struct mt_fit_remedy combined[MT_MOST_COMBINED]; /* the cheapest pair that fits; or the best pair, and all */
    size_t combined_count;
    bool lacks_bf16;                  /* the card has no bf16 units, so autocast is not offered */
    bool has_gentler;                 /* the best change cuts the batch or the sequence, and `gentler` cuts less */
    struct mt_fit_remedy gentler;     /* all changes with which training computes the same, and a smaller cut */
    struct mt_fit_largest batch, seq; /* with the run otherwise unchanged */
    const char *largest_model;        /* of mt_model_names; NULL: none */
    const char *smallest_card;        /* of mt_card_names, for the unchanged run; NULL: none */
};

/* Finds the first part of the answer for a plan on a simulated device: the needs of the run and the changes that make
 * it fit. Borrows the plan's texts. */
mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out);

/* Finds the card of mt_card_names with the least available memory that the run fits, the first of equal ones.
 * reserve_bytes of its memory stay free (MT_RESERVE_UNSET: the context's size). NULL if no card fits. */
mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, uint64_t reserve_bytes, const char **out);

/* Finds the complete answer for a plan on a simulated device. The reserve applies to the cards in the comparison.
 * Borrows the plan's texts. */
mt_status mt_fit_find(const struct mt_run_plan *plan, uint64_t reserve_bytes, struct mt_fit_answer *out);

/* Sets the changes and the plan of a remedy, including the implementation that the change needs. Simulates nothing.
 * False if the change has no effect, or the plan is invalid. */
bool mt_fit_remedy_make(const struct mt_run_plan *plan, mt_setting change, struct mt_fit_remedy *out);

/* Returns the first remedy that fits, which is the cheapest; NULL if none fits. */
const struct mt_fit_remedy *mt_fit_best_remedy(const struct mt_fit_answer *answer);
