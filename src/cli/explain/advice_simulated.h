/* The effect of options that advice names, by simulation of the whole run: with them a run makes other requests, so no
 * replay of its events could tell. Only a run of `memtrace run` can be made again. */
#ifndef MT_CLI_ADVICE_SIMULATED_H
#define MT_CLI_ADVICE_SIMULATED_H

#include "analysis/advise.h"
#include "analysis/fit.h"
#include "cli/output/question.h"

/* A run with an option. */
struct mt_simulated_option {
    struct mt_fit_remedy remedy; /* its fit is not filled in */
    struct mt_simulation simulation;
};

enum { MT_MOST_SIMULATED_OPTIONS = 3 };

/* Invariant: without an option that is named there is nothing, and as_it_is was not simulated. Holds no memory. */
struct mt_simulated_advice {
    char device[MT_BYTES_TEXT];    /* that all were simulated on; the plans borrow it: not to be copied */
    struct mt_simulation as_it_is; /* what the others are compared with */
    struct mt_simulated_option options[MT_MOST_SIMULATED_OPTIONS]; /* of eager, first --impl fused, which others need */
    size_t count;
};

/* Simulates, on a device of the run's capacity, what the findings of `advice` name. MT_OK and nothing for a run that can't
 * be made again. Plans borrow the trace's texts and out->device. */
mt_status mt_simulated_advice_load(const struct mt_question *question, const struct mt_advice *advice,
                                   struct mt_simulated_advice *out);

/* Print it: nothing if there is nothing; as the members "simulated" and "simulated_as_it_is" of an answer. */
void mt_simulated_advice_print(const struct mt_simulated_advice *simulated);
void mt_simulated_advice_add_json(const struct mt_simulated_advice *simulated, json_t *object);

#endif
