/* The kernel of attention that a card chooses. */
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace mt_dry
{

/* Returns the number of an at::SDPBackend. It takes the arguments of scaled_dot_product_attention. */
int64_t choose_attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &mask, double dropout, bool is_causal,
                         std::optional<double> scale, bool is_grouped);

/* Returns a tensor without memory that has the shape of a padded nested tensor; a dense tensor itself. */
at::Tensor padded_shape(const at::Tensor &tensor);

/* True if a nested tensor (B, H, *, D) has a text of fewer tokens. */
bool has_text_shorter_than(const at::Tensor &heads, int64_t tokens);

} // namespace mt_dry
