/* Observations about tensors of the program's own code that are most of the peak: results of broadcasting, repeated
 * tensors, one-hot labels, logits of many classes, float64, and the results of one forward pass without gradients. */
#pragma once

#include "analysis/advise/observed_sums.h"

/* Adds them. `phase` is the phase at the allocated peak. Those found before are in `out`. */
mt_status mt_observations_add_tensors(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                      const char *phase, struct mt_observations *out);
