/* Parts of the kernel that serves every operator (dry_kernels.cpp), also for operators of other libraries. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

using torch::jit::Stack;

/* Allocates the results that a meta kernel returned for twins, and the scratch memory of the call. Returns them without
 * values. */
Stack place_results(const call &call, twins *shapes, Stack results);

} // namespace mt_dry
