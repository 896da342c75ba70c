/* Indices out of range. On a card, kernels assert that indices are in range, which ends the program. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

/* Fails with c10::IndexError if an index or a class of the call is known and out of range. */
void check_indices(const call &call);

} // namespace mt_dry
