/* Nested tensors on the card: B texts of different lengths, one after the other in a dense buffer. Their sizes are on
 * the host.
 *
 * Ours are what nn.TransformerEncoder uses in evaluation with a mask of padding. They allocate what the functions for
 * CUDA in aten/src/ATen/native/nested do. H is the number of heads, D the size of each. */
#include "producers/torch/dry/dry_assumed.h"
#include "producers/torch/dry/dry_attention.h"
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_dispatcher.h"
#include "producers/torch/dry/dry_layouts.h"
#include "producers/torch/dry/dry_values.h"
#include "producers/torch/torch_plan.h"

#include <ATen/native/nested/NestedTensorMath.h>
#include <ATen/native/nested/NestedTensorTransformerFunctions.h>
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_masked_softmax.h>
#include <ATen/ops/_nested_from_padded.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace mt_dry
{

using at::Tensor;
using at::native::get_nested_sizes;
using at::native::get_nested_tensor_impl;
using at::native::wrap_buffer;
using optional_tensor = std::optional<Tensor>;

namespace
{

/* ---- sizes ---- */

at::IntArrayRef sizes_of_text(const Tensor &sizes, int64_t text)
{
    const int64_t dims = sizes.size(1);
    return {sizes.const_data_ptr<int64_t>() + text * dims, static_cast<size_t>(dims)};
}

int64_t elements_of(const Tensor &sizes)
{
    int64_t elements = 0;
    for (int64_t text = 0; text < sizes.size(0); text++)
        elements += c10::multiply_integers(sizes_of_text(sizes, text));
    return elements;
}

/* Returns the sizes of the padded tensor: (B, the largest of each dimension). */
std::vector<int64_t> padded_sizes(const Tensor &nested)
{
    std::vector<int64_t> sizes = at::native::NestedTensor_get_max_size(*get_nested_tensor_impl(nested));
    sizes.insert(sizes.begin(), nested.size(0));
    return sizes;
}

/* Copies so many numbers to the card, for a kernel that reads sizes and offsets. */
Tensor copy_numbers(int64_t count, c10::ScalarType type, bool non_blocking)
{
    return at::zeros({count}, at::dtype(type)).to(c10::DeviceType::CUDA, at::kInt, non_blocking, true);
}

/* ---- from and to padded tensors ---- */

/* True if a kernel of CUDA's own leaves out padding. The others use PyTorch's function for every device. */
bool has_own_kernel(const Tensor &tensor)
{
    return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kHalf;
}

/* Selects the elements by a mask of all, as masked_select does: by the indices of its true elements. The scratch memory
 * in which nonzero finds them is unknown. */
Tensor select_by_mask(const Tensor &padded, const Tensor &sizes)
{
    const int64_t elements = elements_of(sizes);
    std::vector<Tensor> masks;
    for (int64_t text = 0; text < sizes.size(0); text++)
        masks.push_back(
            at::constant_pad_nd(at::full(sizes_of_text(sizes, text), true, padded.options().dtype(at::kBool)),
                                {0, 0, 0, padded.size(1) - sizes_of_text(sizes, text)[0]}));
    const Tensor mask = at::stack(masks);
    const Tensor indices = at::empty({elements, padded.dim()}, padded.options().dtype(at::kLong));
    memtrace_torch_count_unknown("aten::nonzero", indices.nbytes());
    return at::empty({elements}, padded.options());
}

/* Copies the elements with a kernel that reads sizes and offsets. */
Tensor select_by_sizes(const Tensor &padded, const Tensor &sizes)
{
    const Tensor buffer = at::empty({elements_of(sizes)}, padded.options());
    const Tensor numbers = copy_numbers(sizes.numel() + padded.dim() + sizes.size(0) + 1, at::kLong, true);
    return buffer;
}

Tensor from_padded(const Tensor &padded, const Tensor &sizes, bool swaps_heads)
{
    TORCH_CHECK(sizes.device().is_cpu(), "_nested_from_padded: the sizes are on ", sizes.device(), ", not on the host");
    const bool has_kernel = has_own_kernel(padded);
    const Tensor rows = swaps_heads && !has_kernel ? padded.permute({0, 2, 1, 3}).contiguous().flatten(2) : padded;
    const Tensor buffer = has_kernel ? select_by_sizes(rows, sizes) : select_by_mask(rows, sizes);
    assume_written(buffer);
    return wrap_buffer(buffer, sizes);
}

/* Keeps all tokens where the mask is not known. */
Tensor from_mask(const Tensor &tokens, const Tensor &mask, bool checks)
{
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_nested_tensor_from_mask", "");
    if (is_known(mask))
        return kernels_of::kernel(op, c10::DispatchKey::CPU)
            .call<Tensor, const Tensor &, const Tensor &, bool>(
                op.typed<Tensor(const Tensor &, const Tensor &, bool)>(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                tokens, mask, checks);
    note_assumption("_nested_tensor_from_mask (no padding)", 1);
    Tensor sizes = at::zeros({tokens.size(0), 2}, at::kLong);
    sizes.select(1, 0).fill_(tokens.size(1));
    sizes.select(1, 1).fill_(tokens.size(2));
    return at::_nested_from_padded(tokens, sizes);
}

/* Returns the sizes that a padded tensor is to have. Fails as PyTorch's kernel does if they are too small. */
std::vector<int64_t> sizes_of_padded(const Tensor &nested, at::OptionalSymIntArrayRef asked)
{
    const std::vector<int64_t> least = padded_sizes(nested);
    if (!asked.has_value())
        return least;
    const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(*asked);
    TORCH_CHECK(sizes.size() == least.size(), "Length of output_size does not match NestedTensor dims. Broadcasting is "
                                              "not supported.");
    for (size_t dim = 0; dim < least.size(); dim++)
        TORCH_CHECK(sizes[dim] >= least[dim], "Value in output_size is less than NestedTensor padded size. Truncation "
                                              "is not supported.");
    return sizes.vec();
}

Tensor to_padded(const Tensor &nested, double padding, at::OptionalSymIntArrayRef asked)
{
    TORCH_CHECK(nested.is_contiguous(), "for now to_padded_tensor only supports contiguous nested tensor");
    const std::vector<int64_t> sizes = sizes_of_padded(nested, asked);
    const bool has_kernel = has_own_kernel(nested) || nested.scalar_type() == at::kDouble;
    if (!has_kernel || nested.dim() > 4)
        return at::native::NestedTensor_to_padded_tensor_generic(
            nested, padding, asked.has_value() ? at::OptionalIntArrayRef(sizes) : std::nullopt);
    const Tensor padded = at::empty(sizes, at::native::get_buffer(nested).options());
    const int64_t texts = nested.size(0), dims = nested.dim() == 3 && !asked.has_value() ? 1 : nested.dim() - 1;
    const Tensor numbers = copy_numbers(texts + 1 + texts * dims, at::kLong, false);
    assume_written(padded);
    return padded;
}

/* ---- operators ---- */

/* A norm of the buffer's rows. */
std::tuple<Tensor, Tensor, Tensor> nested_layer_norm(const Tensor &nested, c10::SymIntArrayRef shape,
                                                     const optional_tensor &weight, const optional_tensor &bias,
                                                     double epsilon)
{
    TORCH_CHECK(weight.has_value() && bias.has_value(), "NestedTensor layer_norm requires weight and bias");
    const at::IntArrayRef normalized = C10_AS_INTARRAYREF_SLOW(shape);
    const Tensor rows = at::native::get_buffer(nested).view({-1, c10::multiply_integers(normalized)});
    auto [out, mean, scale] = at::native_layer_norm(rows, {rows.size(1)}, weight->flatten(), bias->flatten(), epsilon);
    return {wrap_buffer(out.view(-1), get_nested_sizes(nested)), mean.flatten(), scale.flatten()};
}

/* Returns query, key and value, padded to a multiple of 8 tokens, of one block. */
std::tuple<Tensor, Tensor, Tensor> split_nested_heads(const Tensor &packed, const Tensor &bias, int64_t heads)
{
    constexpr int64_t UNIT = 8;
    const int64_t texts = packed.size(0), tokens = (padded_sizes(packed)[1] + UNIT - 1) / UNIT * UNIT;
    const Tensor all = at::empty({3, texts, heads, tokens, bias.size(0) / 3 / heads}, bias.options());
    const Tensor numbers = copy_numbers(2 * texts + 1, at::kInt, true);
    assume_written(all);
    return {all.select(0, 0), all.select(0, 1), all.select(0, 2)};
}

/* Returns the mask (B, T) of the padding of texts, on the host. PyTorch's own function for it is not exported by
 * version 2.6. */
Tensor mask_of_padding(const Tensor &nested, int64_t tokens)
{
    const Tensor mask = at::ones({nested.size(0), tokens}, at::kBool);
    for (int64_t text = 0; text < nested.size(0); text++)
        mask.select(0, text)
            .narrow(0, 0, sizes_of_text(get_nested_tensor_impl(nested)->get_nested_sizes(), text)[0])
            .zero_();
    return mask;
}

/* A softmax of scores (B, H, T, T) of the texts of `query`. */
Tensor softmax_with_shape(const Tensor &scores, const Tensor &query)
{
    const Tensor mask = mask_of_padding(query, scores.size(2)).to(query.device(), true);
    return at::_masked_softmax(scores, mask, scores.dim() - 1, 1);
}

/* ---- attention ---- */

/* True if each text of (B, *, H, D) begins where the one before ends, with the same strides. */
bool is_in_a_row(const Tensor &rows)
{
    const auto *nested = get_nested_tensor_impl(rows);
    const int64_t *offsets = nested->get_storage_offsets().const_data_ptr<int64_t>();
    const at::IntArrayRef strides = sizes_of_text(nested->get_nested_strides(), 0);
    bool is_row = strides[0] > strides[1] && strides[1] > strides[2];
    for (int64_t text = 1; text < rows.size(0) && is_row; text++) {
        const int64_t tokens = sizes_of_text(nested->get_nested_sizes(), text - 1)[0];
        is_row = strides == sizes_of_text(nested->get_nested_strides(), text) &&
                 offsets[text] - offsets[text - 1] == tokens * strides[0];
    }
    return is_row;
}

/* Returns (B, *, H, D) as the kernels read it: (tokens of all texts, H, D). */
Tensor all_tokens(const Tensor &nested)
{
    const Tensor rows = is_in_a_row(nested) ? nested : nested.contiguous();
    const auto *impl = get_nested_tensor_impl(rows);
    const at::IntArrayRef strides = sizes_of_text(impl->get_nested_strides(), 0);
    const int64_t H = rows.size(2), D = rows.size(3);
    return impl->get_unsafe_storage_as_tensor().as_strided({elements_of(impl->get_nested_sizes()) / (H * D), H, D},
                                                           {strides[0], strides[1], 1},
                                                           impl->get_storage_offsets().const_data_ptr<int64_t>()[0]);
}

/* What a kernel for texts of different lengths reads. */
struct texts {
    Tensor query_ends, key_ends; /* on the card */
    Tensor query, key, value;
    Tensor sizes; /* of the result (B, *, H, D) */
    int64_t longest_query, longest_key;

    texts(const Tensor &q, const Tensor &k, const Tensor &v)
        : query_ends(copy_numbers(q.size(0) + 1, at::kInt, false)),
          key_ends(copy_numbers(k.size(0) + 1, at::kInt, false)), query(all_tokens(q.transpose(1, 2))),
          key(all_tokens(k.transpose(1, 2))), value(all_tokens(v.transpose(1, 2))),
          sizes(get_nested_sizes(q.transpose(1, 2)).clone()), longest_query(padded_sizes(q)[2]),
          longest_key(padded_sizes(k)[2])
    {
        TORCH_CHECK_NOT_IMPLEMENTED(q.size(0) == k.size(0) && q.size(1) == k.size(1) && q.size(3) == v.size(3),
                                    "memtrace: a dry run has no attention of nested tensors with other batch sizes, "
                                    "heads or head sizes than the query's: use dense ones");
    }

    /* Returns a result, (tokens of all texts, H, D), as (B, H, *, D). */
    Tensor nest(const Tensor &out) const
    {
        return wrap_buffer(out.view(-1), sizes).transpose(1, 2);
    }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> attend_efficient(const Tensor &query, const Tensor &key, const Tensor &value,
                                                            const optional_tensor &, bool needs_sums, double dropout,
                                                            bool is_causal, std::optional<double> scale)
{
    const texts all(query, key, value);
    auto [out, sums, seed, offset, longest_query, longest_key] = at::_efficient_attention_forward(
        all.query.unsqueeze(0), all.key.unsqueeze(0), all.value.unsqueeze(0), std::nullopt, all.query_ends,
        all.key_ends, all.longest_query, all.longest_key, dropout, is_causal ? 1 : 0, needs_sums, scale);
    return {all.nest(out), sums, seed, offset};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
attend_flash(const Tensor &query, const Tensor &key, const Tensor &value, double dropout, bool is_causal,
             bool needs_mask, std::optional<double> scale)
{
    const texts all(query, key, value);
    auto [out, sums, seed, offset, mask] =
        at::_flash_attention_forward(all.query, all.key, all.value, all.query_ends, all.key_ends, all.longest_query,
                                     all.longest_key, dropout, is_causal, needs_mask, scale);
    return {all.nest(out), sums, all.query_ends, all.key_ends, all.longest_query, all.longest_key, seed, offset, mask};
}

} // namespace

Tensor padded_shape(const Tensor &tensor)
{
    return tensor.is_nested() ? at::empty(padded_sizes(tensor), tensor.options().device(c10::DeviceType::Meta))
                              : tensor;
}

bool has_text_shorter_than(const Tensor &heads, int64_t tokens)
{
    const Tensor sizes = get_nested_sizes(heads);
    for (int64_t text = 0; text < sizes.size(0); text++)
        if (sizes_of_text(sizes, text)[1] < tokens)
            return true;
    return false;
}

void register_nested()
{
    const silent_registration silent;
    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    register_own(aten, "_nested_tensor_from_mask", &from_mask);
    register_own(aten, "_nested_from_padded", &from_padded);
    layout_kernels &kernels = nested_kernels();
    kernels.add("to_padded_tensor", &to_padded);
    kernels.add("native_layer_norm", &nested_layer_norm);
    kernels.add("_transform_bias_rescale_qkv", &split_nested_heads);
    kernels.add("_nested_tensor_softmax_with_shape", &softmax_with_shape);
    kernels.add("_scaled_dot_product_efficient_attention", &attend_efficient);
    kernels.add("_scaled_dot_product_flash_attention", &attend_flash);
}

} // namespace mt_dry
