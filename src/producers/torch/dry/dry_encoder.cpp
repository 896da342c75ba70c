/* Attention inside of nn.TransformerEncoderLayer and nn.MultiheadAttention in evaluation: one operator that calls others.
 * Source: aten/src/ATen/native/transformers/cuda/attention.cu and attention.cpp.
 *
 * B texts of T tokens, D features, H heads of D / H features each. */
#include "producers/torch/dry/dry_attention.h"
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_own.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_masked_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_transform_bias_rescale_qkv.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
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

/* ---- attention ---- */

/* (B, T, D) as (B, H, T, D / H). */
Tensor by_heads(const Tensor &tokens, int64_t heads)
{
    return tokens.view({tokens.size(0), -1, heads, tokens.size(2) / heads}).transpose(1, 2);
}

/* True if a fused kernel takes the attention. None takes a mask of padding, (B, T). */
bool is_fused(const Tensor &tokens, int64_t heads, const optional_tensor &mask)
{
    const Tensor split = by_heads(tokens, heads);
    const int64_t T = tokens.size(1);
    if (mask.has_value() && mask->defined() && !at::is_expandable_to(mask->sizes(), {split.size(0), heads, T, T}))
        return false;
    const auto kernel =
        static_cast<at::SDPBackend>(choose_attention(split, split, split, mask, 0.0, false, std::nullopt, false));
    return kernel != at::SDPBackend::math && kernel != at::SDPBackend::error;
}

Tensor attend_fused(const Tensor &tokens, int64_t heads, const Tensor &weight, const Tensor &bias,
                    const optional_tensor &mask)
{
    const std::vector<Tensor> parts = at::linear(tokens, weight, bias).chunk(3, -1);
    const Tensor attended = at::scaled_dot_product_attention(by_heads(parts[0], heads), by_heads(parts[1], heads),
                                                             by_heads(parts[2], heads), mask);
    return attended.transpose(1, 2).reshape({tokens.size(0), -1, tokens.size(2)});
}

/* Returns query, key and value, (B, T, 3 D), without biases. */
Tensor project(const Tensor &query, const Tensor &key, const Tensor &value, const Tensor &weight)
{
    if (query.is_same(key) && key.is_same(value))
        return at::linear(query, weight);
    const std::vector<Tensor> weights = weight.chunk(3, 0);
    return at::cat({at::linear(query, weights[0]), at::linear(key, weights[1]), at::linear(value, weights[2])}, 2);
}

Tensor softmax_of(const Tensor &scores, const optional_tensor &mask, std::optional<int64_t> mask_type)
{
    if (!mask.has_value() || !mask->defined())
        return at::_softmax(scores, scores.dim() - 1, false);
    return at::_masked_softmax(scores, mask->to(at::kBool), scores.dim() - 1, mask_type);
}

/* Returns what the heads attend to, (B, T, D), and the weights, (B, H, T, T). */
two_tensors attend(const Tensor &query, const Tensor &key, const Tensor &value, int64_t heads, const Tensor &weight,
                   const Tensor &bias, const optional_tensor &mask, std::optional<int64_t> mask_type)
{
    auto [q, k, v] = at::_transform_bias_rescale_qkv(project(query, key, value, weight), bias, heads);
    const auto rows = [](const Tensor &split) { return split.reshape({-1, split.size(2), split.size(3)}); };
    Tensor scores = at::bmm(rows(q), rows(k).transpose(1, 2)).view({q.size(0), heads, q.size(2), k.size(2)});
    scores = softmax_of(scores, mask, mask_type);
    Tensor attended = rows(q); /* the result takes the memory of the query */
    at::bmm_out(attended, rows(scores), rows(v));
    return {q.transpose(1, 2).reshape({query.size(0), -1, query.size(2)}), scores};
}

two_tensors attention(const Tensor &query, const Tensor &key, const Tensor &value, int64_t features, int64_t heads,
                      const Tensor &weight, const Tensor &bias, const Tensor &out_weight, const Tensor &out_bias,
                      const optional_tensor &mask, bool needs_weights, bool needs_mean,
                      std::optional<int64_t> mask_type)
{
    const bool is_of_itself = query.is_same(key) && key.is_same(value);
    if (is_of_itself && features / heads % 8 == 0 && !needs_weights && is_fused(query, heads, mask))
        return {at::linear(attend_fused(query, heads, weight, bias, mask), out_weight, out_bias), Tensor()};
    auto [attended, weights] = attend(query, key, value, heads, weight, bias, mask, mask_type);
    if (!needs_weights)
        weights = Tensor();
    const Tensor projected = at::linear(attended, out_weight, out_bias);
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
}

} // namespace mt_dry
