/* Observations about a PyTorch program's setup, from the labels of the blocks at the peak: weights that FSDP gathers
 * all at once, DDP's buckets next to gradients, a checkpointed segment of many layers, attention scores, copies of
 * LoRA's dropout, foreach temporaries of an optimizer. */
#pragma once

#include "analysis/advise/observed.h"

/* Adds the observations whose blocks are at least a tenth of the allocated peak. */
mt_status mt_observations_add_peak(const struct mt_question *question, struct mt_observations *out);
