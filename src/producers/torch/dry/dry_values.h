/* Values of small tensors, computed by PyTorch's kernels for the CPU, and what is assumed of those that large ones give.
 *
 *   all arguments and results small ──▶ computed if all arguments are known, or the results are very small; known if all
 *                                       arguments are
 *   otherwise ──▶ results are assumed (dry_assumed.h)
 *   shapes that depend on the values of large ones ──▶ these are assumed; for unique, all elements differ
 *
 * Each line of the program that reads a value which is not known is recorded. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

using torch::jit::Stack;

/* Notes that the values of a tensor on a card were computed, or that they are assumed. */
void mark(const at::Tensor &tensor, bool is_known);

/* Marks what a kernel that did not run may have written: the values are assumed from now on. */
void assume_written(const at::Tensor &tensor);

/* Gives what a call writes, and its results, values: computed if all have some, and else assumed. */
void give_values(const call &call, const Stack &results);

/* Makes what a call writes, and its results, unknown: none of its kernels runs. */
void assume_results(const call &call, const Stack &results);

/* Runs an operator whose results' shapes depend on values: the CPU's kernel, on assumed values where there are none. Returns the
 * results, in blocks that are allocated as the table of operators says. */
Stack run_by_values(const call &call);

/* Copies values, or what is assumed of them. */
void copy_values(const at::Tensor &to, const at::Tensor &from);

/* Of _local_scalar_dense: returns the value of a tensor of one element. */
at::Scalar item(const at::Tensor &tensor);

/* Of equal. */
bool are_equal(const at::Tensor &one, const at::Tensor &other);

/* Of GradScaler: scales gradients. Those that were not computed count as finite, whatever was assumed for them. */
void unscale(at::TensorList gradients, at::Tensor &found_infinite, const at::Tensor &factor);

} // namespace mt_dry
