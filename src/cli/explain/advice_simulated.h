/* Printing of the simulated effect of options that advice names. */
#ifndef MT_CLI_ADVICE_SIMULATED_H
#define MT_CLI_ADVICE_SIMULATED_H

#include "analysis/advise_simulated.h"

#include <jansson.h>

/* Print it: nothing if there is nothing; as the members "simulated" and "simulated_as_it_is" of an answer. */
void mt_simulated_advice_print(const struct mt_simulated_advice *simulated);
void mt_simulated_advice_add_json(const struct mt_simulated_advice *simulated, json_t *object);

#endif
