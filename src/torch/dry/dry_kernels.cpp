/* The kernels of the device: one that serves every operator, and a few that need their own.
 *
 *   call ──▶ the meta kernel on twins ──▶ shapes, strides, views ──▶ blocks for what is new
 *        └─▶ the CPU's kernel on twins, if all values that it reads are known and its results are small ──▶ values
 */
#include "torch/dry/dry_inner.h"
#include "torch/dry/dry_twins.h"

#include "torch/memtrace_torch.h"
#include "torch/torch_plan.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <sstream>

namespace mt_dry
{

using at::Tensor;
using c10::Device;
using c10::IValue;
using c10::OperatorHandle;
using Stack = torch::jit::Stack;

namespace
{

using device_guard = c10::impl::InlineDeviceGuard<c10::impl::VirtualGuardImpl>;

Device card(std::optional<Device> device)
{
    return device.has_value() && device->has_index() ? *device : Device(c10::DeviceType::CUDA, current_device());
}

/* ---- values ---- */

bool is_known(const Tensor &tensor)
{
    if (!is_on_card(tensor))
        return true;
    const block *owner = tensor.has_storage() ? block_of(tensor.storage().unsafeGetStorageImpl()) : nullptr;
    return owner == nullptr || owner->is_known;
}

void forget_values(const Tensor &tensor)
{
    if (block *owner = is_on_card(tensor) ? block_of(tensor.storage().unsafeGetStorageImpl()) : nullptr)
        owner->is_known = false;
}

/* Returns a tensor on the CPU over the values of one on a card. */
Tensor values_of(const Tensor &tensor)
{
    return twins(c10::DeviceType::CPU).twin_of(tensor).toTensor();
}

/* ---- the kernel of every operator ---- */

/* A call of an operator, with its arguments as they came. */
struct call {
    const OperatorHandle &op;
    std::vector<IValue> arguments;
    Device device;
    bool reads_known = true;

    call(const OperatorHandle &op, const Stack &stack)
        : op(op), arguments(stack.end() - static_cast<ptrdiff_t>(op.schema().arguments().size()), stack.end()),
          device(card(std::nullopt))
    {
        bool is_found = false;
        for (const IValue &argument : arguments) {
            if (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::CUDA)
                device = card(argument.toDevice());
            each_tensor(argument, [&](const Tensor &tensor) {
                reads_known = reads_known && is_known(tensor);
                if (!is_found && is_on_card(tensor)) {
                    device = tensor.device();
                    is_found = true;
                }
            });
        }
    }

    /* Calls the operator with twins in the place of the arguments, and returns its results. */
    Stack run(twins &twins) const
    {
        Stack stack;
        stack.reserve(arguments.size());
        for (const IValue &argument : arguments)
            stack.push_back(twins.twin_of(argument));
        op.callBoxed(stack);
        return stack;
    }

