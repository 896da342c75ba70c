/* Finds the observations about a run. Threads: one at a time. */
#pragma once

#include "analysis/advise/observed.h"

/* Reads a run's observations. Release them in any case. */
mt_status mt_observations_load(const struct mt_question *question, struct mt_observations *out);
