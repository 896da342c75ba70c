/* Observations about the copies in half precision that autocast makes: they outweigh what it saves, or its cache keeps
 * them. */
#pragma once

#include "analysis/advise/observed_sums.h"

/* Adds them for the step of the allocated peak. `moment` has the labels only. */
mt_status mt_observations_add_casts(const struct mt_question *question, const struct mt_peak_row *peak,
                                    struct mt_moment_blocks moment, struct mt_observations *out);
