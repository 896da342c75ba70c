/* What the blocks at the peak show of how a PyTorch program is set up, by their labels: weights that FSDP gathers all at once,
 * DDP's buckets next to gradients, a checkpointed segment over many layers, attention scores, copies of LoRA's dropout, lists of an optimizer. */
#pragma once

#include "analysis/advise/observed.h"

/* Adds the observations of which the blocks are a tenth of the allocated peak or more. */
mt_status mt_observations_add_peak(const struct mt_question *question, struct mt_observations *out);
