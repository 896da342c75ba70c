/* Observations about what a forward pass allocates in vain: copies of autocast (observed_casts.h), and graphs that no
 * backward reads. */
#pragma once

#include "analysis/advise/observed.h"

/* Adds them. Those found before are in `out`. */
mt_status mt_observations_add_forward(const struct mt_question *question, struct mt_observations *out);
