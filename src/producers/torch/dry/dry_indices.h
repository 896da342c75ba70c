/* Indices out of range, and none. On a card, kernels assert that indices are in range, which ends the program. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

/* Fails with c10::IndexError if an index or a class of the call is known and out of range. */
void check_indices(const call &call);

/* True if the call adds to or reduces rows, and there are no indices. PyTorch's meta function looks at the first row, and
 * fails. */
bool adds_no_rows(const call &call);

/* Returns the result of such a call: the tensor itself, or a copy. */
Tensor add_no_rows(const call &call);

} // namespace mt_dry
