/* Observations about loops that leave memory behind in each iteration, and what hooks measured on the way: memory on other
 * cards, and needless gradients. */
#pragma once

#include "analysis/advise/observed.h"

/* Adds them. The holders in `out` are read already. */
mt_status mt_observations_add_growths(const struct mt_question *question, struct mt_observations *out);

/* Returns the change for a loop that keeps autograd graphs. */
mt_observed_change mt_graphs_change(const char *phase, const struct mt_holder_row *holder);
