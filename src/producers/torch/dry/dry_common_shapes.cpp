/* Shapes of common operators whose meta function is only in Python, which takes a hundred times as long. Each function
 * returns the same results as the operator's CUDA kernel, whose file in aten/src/ATen/native is named above it. */
#include "producers/torch/dry/dry_device.h"

#include <ATen/AccumulateType.h>
#include <ATen/native/layer_norm.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>

namespace mt_dry
{

using at::IntArrayRef;
using at::Tensor;
using c10::SymIntArrayRef;
using optional_tensor = std::optional<Tensor>;
using two_tensors = std::tuple<Tensor, Tensor>;
using three_tensors = std::tuple<Tensor, Tensor, Tensor>;

namespace
{

Tensor contiguous_like(const Tensor &tensor)
{
    return at::empty_like(tensor, at::MemoryFormat::Contiguous);
}

/* Returns a gradient, if it is needed. */
Tensor gradient_like(const Tensor &tensor, bool is_needed)
{
    return is_needed && tensor.defined() ? contiguous_like(tensor) : Tensor();
}

Tensor gradient_like(const optional_tensor &tensor, bool is_needed)
{
    return tensor.has_value() ? gradient_like(*tensor, is_needed) : Tensor();
}

/* ---- normalization: cuda/layer_norm_kernel.cu, group_norm.cpp ---- */

/* Returns a statistic of the leading dimensions of a layer's input, one number for each row: float32 or wider. */
Tensor statistic_of_rows(const Tensor &input, size_t normalized_dims)
{
    const auto leading = static_cast<int64_t>(input.dim()) - static_cast<int64_t>(normalized_dims);
    std::vector<int64_t> sizes = input.sizes().vec();
    std::fill(sizes.begin() + leading, sizes.end(), 1);
    return at::empty(sizes, input.options().dtype(at::toAccumulateType(input.scalar_type(), true)));
}

three_tensors layer_norm(const Tensor &input, SymIntArrayRef normalized, const optional_tensor &weight,
                         const optional_tensor &bias, double)
{
    at::native::_check_layer_norm_inputs(input, C10_AS_INTARRAYREF_SLOW(normalized), weight.value_or(Tensor()),
                                         bias.value_or(Tensor()));
    return {contiguous_like(input), statistic_of_rows(input, normalized.size()),
            statistic_of_rows(input, normalized.size())};
}

three_tensors layer_norm_backward(const Tensor &, const Tensor &input, SymIntArrayRef, const Tensor &, const Tensor &,
                                  const optional_tensor &weight, const optional_tensor &bias,
                                  std::array<bool, 3> needed)
{
    return {gradient_like(input, needed[0]), gradient_like(weight, needed[1]), gradient_like(bias, needed[2])};
}

two_tensors rms_norm(const Tensor &input, IntArrayRef normalized, const optional_tensor &, std::optional<double>)
{
    return {contiguous_like(input), statistic_of_rows(input, normalized.size())};
}

two_tensors rms_norm_backward(const Tensor &, const Tensor &input, IntArrayRef, const Tensor &,
                              const optional_tensor &weight, std::array<bool, 2> needed)
{
    return {gradient_like(input, needed[0]), gradient_like(weight, needed[1])};
}

/* Statistics are float32 if the input is narrower than the weight. */
three_tensors group_norm(const Tensor &input, const optional_tensor &weight, const optional_tensor &, c10::SymInt N,
                         c10::SymInt, c10::SymInt, int64_t groups, double)
{
    const bool is_mixed = weight.has_value() && weight->defined() && weight->scalar_type() != input.scalar_type();
    const auto type = is_mixed ? at::toOpMathType(input.scalar_type()) : input.scalar_type();
    const auto statistic = [&] { return at::empty({N.expect_int(), groups}, input.options().dtype(type)); };
    return {contiguous_like(input), statistic(), statistic()};
}

/* The bias has as many elements as the weight. */
three_tensors group_norm_backward(const Tensor &, const Tensor &input, const Tensor &, const Tensor &,
                                  const optional_tensor &weight, c10::SymInt, c10::SymInt, c10::SymInt, int64_t,
                                  std::array<bool, 3> needed)
{
    return {gradient_like(input, needed[0]), gradient_like(weight, needed[1]), gradient_like(weight, needed[2])};
}

/* ---- elementwise: cuda/Dropout.cu, TensorCompare.cpp, Activation.cpp ---- */

two_tensors dropout(const Tensor &input, double, std::optional<bool>)
{
    return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

Tensor dropout_backward(const Tensor &gradient, const Tensor &, double)
{
    return at::empty_like(gradient, gradient.suggest_memory_format());
}

/* The buffer is the host's. */
two_tensors log_sigmoid(const Tensor &input)
{
    return {at::empty_like(input), at::empty({0}, input.options())};
}

/* A tensor of one element may be on the host. */
Tensor &choose_out(const Tensor &condition, const Tensor &one, const Tensor &other, Tensor &out)
{
    at::TensorIteratorConfig()
        .check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .add_output(out)
        .add_const_input(condition)
        .add_const_input(one)
        .add_const_input(other)
        .build();
    return out;
}

Tensor choose(const Tensor &condition, const Tensor &one, const Tensor &other)
{
    Tensor made = at::empty({0}, at::TensorOptions(at::result_type(one, other)).device(at::kMeta));
    return choose_out(condition, one, other, made);
}

Tensor relu(const Tensor &input)
{
    return at::clamp_min(input, 0);
}

Tensor &relu_in_place(Tensor &input)
{
    return at::clamp_min_(input, 0);
}

/* ---- rows by index: cuda/Indexing.cu, cuda/Embedding.cu ---- */

Tensor select_rows(const Tensor &input, int64_t dim, const Tensor &index)
{
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
    std::vector<int64_t> sizes = input.sizes().vec();
    const int64_t wrapped = at::maybe_wrap_dim(dim, input.dim());
    if (!sizes.empty())
        sizes[wrapped] = index.numel();
    return at::empty(sizes, input.options());
}

Tensor embedding_backward(const Tensor &gradient, const Tensor &, c10::SymInt rows, c10::SymInt, bool)
{
    return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

} // namespace

void register_common_shapes()
{
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    const auto add = [](const char *name, auto function) {
        try {
            meta.impl(name, function);
        } catch (const c10::Error &) {
            /* This PyTorch has the operator with other arguments: Python's function stays. */
        }
    };
    add("native_layer_norm", &layer_norm);
    add("native_layer_norm_backward", &layer_norm_backward);
    add("_fused_rms_norm", &rms_norm);
    add("_fused_rms_norm_backward", &rms_norm_backward);
    add("native_group_norm", &group_norm);
    add("native_group_norm_backward", &group_norm_backward);
    add("native_dropout", &dropout);
    add("native_dropout_backward", &dropout_backward);
    add("log_sigmoid_forward", &log_sigmoid);
    add("where.self", &choose);
    add("where.self_out", &choose_out);
    add("relu", &relu);
    add("relu_", &relu_in_place);
    add("index_select", &select_rows);
    add("embedding_dense_backward", &embedding_backward);
}

} // namespace mt_dry
