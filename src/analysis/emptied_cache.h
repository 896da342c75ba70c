/* The moments at which a program emptied its allocator's cache, as torch.cuda.empty_cache() does. */
#pragma once

#include "analysis/advise/advise.h"

/* Returns the positions of these moments in the window, ascending. The caller frees them.
 *
 * Memory that the allocator unmaps for a request that the device refused, or by its own threshold, does not count: with
 * other requests the allocator may keep it. */
int64_t *mt_emptied_cache_find(const struct mt_advice_input *input, size_t *out_count);
