/* Values of small tensors, computed by PyTorch's CPU kernels, and assumptions for values that come from large tensors.
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

/* Records whether the values of a tensor on a card were computed or are assumed. */
void mark(const at::Tensor &tensor, bool is_known);

/* Makes a tensor's values unknown, since a kernel that did not run may have written them. */
void assume_written(const at::Tensor &tensor);

/* Sets the values of results and written arguments: computed if all tensors have values, otherwise assumed. */
void give_values(const call &call, const Stack &results);

/* Makes results and written arguments unknown. No kernel runs. */
void assume_results(const call &call, const Stack &results);

/* Runs an operator whose results' shapes depend on values, by the CPU's kernel; values that are missing are assumed.
 * Returns the results, in blocks that are allocated as the table of operators lists them. */
Stack run_by_values(const call &call);

/* Copies values, or the assumption about them. */
void copy_values(const at::Tensor &to, const at::Tensor &from);

/* For _local_scalar_dense: returns the value of a tensor of one element. */
at::Scalar item(const at::Tensor &tensor);

/* For equal. */
bool are_equal(const at::Tensor &one, const at::Tensor &other);

/* For GradScaler: scales gradients. Gradients that were not computed count as finite, whatever was assumed for them. */
void unscale(at::TensorList gradients, at::Tensor &found_infinite, const at::Tensor &factor);

} // namespace mt_dry
