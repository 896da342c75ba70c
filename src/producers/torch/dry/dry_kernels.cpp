/* The kernels of the device: one that serves every operator, and a few that need their own.
 *
 *   call ──▶ the meta kernel on twins ──▶ shapes, strides, views ──▶ blocks for what is new ──▶ values (dry_values.h)
 */
#include "producers/torch/dry/dry_kernels.h"
#include "producers/torch/dry/dry_attention.h"
#include "producers/torch/dry/dry_capture.h"
#include "producers/torch/dry/dry_indices.h"
#include "producers/torch/dry/dry_inner.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_meta.h"
#include "producers/torch/dry/dry_own.h"
#include "producers/torch/dry/dry_values.h"

#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_plan.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/PythonDispatcherTLS.h>

namespace mt_dry
{

using at::Tensor;
using c10::Device;
using c10::IValue;
using c10::OperatorHandle;

namespace
{

/* ---- the kernel of every operator ---- */

/* True if the operator fills its first argument with random numbers. The shape does not change, and the meta kernels of
 * these operators are Python. */
bool fills_with_random(const OperatorHandle &op)
{
    const auto &arguments = op.schema().arguments();
    return op.hasTag(at::Tag::nondeterministic_seeded) && op.schema().returns().size() == 1 && !arguments.empty() &&
           arguments[0].alias_info() != nullptr && arguments[0].alias_info()->isWrite() && !arguments[0].is_out();
}

/* Returns zeros on the host instead of a result on the card. */
IValue on_host(const IValue &result)
{
    const Tensor &shape = result.toTensor();
    return at::zeros(shape.sizes(), shape.options().device(c10::DeviceType::CPU));
}

/* True if a result is the seed or the offset of random numbers that a captured kernel draws. They are on the card,
 * where a replay reads them (native/transformers/cuda/attention.cu). */
bool is_captured_seed(const IValue &result)
{
    return is_capturing() && result.toTensor().scalar_type() == c10::ScalarType::Long;
}

/* True if shapes of results depend on values. Those of index.Tensor do not, once its masks are replaced by indices. */
bool depends_on_values(const OperatorHandle &op)
{
    return op.hasTag(at::Tag::dynamic_output_shape) && op.operator_name().name != "aten::index";
}

/* Replaces masks among the indices of index and index_put by the indices of their true elements, as their CUDA kernels
 * do. */
void expand_masks(const OperatorHandle &op, std::vector<IValue> *arguments)
{
    const auto &inputs = op.schema().arguments();
    for (size_t i = 1; i < arguments->size(); i++) {
        if (inputs[i].name() != "indices" || !(*arguments)[i].isOptionalTensorList())
            continue;
        const auto given = (*arguments)[i].toOptionalTensorList();
        c10::List<std::optional<Tensor>> expanded;
        for (const Tensor &index : at::native::expandTensors((*arguments)[0].toTensor(), given))
            expanded.push_back(index.defined() ? std::optional<Tensor>(index) : std::nullopt);
        (*arguments)[i] = expanded;
    }
}

/* Fills self where a mask is true, if index_put has one mask and one value. Its CUDA kernel does the same and computes
 * no indices. Returns false for other calls. */
bool fill_by_mask(const OperatorHandle &op, const std::vector<IValue> &arguments)
{
    if (op.operator_name().name != "aten::_index_put_impl_" || arguments[3].toBool())
        return false;
    const Tensor self = arguments[0].toTensor(), value = arguments[2].toTensor();
    const auto [is_fill, mask] = at::native::canDispatchToMaskedFill(self, arguments[1].toOptionalTensorList(), value);
    if (is_fill)
        self.masked_fill_(mask, value.reshape({}));
    return is_fill;
}

/* Runs masked_select by indices, as its CUDA kernel does. Returns false for other calls. */
bool select_by_mask(const OperatorHandle &op, const std::vector<IValue> &arguments, Stack *stack)
{
    if (op.operator_name().name != "aten::masked_select" || !op.operator_name().overload_name.empty())
        return false;
    const auto [mask, self] = at::expand_outplace(arguments[1].toTensor(), arguments[0].toTensor(), "masked_select");
    stack->push_back(at::index(*self, {std::optional<Tensor>(*mask)}));
    return true;
}

Stack fill_with_random(const call &call)
{
    Stack results = {call.arguments[0]};
    give_values(call, results);
    return results;
}

Stack run_call(const call &call)
{
    if (call.op.hasTag(at::Tag::nondeterministic_seeded))
        take_generator_state();
    if (fills_with_random(call.op))
        return fill_with_random(call);
    if (depends_on_values(call.op))
        return run_by_values(call);
    twins shapes(c10::DeviceType::Meta);
    Stack results;
    try {
        const shapes_of_call compiled;
        results = call.run(shapes);
    } catch (const c10::NotImplementedError &) {
        return run_by_values(call);
    }
    results = place_results(call, &shapes, std::move(results));
    give_values(call, results);
    return results;
}

void run_operator(const OperatorHandle &op, c10::DispatchKeySet, Stack *stack)
{
    const c10::impl::DisablePythonDispatcher
        without; /* functions for shapes and values are no part of a traced graph */
    call call(op, *stack);
    stack->erase(stack->end() - static_cast<ptrdiff_t>(call.arguments.size()), stack->end());
    if (fill_by_mask(op, call.arguments)) {
        stack->push_back(call.arguments[0]);
        return;
    }
    if (select_by_mask(op, call.arguments, stack))
        return;
    expand_masks(op, &call.arguments);
    check_indices(call);
    if (adds_no_rows(call)) {
        stack->push_back(add_no_rows(call));
        return;
    }
    try {
        for (IValue &result : run_call(call))
            stack->push_back(std::move(result));
    } catch (c10::NotImplementedError &error) {
        error.add_context(c10::str("in ", op.operator_name()));
        throw;
    }
}

/* ---- operators with a kernel of their own ---- */

Tensor make_empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                  std::optional<Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format)
{
    const device_guard guard(card(device));
    const shape_of_next shape(c10::dtype_or_default(type), C10_AS_INTARRAYREF_SLOW(size));
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), allocator(),
                                     c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(type), format);
}