    /* Marks what the operator writes as not known. Gradients that were not computed are taken for finite: the scaler's search
     * for others leaves its answer as it is. */
    void forget_written() const
    {
        const bool searches = op.schema().name() == "aten::_amp_foreach_non_finite_check_and_unscale_";
        for (size_t i = 0; i < (searches ? 1 : arguments.size()); i++) {
            const c10::AliasInfo *alias = op.schema().arguments()[i].alias_info();
            if (alias != nullptr && alias->isWrite())
                each_tensor(arguments[i], forget_values);
        }
    }
};

/* Copies the values of results that the CPU has computed into the new blocks. */
void keep_values(const Stack &computed, const Stack &results, const twins &known)
{
    for (size_t i = 0; i < results.size(); i++) {
        std::vector<Tensor> from, to;
        each_tensor(computed[i], [&](const Tensor &tensor) { from.push_back(tensor); });
        each_tensor(results[i], [&](const Tensor &tensor) { to.push_back(tensor); });
        for (size_t j = 0; j < to.size() && j < from.size(); j++)
            if (is_on_card(to[j]) && from[j].storage().data() != values_of(to[j]).storage().data())
                values_of(to[j]).copy_(from[j]);
    }
    (void)known;
}

/* Computes values with the CPU's kernel. Fails where there is none; the values are then not known. */
bool compute(const call &call, const Stack &results)
{
    twins on_cpu(c10::DeviceType::CPU);
    try {
        const Stack computed = call.run(on_cpu);
        keep_values(computed, results, on_cpu);
    } catch (const c10::Error &) {
        return false;
    }
    return true;
}

bool are_small(const twins &shapes, const Stack &results)
{
    for (const IValue &result : results)
        for (uint64_t bytes : shapes.new_bytes(result))
            if (bytes > MOST_VALUE_BYTES)
                return false;
    return true;
}

void forget_results(const Stack &results)
{
    for (const IValue &result : results)
        each_tensor(result, forget_values);
}

/* Replaces the results of the CPU's kernel by tensors on the card, for operators whose shapes depend on values. */
void run_by_values(const call &call, Stack *stack)
{
    twins on_cpu(c10::DeviceType::CPU);
    Stack computed = call.run(on_cpu);
    const device_guard guard(call.device);
    for (IValue &result : computed) {
        IValue real = on_cpu.real_of(result, call.device);
        stack->push_back(real);
    }
    Stack results(stack->end() - static_cast<ptrdiff_t>(computed.size()), stack->end());
    keep_values(computed, results, on_cpu);
    count_unknown(call.op, results);
}

/* True if the operator fills its first argument with random numbers. Its shape stays, and the meta kernels of these are
 * Python. */
bool fills_with_random(const OperatorHandle &op)
{
    const auto &returns = op.schema().returns();
    return op.hasTag(at::Tag::nondeterministic_seeded) && returns.size() == 1 && op.schema().arguments().size() > 0 &&
           returns[0].alias_info() != nullptr && returns[0].alias_info()->isWrite() &&
           !op.schema().arguments()[0].is_out();
}

/* Returns a tensor on the host in the place of a result: zeros. */
IValue on_host(const IValue &result)
{
    const Tensor &shape = result.toTensor();
    return at::zeros(shape.sizes(), shape.options().device(c10::DeviceType::CPU));
}

void run_operator(const OperatorHandle &op, c10::DispatchKeySet, Stack *stack)
{
    const call call(op, *stack);
    if (fills_with_random(op)) {
        stack->erase(stack->end() - static_cast<ptrdiff_t>(call.arguments.size()), stack->end());
        if (!call.reads_known || !compute(call, {call.arguments[0]}))
            call.forget_written();
        stack->push_back(call.arguments[0]);
        return;
    }
    twins shapes(c10::DeviceType::Meta);
    Stack results;
    stack->erase(stack->end() - static_cast<ptrdiff_t>(call.arguments.size()), stack->end());
    try {
        results = call.run(shapes);
    } catch (const c10::NotImplementedError &) {
        if (!call.reads_known)
            throw;
        run_by_values(call, stack);
        return;
    }
    const bool is_computed = call.reads_known && are_small(shapes, results);
    const device_guard guard(call.device);
    shapes.carry_over();
    const Stack of_meta = results;
    take_inside(
        op, call.arguments, of_meta, [&](size_t i) { results[i] = shapes.real_of(of_meta[i], call.device); },
        [&](size_t i) { results[i] = on_host(of_meta[i]); });
    if (!is_computed || !compute(call, results)) {
        call.forget_written();
        if (!is_computed)
            forget_results(results);
    }
    for (IValue &result : results)
        stack->push_back(std::move(result));
}

/* ---- operators of their own ---- */

Tensor make_empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                  std::optional<Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format)
{
    const device_guard guard(card(device));
    describe_next(c10::dtype_or_default(type), C10_AS_INTARRAYREF_SLOW(size));
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), allocator(),
                                     c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(type), format);
}

Tensor make_empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef strides, std::optional<c10::ScalarType> type,
                          std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool>)
{
    const device_guard guard(card(device));
    describe_next(c10::dtype_or_default(type), C10_AS_INTARRAYREF_SLOW(size));
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides),
                                             allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                             c10::dtype_or_default(type));
}

/* Copies values where they are known, and forgets them where they are not. */
void copy_values(const Tensor &to, const Tensor &from)
{
    if (!is_known(from) || !is_known(to)) {
        if (is_on_card(to))
            forget_values(to);
        return;
    }
    Tensor target = is_on_card(to) ? values_of(to) : to;
    target.copy_(is_on_card(from) ? values_of(from) : from);
}

/* Copies, with the temporaries of native/cuda/Copy.cu (copy_requires_temporaries): between the host and a card, both sides
 * must be contiguous and of one dtype. */
Tensor &copy(Tensor &to, const Tensor &from, bool non_blocking)
{
    if (to.is_same(from))
        return to;
    const bool is_local = is_on_card(to) == is_on_card(from);
    const bool is_plain = to.scalar_type() == from.scalar_type() && to.is_contiguous() && from.is_contiguous() &&
                          to.sizes() == from.sizes();
    if (is_local || is_plain) {
        copy_values(to, from);
        return to;
    }
    const Tensor target = to.is_contiguous() ? to : at::empty_like(to, at::MemoryFormat::Contiguous);
    const Tensor source = from.to(to.scalar_type()).expand_as(to).contiguous();
    copy_values(target, source);
    if (!target.is_same(to))
        to.copy_(target, non_blocking);
    return to;
}

