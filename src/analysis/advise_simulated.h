/* The effect of settings that hints name, by simulation of the whole run: with them a run makes other requests, so no replay
 * of its events could tell. Only a run of our own model can be made again. */
#ifndef MT_ANALYSIS_ADVISE_SIMULATED_H
#define MT_ANALYSIS_ADVISE_SIMULATED_H

#include "analysis/advise.h"
#include "analysis/fit.h"
#include "analysis/simulation.h"

/* A run with an option. */
struct mt_simulated_option {
    struct mt_fit_remedy remedy; /* its fit is not filled in */
    struct mt_simulation simulation;
};

enum { MT_MOST_SIMULATED_OPTIONS = 3 };

/* Invariant: if count is 0, as_it_is was not simulated. Owns no memory. */
struct mt_simulated_advice {
    char device[MT_BYTES_TEXT];    /* of all simulations; the plans borrow it, so it is not to be copied */
    struct mt_simulation as_it_is; /* the others are compared with it */
    /* Of an eager run, the fused implementation, which the others need, comes first. */
    struct mt_simulated_option options[MT_MOST_SIMULATED_OPTIONS];
    size_t count;
};

/* Simulates the settings that the hints of `advice` name, on a device of the run's capacity. Returns MT_OK and no option for
 * a run that can't be made again. Plans borrow the trace's texts and out->device. */
mt_status mt_simulated_advice_load(const struct mt_question *question, const struct mt_advice *advice,
                                   struct mt_simulated_advice *out);

#endif