Tensor make_empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef strides, std::optional<c10::ScalarType> type,
                          std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool>)
{
    const device_guard guard(card(device));
    const shape_of_next shape(c10::dtype_or_default(type), C10_AS_INTARRAYREF_SLOW(size));
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides),
                                             allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                             c10::dtype_or_default(type));
}

/* True if one transfer copies all elements: both tensors have one dtype and one order, without gaps. */
bool is_one_transfer(const Tensor &to, const Tensor &from)
{
    const bool has_one_order = (to.is_contiguous() && from.is_contiguous()) ||
                               (to.strides() == from.strides() && to.is_non_overlapping_and_dense());
    return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && has_one_order;
}

/* Fails during a capture unless the host's memory is pinned and the copy is asynchronous. */
void check_capture(const Tensor &host, bool non_blocking)
{
    TORCH_CHECK(!is_capturing() || host.is_pinned(),
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.");
    if (!non_blocking)
        refuse_if_capturing();
}

/* Copies, with the temporaries of native/cuda/Copy.cu (copy_kernel_cuda). Dtypes are converted on the card if the copy
 * does not block, and otherwise on the host. */
Tensor &copy(Tensor &to, const Tensor &from, bool non_blocking)
{
    if (to.is_same(from))
        return to;
    const bool is_local = is_on_card(to) == is_on_card(from);
    if (!is_local)
        check_capture(is_on_card(to) ? from : to, non_blocking);
    if (is_local || is_one_transfer(to, from)) {
        copy_values(to, from);
        return to;
    }
    const auto type = is_on_card(from) == non_blocking ? to.scalar_type() : from.scalar_type();
    const Tensor target = to.is_contiguous() && to.scalar_type() == type
                              ? to
                              : at::empty_like(to, to.options().dtype(type), at::MemoryFormat::Contiguous);
    const Tensor source = from.to(type).expand_as(to).contiguous();
    copy_values(target, source);
    if (!target.is_same(to))
        to.copy_(target, non_blocking);
    return to;
}

/* Checks that the view is within the storage. The meta kernel does not. */
Tensor as_strided(const Tensor &self, c10::SymIntArrayRef size, c10::SymIntArrayRef strides,
                  std::optional<c10::SymInt> offset)
{
    return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides),
                                             offset.has_value() ? std::optional<int64_t>(offset->expect_int())
                                                                : std::nullopt);
}

/* As native/cuda/TensorShapeCUDA.cpp: grows a storage that is too small. */
Tensor &set_storage(Tensor &self, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                    c10::SymIntArrayRef strides)
{
    const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
    const bool has_strides = strides.data() != nullptr && (!strides.empty() || sizes.empty());
    const at::IntArrayRef steps = has_strides ? C10_AS_INTARRAYREF_SLOW(strides) : at::IntArrayRef();
    at::TensorImpl *impl = self.unsafeGetTensorImpl();
    at::native::checkSetStorage(self, std::move(storage), offset.expect_int(), sizes, steps);
    impl->set_storage_offset(offset.expect_int());
    if (has_strides)
        impl->set_sizes_and_strides(sizes, steps);
    else
        impl->set_sizes_contiguous(sizes);
    if (needed_bytes(self) > self.storage().nbytes())
        resize(self.storage().unsafeGetStorageImpl(), needed_bytes(self));
    return self;
}

Tensor &set_whole_storage(Tensor &self, c10::Storage storage)
{
    const auto elements = static_cast<int64_t>(storage.nbytes() / self.itemsize());
    return set_storage(self, std::move(storage), 0, {c10::SymInt(elements)}, {});
}

Tensor &set_no_storage(Tensor &self)
{
    const auto none = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, allocator(), true);
    return set_storage(self, c10::Storage(none), 0, {c10::SymInt(0)}, {});
}

