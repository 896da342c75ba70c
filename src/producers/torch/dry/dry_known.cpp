#include "producers/torch/dry/dry_known.h"

#include "producers/torch/dry/dry_values.h"

#include <ATen/ops/empty.h>

#include <string>
#include <unordered_map>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;

namespace
{

/* Returns the argument with a name; None if the operator has none. */
IValue argument(const call &call, const char *name)
{
    const auto place = call.op.schema().argumentIndexWithName(name);
    return place.has_value() ? call.arguments[*place] : IValue();
}

Tensor unknown(Tensor tensor)
{
    assume_written(tensor);
    return tensor;
}

/* Returns a tensor on the call's card over memory that it does not own, with the shape of another tensor. */
Tensor over_memory(const Tensor &shape, c10::DataPtr data)
{
    const auto storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), shape.storage().nbytes(), std::move(data), nullptr, false);
    Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), shape.dtype());
    made.unsafeGetTensorImpl()->set_storage_offset(shape.storage_offset());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides());
    return made;
}

void *address_of(const Tensor &tensor)
{
    return tensor.storage().unsafeGetStorageImpl()->mutable_data();
}

/* ---- vLLM: csrc/libtorch_stable/torch_bindings.cpp; flash-attention 3 and vLLM's copies of flash-attention ---- */

Stack weak_ref_tensor(const call &call)
{
    const Tensor input = call.arguments[0].toTensor();
    return {over_memory(input, {address_of(input), input.device()})};
}

/* The result uses the host's pinned memory, and none on the card. */
Stack view_of_host(const call &call)
{
    const Tensor on_host = call.arguments[0].toTensor();
    const auto release = [](void *kept) { delete static_cast<Tensor *>(kept); };
    return {over_memory(on_host, {address_of(on_host), new Tensor(on_host), release, call.device})};
}

/* Returns the argument "out". Without it, allocates the kernel's result: rows of queries, with the head size of the
 * values. */
Tensor attention_result(const call &call, const Tensor &query)
{
    const IValue given = argument(call, "out");
    if (given.isTensor() && given.toTensor().defined())
        return unknown(given.toTensor());
    std::vector<int64_t> sizes = query.sizes().vec();
    sizes.back() = argument(call, "v").toTensor().size(-1);
    const auto type = query.itemsize() == 1 ? at::kBFloat16 : query.scalar_type();
    return unknown(at::empty(sizes, query.options().dtype(type)));
}

/* Returns the log of the sum of each row: (H, rows), or (B, H, S) without a list of sequences. */
Tensor attention_sums(const Tensor &query)
{
    std::vector<int64_t> sizes = {query.size(-2), query.size(-3)};
    if (query.dim() > 3)
        sizes.insert(sizes.begin(), query.size(0));
    return unknown(at::empty(sizes, query.options().dtype(at::kFloat)));
}

Stack flash_attention_2(const call &call)
{
    const device_guard guard(call.device);
    const Tensor query = argument(call, "q").toTensor();
    return {c10::List<Tensor>({attention_result(call, query), attention_sums(query)})};
}

/* The last two are accumulators of split keys, which are undefined in C++ and empty here. */
Stack flash_attention_3(const call &call)
{
    const device_guard guard(call.device);
    const Tensor query = argument(call, "q").toTensor(), none = at::empty({0}, query.options().dtype(at::kFloat));
    return {c10::List<Tensor>({attention_result(call, query), attention_sums(query), none, none})};
}

/* Up to four numbers for each sequence, whose count is rounded up, and a counter. */
Stack schedule_of_attention(const call &call)
{
    constexpr int64_t UNIT = 4, NUMBERS = 4;
    const device_guard guard(call.device);
    const int64_t rows = (argument(call, "batch_size").toInt() + UNIT - 1) / UNIT * UNIT;
    return {unknown(at::empty({rows * NUMBERS + 1}, at::TensorOptions(call.device).dtype(at::kInt)))};
}

const std::unordered_map<std::string, known_kernel> kernels = {
    {"_C::weak_ref_tensor", &weak_ref_tensor},
    {"_C::get_cuda_view_from_cpu_tensor", &view_of_host},
    {"_vllm_fa2_C::varlen_fwd", &flash_attention_2},
    {"flash_attn_3::fwd", &flash_attention_3},
    {"flash_attn_3::get_scheduler_metadata", &schedule_of_attention},
    {"_vllm_fa3_C::fwd", &flash_attention_3},
    {"_vllm_fa3_C::get_scheduler_metadata", &schedule_of_attention},
};

} // namespace

known_kernel find_known_kernel(const c10::OperatorHandle &op)
{
    const auto found = kernels.find(op.operator_name().name);
    return found != kernels.end() ? found->second : nullptr;
}

} // namespace mt_dry
