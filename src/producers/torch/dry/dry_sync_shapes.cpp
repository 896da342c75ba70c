/* Shapes of the operators behind SyncBatchNorm, which PyTorch has for CUDA alone:
 * aten/src/ATen/native/cuda/Normalization.cuh. C is the number of channels. */
#include "producers/torch/dry/dry_device.h"

#include <ATen/AccumulateType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace mt_dry
{

using at::Tensor;
using optional_tensor = std::optional<Tensor>;
using two_tensors = std::tuple<Tensor, Tensor>;
using four_tensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

namespace
{

/* Returns (C), one number for each channel: float32 or wider. */
Tensor statistic_of(const Tensor &input)
{
    return at::empty({input.size(1)}, input.options().dtype(at::toAccumulateType(input.scalar_type(), true)));
}

two_tensors statistics(const Tensor &input, double)
{
    return {statistic_of(input), statistic_of(input)};
}

two_tensors update(const Tensor &input, const optional_tensor &, const optional_tensor &, double)
{
    return {statistic_of(input), statistic_of(input)};
}

two_tensors gather(const Tensor &input, const Tensor &, const Tensor &, const optional_tensor &,
                   const optional_tensor &, double, double, const Tensor &)
{
    return {statistic_of(input), statistic_of(input)};
}

two_tensors gather_equal(const Tensor &input, const Tensor &, const Tensor &, const optional_tensor &,
                         const optional_tensor &, double, double, int64_t)
{
    return {statistic_of(input), statistic_of(input)};
}

Tensor normalize(const Tensor &input, const optional_tensor &, const optional_tensor &, const Tensor &, const Tensor &,
                 double)
{
    return at::empty_like(input, input.suggest_memory_format());
}

/* Returns the two sums over the rows, and the gradients of weight and bias: each only if it is needed. */
four_tensors reduce_gradients(const Tensor &, const Tensor &, const Tensor &mean, const Tensor &,
                              const optional_tensor &weight, bool of_input, bool of_weight, bool of_bias)
{
    const auto sum = [&] { return of_input ? at::empty_like(mean) : Tensor(); };
    const auto gradient = [&](bool is_needed) {
        return is_needed && weight.has_value() && weight->defined() ? at::empty({mean.size(0)}, weight->options())
                                                                    : Tensor();
    };
    return {sum(), sum(), gradient(of_weight), gradient(of_bias)};
}

Tensor gradient_of_input(const Tensor &, const Tensor &input, const Tensor &, const Tensor &, const optional_tensor &,
                         const Tensor &, const Tensor &, const Tensor &)
{
    return at::empty_like(input, input.suggest_memory_format());
}

} // namespace

void register_sync_shapes()
{
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta.impl("batch_norm_stats", &statistics);
    meta.impl("batch_norm_update_stats", &update);
    meta.impl("batch_norm_gather_stats", &gather_equal);
    meta.impl("batch_norm_gather_stats_with_counts", &gather);
    meta.impl("batch_norm_elemt", &normalize);
    meta.impl("batch_norm_backward_reduce", &reduce_gradients);
    meta.impl("batch_norm_backward_elemt", &gradient_of_input);
}

} // namespace mt_dry
