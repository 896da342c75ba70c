/* Operators of other libraries on a card ("custom operators").
 *
 * An operator that is defined outside PyTorch gets a kernel of ours for the key BackendSelect, which the dispatcher
 * calls before the kernel of any device. So it does not matter how or when other kernels for CUDA are registered.
 *
 *   call ──▶ BackendSelect ──▶ not on a card, a body in Python, or made of other operators: runs as it is
 *                          └─▶ a CUDA kernel: shapes from the fake kernel, unknown values, scratch memory from the table
 *
 * Threads: any. */
#pragma once

namespace mt_dry
{

/* Follows operators that are defined from now on. Namespaces that have operators now are PyTorch's. */
void follow_custom_operators();

} // namespace mt_dry
