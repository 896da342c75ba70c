/* Tensors on the host whose values come from some that were not computed, and weights that were not written yet. Both have the
 * dispatch key DeferredInit, so every operator that gets one comes to the fallback of this key first (dry_weights.cpp).
 *
 *   a copy from the card ──▶ large: nothing is written until the host reads it
 *                       └──▶ else: assumed values
 *   any operator on the host ──▶ runs, and its results are assumed, as on the card; unknown in any case
 *   back to the card         ──▶ unknown there
 *
 * It is a property of the storage. Memory that is not PyTorch's own, as of NumPy, always counts as known. A view that was made before
 * its storage became unknown does not come to the fallback, so it reads as known.
 *
 * Threads: any. */
#pragma once

#include "producers/torch/dry/dry_assumed.h"

namespace mt_dry
{

constexpr c10::DispatchKey HOST_KEY = c10::DispatchKey::DeferredInit;

/* Give a tensor the key, and take it away. */
void add_key(c10::TensorImpl *tensor);
void remove_key(c10::TensorImpl *tensor);

/* Notes that values were written into a tensor on the host, and whether they were computed. */
void mark_on_host(const at::Tensor &tensor, bool is_known);

/* Makes the values of a tensor on the host unknown. A large one stays as it is if others can see its memory. */
void assume_on_host(const at::Tensor &tensor, const filled &with);

/* True if a call gets unknown tensors of the host, except for one whose values are replaced. */
bool has_unknown(const called &call, bool replaces_first);

/* Makes the results of such a call, which has run, and what it has written unknown. Values that leave tensors are noted. */
void make_results_unknown(const called &call, torch::jit::Stack *results);

} // namespace mt_dry
