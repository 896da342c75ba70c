/* What was reserved and held no block when most was reserved; for this folder only. */
#ifndef MT_WHATIF_FRAGMENTATION_H
#define MT_WHATIF_FRAGMENTATION_H

#include "analysis/advice.h"

/* Zeros where nothing was reserved in the window. */
struct mt_fragmentation mt_fragmentation_find(const struct mt_advice_input *input);

#endif
