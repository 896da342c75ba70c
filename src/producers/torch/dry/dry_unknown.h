/* Tensors on the host whose values depend on values that were not computed, and weights that were not written yet. Both
 * have the dispatch key DeferredInit, so every operator with such an argument first reaches the fallback of this key
 * (dry_weights.cpp).
 *
 *   a copy from the card ──▶ large: nothing is written until the host reads it
 *                       └──▶ else: assumed values
 *   any operator on the host ──▶ runs, and its results are assumed, as on the card; unknown in any case
 *   back to the card         ──▶ unknown there
 *
 * A storage is unknown, not a tensor. Memory that PyTorch did not allocate, such as NumPy's, always counts as known. A
 * view that was made before its storage became unknown does not reach the fallback, so it reads as known.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/dry/dry_assumed.h"

namespace mt_dry
{

constexpr c10::DispatchKey HOST_KEY = c10::DispatchKey::DeferredInit;

/* Add the key to a tensor, and remove it. */
void add_key(c10::TensorImpl *tensor);
void remove_key(c10::TensorImpl *tensor);

/* Records that values were written into a tensor on the host, and whether they were computed. */
void mark_on_host(const at::Tensor &tensor, bool is_known);

/* Makes the values of a tensor on the host unknown. The memory of a large one is not written if others can see it. */
void assume_on_host(const at::Tensor &tensor, const filled &with);

/* True if a call gets unknown tensors on the host, except for one whose values it replaces. */
bool has_unknown(const called &call, bool replaces_first);

/* Makes the results and written arguments of a call that has run unknown. Records values that leave tensors. */
void make_results_unknown(const called &call, torch::jit::Stack *results);

} // namespace mt_dry