/* What a value is that was not computed, and who is told of it. */
double assumed = 1;
void (*on_assumption)(const char *words);

void tell_assumption(const std::string &words)
{
    if (on_assumption != nullptr)
        on_assumption(words.c_str());
}

/* Returns the value of a tensor of one element, or what is assumed of one that was not computed: for whole numbers 1, for
 * truth values false. */
at::Scalar item(const Tensor &tensor)
{
    if (is_known(tensor))
        return at::_local_scalar_dense(values_of(tensor));
    std::ostringstream words;
    const bool is_float = at::isFloatingType(tensor.scalar_type()), is_bool = tensor.scalar_type() == at::kBool;
    words << "the program asks for a value that was not computed; "
          << (is_bool    ? 0
              : is_float ? assumed
                         : 1)
          << " is assumed";
    tell_assumption(words.str());
    if (is_float)
        return at::Scalar(assumed);
    return tensor.scalar_type() == at::kBool ? at::Scalar(false) : at::Scalar(static_cast<int64_t>(1));
}

Tensor &set_storage(Tensor &self, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                    c10::SymIntArrayRef strides)
{
    at::TensorImpl *impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(storage));
    impl->set_storage_offset(offset.expect_int());
    if (strides.data() != nullptr && (strides.size() > 0 || size.size() == 0))
        impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides));
    else
        impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
    return self;
}

void record_stream(Tensor &self, c10::Stream stream)
{
    memtrace_torch_record_stream(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(self.storage().data())),
                                 reinterpret_cast<void *>(stream.id()));
}

/* Returns the kernel that the card chooses. */
int64_t choose_attention(const Tensor &query, const Tensor &key, const Tensor &value, const std::optional<Tensor> &mask,
                         double dropout, bool is_causal, std::optional<double>, bool is_grouped)
{
    const at::Context &context = at::globalContext();
    const bool has_mask = mask.has_value() && mask->defined();
    mt_attention_request request{};
    request.query = operand_of(query);
    request.key = operand_of(key);
    request.value = operand_of(value);
    request.has_mask = has_mask;
    request.needs_gradient = query.requires_grad() || key.requires_grad() || value.requires_grad();
    request.mask_needs_gradient = has_mask && mask->requires_grad();
    request.is_causal = is_causal;
    request.is_grouped = is_grouped;
    request.is_deterministic = context.deterministicAlgorithms();
    request.dropout = dropout;
    request.allows[MT_ATTENTION_MATH] = context.userEnabledMathSDP();
    request.allows[MT_ATTENTION_FLASH] = context.userEnabledFlashSDP();
    request.allows[MT_ATTENTION_EFFICIENT] = context.userEnabledMemEfficientSDP();
    request.allows[MT_ATTENTION_CUDNN] = context.userEnabledCuDNNSDP();
    return memtrace_torch_attention(&request);
}

torch::Library *library;

/* Says nothing: where PyTorch has kernels for CUDA, ours take their place. */
class silence final : public c10::WarningHandler
{
  public:
    void process(const c10::Warning &) override
    {
    }
};

silence no_warnings;

} // namespace

void register_kernels()
{
    const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
    static torch::Library fallback(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_operator>());
    aten.impl("empty.memory_format", &make_empty);
    aten.impl("empty_strided", &make_empty_strided);
    aten.impl("copy_", &copy);
    aten.impl("_local_scalar_dense", &item);
    aten.impl("set_.source_Storage_storage_offset", &set_storage);
    aten.impl("record_stream", &record_stream);
    at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
    library = &aten;
}

} // namespace mt_dry

extern "C" {

/* Sets the number that a value has that was not computed, and the function that is told of each such place. */
void memtrace_dry_assume(double value, void (*tell)(const char *words))
{
    mt_dry::assumed = value;
    mt_dry::on_assumption = tell;
}

/* Has an operator ("aten::add.Tensor") use the kernel of every operator: one that has a kernel for CUDA, and would otherwise
 * be decomposed. Returns 0; 1 if this PyTorch does not know it. */
int memtrace_dry_operator(const char *name)
{
    const c10::WarningUtils::WarningHandlerGuard guard(&mt_dry::no_warnings);
    try {
        if (!c10::Dispatcher::singleton().findSchema(torch::jit::parseName(name)))
            return 1;
        mt_dry::library->impl(name, torch::CppFunction::makeFromBoxedFunction<&mt_dry::run_operator>());
    } catch (const c10::Error &) {
        return 1;
    }
    return 0;
}
}
