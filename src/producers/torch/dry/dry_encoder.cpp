/* Attention inside of nn.TransformerEncoderLayer and nn.MultiheadAttention in evaluation: one operator that calls
 * others.
 * Source: aten/src/ATen/native/transformers/cuda/attention.cu and attention.cpp.
 *
 * B texts of T tokens, D features, H heads of D / H features each; or nested tensors of such texts (dry_nested.cpp). */
#include "producers/torch/dry/dry_attention.h"
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_layouts.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_transform_bias_rescale_qkv.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/SDPBackend.h>
#include <torch/library.h>

namespace mt_dry
{

using at::Tensor;
using optional_tensor = std::optional<Tensor>;
using two_tensors = std::tuple<Tensor, Tensor>;
using three_tensors = std::tuple<Tensor, Tensor, Tensor>;

namespace
{

/* ---- shapes: aten/src/ATen/native/transformers/cuda/attention.cu, cuda/SoftMax.cu ---- */

/* Returns query, key and value, (B, H, T, D / H) each, of one block. */
three_tensors split_heads(const Tensor &packed, const Tensor &, int64_t heads)
{
    const int64_t features = packed.size(2) / 3;
    const Tensor all = at::empty({3, packed.size(0), heads, packed.size(1), features / heads}, packed.options());
    return {all.select(0, 0), all.select(0, 1), all.select(0, 2)};
}

Tensor masked_softmax(const Tensor &scores, const Tensor &, std::optional<int64_t>, std::optional<int64_t>)
{
    return at::empty_like(scores, at::MemoryFormat::Contiguous);
}

/* ---- attention: PyTorch's own functions, called as CUDA's code calls them ---- */

/* (B, T, D) as (B, H, T, D / H). */
Tensor by_heads(const Tensor &tokens, int64_t features, int64_t heads)
{
    return tokens.view({tokens.size(0), -1, heads, features / heads}).transpose(1, 2);
}

/* True if a fused kernel takes the attention. None takes a mask of padding, (B, T), or a nested tensor with a text of
 * one token. */
bool is_fused(const Tensor &tokens, int64_t features, int64_t heads, const optional_tensor &mask)
{
    if (mask.has_value() || features / heads % 8 != 0)
        return false;
    const Tensor split = by_heads(tokens, features, heads);
    if (split.is_nested() && has_text_shorter_than(split, 2))
        return false;
    const auto kernel =
        static_cast<at::SDPBackend>(choose_attention(split, split, split, mask, 0.0, false, std::nullopt, false));
    return kernel != at::SDPBackend::math && kernel != at::SDPBackend::error;
}

/* Its allocations live until it returns, as on a card. */
Tensor attend_fused(const Tensor &tokens, int64_t features, int64_t heads, const Tensor &weight, const Tensor &bias,
                    const Tensor &out_weight, const Tensor &out_bias)
{
    const std::vector<Tensor> parts = at::linear(tokens, weight, bias).chunk(3, -1);
    const Tensor attended = at::scaled_dot_product_attention(
        by_heads(parts[0], features, heads), by_heads(parts[1], features, heads), by_heads(parts[2], features, heads));
    const Tensor merged = attended.transpose(1, 2).reshape({tokens.size(0), -1, features});
    return at::linear(merged, out_weight, out_bias);
}

two_tensors attention(const Tensor &query, const Tensor &key, const Tensor &value, int64_t features, int64_t heads,
                      const Tensor &weight, const Tensor &bias, const Tensor &out_weight, const Tensor &out_bias,
                      const optional_tensor &mask, bool needs_weights, bool needs_mean,
                      std::optional<int64_t> mask_type)
{
    const bool is_of_itself = query.is_same(key) && key.is_same(value);
    if (is_of_itself && !needs_weights && is_fused(query, features, heads, mask))
        return {attend_fused(query, features, heads, weight, bias, out_weight, out_bias), Tensor()};
    Tensor packed = at::native::qkv_projection(query, key, value, features, weight);
    auto [q, k, v] = at::_transform_bias_rescale_qkv(packed, bias, heads);
    packed.reset();
    Tensor weights = at::native::bmm_nt(q, k);
    weights = at::native::masked_softmax(weights, mask, query, mask_type);
    const Tensor attended = at::native::bmm_nn(q, weights, v); /* in the memory of the query */
    if (!needs_weights)
        weights.reset();
    const Tensor projected = at::native::transform0213_gemm_nt_bias(attended, out_weight, out_bias, query);
    return {projected, needs_weights && needs_mean ? weights.sum(1).div_(heads) : weights};
}

} // namespace

void register_encoder()
{
    const silent_registration silent;
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    meta.impl("_transform_bias_rescale_qkv", &split_heads);
    meta.impl("_masked_softmax", &masked_softmax);
    register_own(aten, "_native_multi_head_attention", &attention);
    nested_kernels().add("_native_multi_head_attention", &attention);
}

} // namespace mt_dry
