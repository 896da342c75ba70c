/* Operators of well-known libraries that have no fake kernel to describe their results.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

/* Returns the results of a call in place of the operator's kernel. Their scratch memory is not included. */
using known_kernel = torch::jit::Stack (*)(const call &call);

/* Returns the function for an operator; nullptr if it is not known. */
known_kernel find_known_kernel(const c10::OperatorHandle &op);

} // namespace mt_dry
