/* Does a run fit a device, what would make it fit, and how large may it be? Each answer is a simulation of the very run
 * that it is about, nothing is estimated.
 *
 * That a smaller batch or sequence needs no more memory is relied on to search quickly, but never told unseen: what is
 * said to fit was simulated, and so was that one more does not. */
#ifndef MT_CLI_FIT_SEARCH_H
#define MT_CLI_FIT_SEARCH_H

#include "simulation.h"

/* How a run and a device get along.
 * Invariants: fits means needs_bytes <= capacity_bytes; needs_bytes <= unlimited_bytes. */
struct mt_fit {
    bool fits;
    uint64_t capacity_bytes; /* of the device, all of it */
    uint64_t needs_bytes; /* fits: its peak of reserved bytes there; else the least capacity that was seen to do, which
                                 is less than MT_FIT_UNIT above one that does not */
    uint64_t unlimited_bytes; /* its peak of reserved bytes where memory has no end; above capacity_bytes it fits only
                                 because the allocator gives cached segments back and asks anew */
};

enum { MT_FIT_UNIT = 2 << 20 };

/* A change to a run that lowers its memory, from the cheapest for who trains to the dearest. */
typedef enum mt_fit_change {
    MT_CHANGE_ZERO_GRAD, /* before-forward */
    MT_CHANGE_ALLOC,     /* policy=tight */
    MT_CHANGE_AUTOCAST,  /* the other one: bf16, or off, where the casts of the weights cost more than they save */
    MT_CHANGE_ATTENTION, /* flash, where heads are of a size for it */
    MT_CHANGE_BATCH,     /* smaller */
    MT_CHANGE_SEQ,       /* shorter */
    MT_CHANGE_COUNT
} mt_fit_change;

/* Which of them. */
struct mt_fit_changes {
    bool has[MT_CHANGE_COUNT];
};

/* One or several changes, and what the run would need with them. */
struct mt_fit_remedy {
    struct mt_fit_changes changes;
    struct mt_run_plan plan; /* with the changes: of the dearest, if that is a size, the largest that fits, else 1 */
    struct mt_fit fit;
};

enum { MT_MOST_COMBINED = 2 };

/* All that `fit` tells.
 * Invariants: if the run fits, there are no remedies; if a single one fits, nothing is combined. */
struct mt_fit_answer {
    struct mt_fit fit;
    struct mt_fit_remedy single[MT_CHANGE_COUNT]; /* those that are a change, cheapest first */
    size_t single_count;
    struct mt_fit_remedy
        combined[MT_MOST_COMBINED]; /* the cheapest pair that fits; or the two best, and all together */
    size_t combined_count;
    int64_t largest_batch, largest_seq; /* with the run as it is otherwise; 0: none */
    const char *largest_model;          /* of mt_model_names; NULL: none */
    const char *smallest_card;          /* of mt_device_cards, that the run as it is fits; NULL: none */
};

/* Finds the first part of it, how the run fits and what would make it fit, for a plan whose device is a simulated one
 * (simulation.h). Borrows the plan's texts. */
mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out);

/* The card with the least memory, of mt_device_cards and of several the first, that the run fits; NULL: none. */
mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, const char **out);

/* Finds all of it for a plan whose device is a simulated one (simulation.h). Borrows the plan's texts. */
mt_status mt_fit_find(const struct mt_run_plan *plan, struct mt_fit_answer *out);

/* The first remedy that fits, the least change; NULL if none does. */
const struct mt_fit_remedy *mt_fit_best_remedy(const struct mt_fit_answer *answer);

#endif