void record_stream(Tensor &self, c10::Stream stream)
{
    memtrace_torch_record_stream(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(self.storage().data())),
                                 reinterpret_cast<void *>(stream.id()));
}

constexpr int64_t OPEN = 128; /* assumed for a size that a compiler leaves open */

/* Returns a tensor without memory whose shape replaces the open sizes of a traced tensor; any other tensor itself. */
Tensor closed_shape(const Tensor &tensor)
{
    if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
        return tensor;
    std::vector<int64_t> sizes, strides;
    for (const c10::SymInt &size : tensor.sym_sizes())
        sizes.push_back(size.maybe_as_int().value_or(OPEN));
    for (const c10::SymInt &stride : tensor.sym_strides())
        strides.push_back(stride.maybe_as_int().value_or(OPEN));
    return at::detail::empty_strided_meta(sizes, strides, tensor.scalar_type());
}

/* Returns a tensor with the sizes that decide which kernel an operand of attention allows. */
Tensor judged_shape(const Tensor &tensor)
{
    return closed_shape(padded_shape(tensor));
}

/* Rules of fused kernels for nested tensors (sdp_utils_cpp.h): no empty text, heads of whole vectors, and no gradient
 * from the memory-efficient kernel. */
void limit_to_nested(mt_attention_request *request, const Tensor &query)
{
    const bool has_empty = has_text_shorter_than(query, 1);
    request->allows[MT_ATTENTION_FLASH] &= !has_empty && query.size(3) % 8 == 0;
    request->allows[MT_ATTENTION_EFFICIENT] &= !has_empty && !request->needs_gradient;
}

torch::Library *own_library;

} // namespace

Stack place_results(const call &call, twins *shapes, Stack results)
{
    const device_guard guard(call.device);
    shapes->carry_over();
    const Stack of_meta = results;
    take_inside(
        call.op, call.arguments, of_meta, [&](size_t i) { results[i] = shapes->real_of(of_meta[i]); },
        [&](size_t i) {
            results[i] = is_captured_seed(of_meta[i]) ? shapes->real_of(of_meta[i]) : on_host(of_meta[i]);
        });
    return results;
}

int64_t choose_attention(const Tensor &query, const Tensor &key, const Tensor &value, const std::optional<Tensor> &mask,
                         double dropout, bool is_causal, std::optional<double>, bool is_grouped)
{
    const at::Context &context = at::globalContext();
    const bool has_mask = mask.has_value() && mask->defined();
    const bool is_nested = query.is_nested();
    const Tensor query_shape = judged_shape(query), key_shape = judged_shape(key), value_shape = judged_shape(value);
    mt_attention_request request{};
    request.query = operand_of(query_shape);
    request.key = operand_of(key_shape);
    request.value = operand_of(value_shape);
    request.has_mask = has_mask;
    request.has_strided_mask = has_mask && closed_shape(*mask).stride(-1) != 1;
    request.needs_gradient = query.requires_grad() || key.requires_grad() || value.requires_grad();
    request.mask_needs_gradient = has_mask && mask->requires_grad();
    request.is_causal = is_causal;
    request.is_grouped = is_grouped;
    request.is_deterministic = context.deterministicAlgorithms();
    request.dropout = dropout;
    request.allows[MT_ATTENTION_MATH] = context.userEnabledMathSDP();
    request.allows[MT_ATTENTION_FLASH] = context.userEnabledFlashSDP();
    request.allows[MT_ATTENTION_EFFICIENT] = context.userEnabledMemEfficientSDP();
    request.allows[MT_ATTENTION_CUDNN] = context.userEnabledCuDNNSDP() && !is_nested;
    if (is_nested)
        limit_to_nested(&request, query);
    return memtrace_torch_attention(&request);
}

void register_kernels()
{
    const silent_registration silent;
    static torch::Library fallback(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_operator>());
    register_own(aten, "empty.memory_format", &make_empty);
    register_own(aten, "empty_strided", &make_empty_strided);
    register_own(aten, "as_strided", &as_strided);
    register_own(aten, "copy_", &copy);
    register_own(aten, "_local_scalar_dense", &item);
    register_own(aten, "equal", &are_equal);
    register_own(aten, "_amp_foreach_non_finite_check_and_unscale_", &unscale);
    register_own(aten, "set_.source_Storage_storage_offset", &set_storage);
    register_own(aten, "set_.source_Storage", &set_whole_storage);
    register_own(aten, "set_", &set_no_storage);
    register_own(aten, "record_stream", &record_stream);
    at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
    own_library = &aten;
}

} // namespace mt_dry

int memtrace_dry_operator(const char *name)
{
    const mt_dry::silent_registration silent;
    if (mt_dry::own_kernels.count(name) != 0)
        return 0;
    try {
        if (!c10::Dispatcher::singleton().findSchema(torch::jit::parseName(name)))
            return 1;
        mt_dry::own_library->impl(name, torch::CppFunction::makeFromBoxedFunction<&mt_dry::run_operator>());
    } catch (const c10::Error &) {
        return 1;
    }
    return 0;
}
